//! A server with all three doors, an honest player at each, and somebody at the R-Type and FigNet doors who sends what the
//! input says: raw bytes, and bytes behind valid headers. The honest players play on, and every bound holds.
#![no_main]

use std::net::SocketAddr;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use tickwire::client::aegis::{Phase, Settings as AegisSettings};
use tickwire::client::{fignet, rtype};
use tickwire::limits::Limits;
use tickwire::model::Name;
use tickwire::rng::{Rng, TokenSource};
use tickwire::seam::Door;
use tickwire::server::{FignetSettings, Server, Settings};
use tickwire::session::fignet::{DEFAULT_CONFIG, NetworkConfig};
use tickwire::sim::{Faults, Sim};
use tickwire::time::Duration;
use tickwire::world::rtype::{Level, RtypeGame, Rules};

const ENTITIES: usize = 64;

fuzz_target!(|data: &[u8]| {
    let limits = Limits::new(2, ENTITIES).with_rtype();
    let config = NetworkConfig { max_peers: 4, ..DEFAULT_CONFIG };
    let settings =
        Settings { fignet: Some(FignetSettings { config, epoch: 1 }), ..Settings::new(limits) };
    let level = Arc::new(Level::builtin("level1").expect("the first level"));
    let make = |_| RtypeGame::new(Arc::clone(&level), Rules::default(), ENTITIES);
    let server = Server::new(settings, TokenSource::Seeded(Rng::new(1)), make);
    let mut sim = Sim::new(server, limits.streams, Faults::default(), 1);
    let at = |last: u8, port: u16| SocketAddr::from(([10, 0, 0, last], port));
    let name = Name::new(b"fuzz").expect("a name");
    sim.connect(&AegisSettings { name, entities_max: ENTITIES, snapshots_kept: 22 }, at(1, 1));
    let fignet = fignet::Settings { config, entities_max: ENTITIES, snapshot_interval: 3 };
    for host in [1, 2] {
        sim.connect_rtype(&rtype::Settings { entities_max: ENTITIES }, at(host, 2), None);
        sim.connect_fignet(&fignet, at(host, 3), u32::from(host), None, None);
    }
    sim.run(Duration::from_millis(400), |_, _, _| ());
    let connection = sim.rtype_peers[1].client.connection();
    let (mut rtype_sequence, mut fignet_sequence) = (1000u32, 0u16);
    let mut rest = data;
    // What to do, how long, and the bytes.
    while let [what, len, tail @ ..] = rest {
        let (bytes, after) = tail.split_at(usize::from(*len).min(tail.len()));
        rest = after;
        match what % 5 {
            0 => sim.datagram_at(Door::Rtype, at(9, u16::from(what >> 4)), bytes),
            1 => sim.datagram_at(Door::Fignet, at(9, u16::from(what >> 4)), bytes),
            2 => {
                rtype_sequence += 1;
                let header = [connection, rtype_sequence, u32::from(*len), u32::MAX];
                let mut packet: Vec<u8> = header.iter().flat_map(|field| field.to_be_bytes()).collect();
                packet.extend(bytes);
                sim.datagram_at(Door::Rtype, at(2, 2), &packet);
            }
            3 => {
                // Type and flags from the input, and a length that is right.
                let (head, body) = bytes.split_at(bytes.len().min(4));
                fignet_sequence = fignet_sequence.wrapping_add(1);
                let mut packet = config.protocol_id.to_le_bytes().to_vec();
                packet.extend(head.iter().chain(&[0; 4]).take(2));
                packet.extend(fignet_sequence.to_le_bytes());
                packet.extend(head.iter().skip(2).chain(&[0; 4]).take(2));
                packet.extend([what >> 5, 0]);
                packet.extend((body.len() as u16).to_le_bytes());
                packet.extend(body);
                sim.datagram_at(Door::Fignet, at(2, 3), &packet);
            }
            _ => sim.run(Duration::from_millis(u64::from(*len)), |_, _, _| ()),
        }
        let pools = sim.server.pools();
        assert!(pools.peers <= 4 && pools.endpoints <= 8 && pools.sessions <= 8 + 4, "{pools:?}");
    }
    sim.run(Duration::from_millis(100), |_, _, _| ());
    assert_eq!(sim.peers[0].client.phase(), Phase::Playing, "the honest players play on");
    assert_eq!(sim.rtype_peers[0].client.phase(), rtype::Phase::Playing);
    assert_eq!(sim.fignet_peers[0].client.phase(), fignet::Phase::Playing);
    assert_eq!((sim.rtype_peers[0].positions_wrong, sim.fignet_peers[0].entities_wrong), (0, 0));
});
