use super::*;

#[test]
fn players_are_named_after_their_ships() {
    let names: Vec<Name> = PlayerId::all().map(player_name).collect();
    assert_eq!(
        names.iter().map(Name::as_str).collect::<Vec<_>>(),
        ["player_blue", "player_green", "player_pink", "player_red",]
    );
}
