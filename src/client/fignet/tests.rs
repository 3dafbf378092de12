use super::*;
use crate::session::fignet::DEFAULT_CONFIG;

#[test]
fn nobody_answers() {
    let settings = Settings { config: DEFAULT_CONFIG, entities_max: 16, snapshot_interval: 3 };
    let mut now = Instant::from_millis(1000);
    let mut client = Client::new(now, &settings, 7, None);
    let mut buffer = [0; MTU_MAX];
    let mut sent = 0;
    while !client.is_over() {
        while client.transmit(now, &mut buffer).is_some() {
            sent += 1;
        }
        now = now + Duration::from_millis(10);
    }
    assert_eq!(client.phase(), Phase::Over(Over::Failed(ErrorCode::Timeout)));
    assert!((4..20).contains(&sent), "{sent} CONNECTs");
    assert!(now <= Instant::from_millis(6100));
    assert_eq!(client.say("hello"), Err(SendError::NotConnected));
}
