//! A world far too large for one datagram: nothing starves, and clients come to hold exactly what the server holds.

mod common;

use std::collections::BTreeMap;

use tickwire::client::aegis::Settings;
use tickwire::limits::Limits;
use tickwire::model::{Entity, Name};
use tickwire::sim::{Faults, Sim};
use tickwire::time::Duration;
use tickwire::world::rtype::{ENTITIES_RESERVED, Level, RtypeGame};

const CROWD: u32 = 2000;
const ENTITIES: usize = CROWD as usize + ENTITIES_RESERVED;
/// Two seconds: how long an entity may be wrong at a client.
const WRONG_TICKS_MAX: u32 = 120;

/// The stress level as it ships turns 3,000 entities a second, more than a client's 20 datagrams can tell of. Nobody has
/// everything right then, but every entity gets its turn.
#[test]
fn no_entity_starves_when_more_changes_than_can_be_told() {
    let level =
        Level::builtin("stress").and_then(|level| level.with_entities(CROWD).ok()).expect("the stress level");
    let mut sim = crowd(level, 4);
    let watches = watch(&mut sim, 16);
    assert!(sim.server.encoder_stats().budgeted > 1000, "{:?}", sim.server.encoder_stats());
    for watch in watches {
        assert!(watch.looks > 300);
        assert!(
            watch.longest_ticks <= WRONG_TICKS_MAX,
            "an entity was wrong for {} ticks",
            watch.longest_ticks
        );
    }
}

/// A crowd of the same size that only turns at the walls: who joins late has everything right within two seconds, and
/// keeps it so.
#[test]
fn a_latecomer_converges_to_the_servers_table() {
    let text = format!(
        "name = \"drift\"\n[stress]\nentities = {CROWD}\nspeed = 32\nweave_percent = 0\nturn_ticks = 20\nhealth = 2\nscore = 10\n"
    );
    let mut sim = crowd(Level::parse(&text).expect("a level"), 3);
    assert_eq!(sim.server.encoder_stats().budgeted, 0, "the crowd grew slowly enough");
    sim.connect(&settings(), common::address(3));
    sim.run(Duration::from_secs(2), common::bots());
    assert!(sim.server.encoder_stats().budgeted > 10, "{:?}", sim.server.encoder_stats());
    let watches = watch(&mut sim, 8);
    for watch in watches {
        assert_eq!(watch.longest_ticks, 0, "everything was right two seconds after the last one joined");
        assert_eq!(watch.exact, watch.looks);
    }
}

/// A room of `level` with some players, once its crowd is there: eight appear in a tick.
fn crowd(level: Level, players: usize) -> Sim<RtypeGame> {
    let server = common::server_with(1, ENTITIES, 3, level, 3);
    let faults = Faults { delay_ms: 8, ..Faults::default() };
    let mut sim = Sim::new(server, Limits::new(1, ENTITIES).streams, faults, 3);
    for player in 0..players {
        sim.connect(&settings(), common::address(player));
    }
    sim.run(Duration::from_secs(8), common::bots());
    sim
}

fn settings() -> Settings {
    Settings { name: Name::new(b"bot").expect("a name"), entities_max: ENTITIES, snapshots_kept: 23 }
}

/// Looks at every client 20 times a second.
fn watch(sim: &mut Sim<RtypeGame>, seconds: u32) -> Vec<Watch> {
    let mut watches: Vec<Watch> = sim.peers.iter().map(|_| Watch::default()).collect();
    for _ in 0..20 * seconds {
        sim.run(Duration::from_millis(50), common::bots());
        for (peer, watch) in sim.peers.iter().zip(&mut watches) {
            let table = peer.client.table().expect("a snapshot");
            let truth = sim.truth(0, table.tick()).expect("a tick that is remembered");
            watch.look(table.tick(), table.iter().map(|(index, entity)| (index, *entity)), &truth.entities);
        }
    }
    for watch in &watches {
        println!(
            "wrong for at most {} ticks, {:.1} of {CROWD} entities on average; {} looks of {} exact",
            watch.longest_ticks,
            watch.wrong_total as f64 / watch.looks as f64,
            watch.exact,
            watch.looks
        );
    }
    watches
}

/// How long each entity has been wrong at one client.
#[derive(Default)]
struct Watch {
    wrong_since: BTreeMap<u32, u32>,
    longest_ticks: u32,
    wrong_total: usize,
    exact: usize,
    looks: usize,
}

impl Watch {
    fn look(&mut self, tick: u32, client: impl Iterator<Item = (u32, Entity)>, server: &[(u32, Entity)]) {
        let client: BTreeMap<u32, Entity> = client.collect();
        let server: BTreeMap<u32, Entity> = server.iter().copied().collect();
        let is_wrong = |index: &u32| client.get(index) != server.get(index);
        self.wrong_since.retain(|index, _| is_wrong(index));
        for index in client.keys().chain(server.keys()).copied().filter(|index| is_wrong(index)) {
            let since = *self.wrong_since.entry(index).or_insert(tick);
            self.longest_ticks = self.longest_ticks.max(tick - since);
        }
        self.wrong_total += self.wrong_since.len();
        self.exact += usize::from(self.wrong_since.is_empty());
        self.looks += 1;
    }
}
