//! Streams and datagrams at a server on which somebody plays: whatever strangers and the player's own address say, no
//! panic, and nobody else is harmed.
#![no_main]

use std::net::SocketAddr;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use tickwire::client::aegis::{Phase, Settings as ClientSettings};
use tickwire::limits::Limits;
use tickwire::model::Name;
use tickwire::rng::{Rng, TokenSource};
use tickwire::server::{Server, Settings};
use tickwire::sim::{Faults, Sim};
use tickwire::time::Duration;
use tickwire::world::rtype::{Level, Rules, RtypeGame};

const ENTITIES: usize = 64;

fuzz_target!(|data: &[u8]| {
    let limits = Limits::new(1, ENTITIES);
    let settings = Settings { sessions_per_address: 4, ..Settings::new(limits) };
    let level = Arc::new(Level::builtin("level1").expect("the first level"));
    let make = |_| RtypeGame::new(Arc::clone(&level), Rules::default(), ENTITIES);
    let server = Server::new(settings, TokenSource::Seeded(Rng::new(1)), make);
    let mut sim = Sim::new(server, limits.streams, Faults::default(), 1);
    let name = Name::new(b"fuzz").expect("a name");
    let client = ClientSettings { name, entities_max: ENTITIES, snapshots_kept: 22 };
    let honest = SocketAddr::from(([10, 0, 0, 1], 5000));
    let hostile = SocketAddr::from(([10, 0, 0, 2], 5000));
    sim.connect(&client, honest);
    sim.connect(&client, hostile);
    sim.run(Duration::from_millis(100), |_, _, _| ());
    let token = sim.peers[1].client.link().token();
    let stream = sim.open_stream(SocketAddr::from(([10, 0, 0, 3], 9)));
    let mut rest = data;
    // What to do, how long, and the bytes.
    while let [what, len, tail @ ..] = rest {
        let (bytes, after) = tail.split_at(usize::from(*len).min(tail.len()));
        rest = after;
        match what % 4 {
            0 => sim.datagram(hostile, bytes),
            1 => {
                // With a valid beginning and the right token.
                let mut datagram = b"RTYP\x01".to_vec();
                datagram.extend(bytes.iter().take(9));
                datagram.resize(14, 0);
                datagram.extend(token.to_le_bytes());
                datagram.extend(bytes.iter().skip(9));
                sim.datagram(hostile, &datagram);
            }
            2 if !bytes.is_empty() => sim.stream_bytes(stream, bytes),
            _ => sim.run(Duration::from_millis(u64::from(*len)), |_, _, _| ()),
        }
    }
    sim.run(Duration::from_millis(100), |_, _, _| ());
    assert_eq!(sim.peers[0].client.phase(), Phase::Playing, "the honest player plays on");
    assert!(sim.server.pools().sessions <= 4);
});
