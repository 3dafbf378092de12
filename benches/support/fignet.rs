//! The recorded rooms as FigNet tells them to a peer.

use tickwire::model::PlayerId;
use tickwire::snapshot::fignet::{Area, Encoder, PeerView, Request};
use tickwire::wire::fignet::snapshot::{MESSAGE_BYTES_MAX, Precision};

use crate::corpus::{Frame, Recording};

/// The plain messages to one peer that sees the whole playfield, each as a delta over `age` ticks, or full. Those before
/// the first acknowledgement are left out.
pub fn messages(recording: &Recording, precision: Precision, age: Option<u32>) -> Vec<Vec<u8>> {
    let mut encoder = Encoder::new(recording.entities_max, precision);
    let mut peer = PeerView::new(recording.entities_max, recording.interval);
    let mut out = [0; MESSAGE_BYTES_MAX];
    let mut messages = Vec::new();
    let first = recording.frames[0].tick;
    recording.play(|frame, history| {
        let acked = age.filter(|&age| frame.tick.since(first) >= age);
        if let Some(age) = acked {
            peer.acknowledged(tickwire::time::Tick(frame.tick.0 - age));
        }
        let request = Request {
            history,
            timestamp_us: u64::from(frame.tick.0) * 1_000_000 / 60,
            area: Area::around(0, 0, 1920 * 64, 1080 * 64),
            focus: own_ship(frame),
        };
        let len = encoder.encode(&request, &mut peer, &mut out);
        if acked.is_some() || age.is_none() {
            messages.push(out[..len].to_vec());
        }
    });
    messages
}

/// The first player's ship.
fn own_ship(frame: &Frame) -> Option<u32> {
    let is_own = |entity: &tickwire::model::Entity| {
        entity.kind == tickwire::model::Kind::SHIP && entity.owner() == PlayerId::new(0)
    };
    frame.entities.iter().find(|(_, entity)| is_own(entity)).map(|(index, _)| *index)
}
