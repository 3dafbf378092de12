//! A second opinion on an R-Type connection, apart from the client that plays: sequences and acknowledgements in 32 bits,
//! the round trip of Pings, when Snapshots come, and that everything is created and destroyed once.

use std::collections::{BTreeMap, VecDeque};

use tickwire::client::rtype::ClientStats;
use tickwire::time::{Instant, Tick};
use tickwire::wire::rtype::message::{ClientMessage, CreateEntity, DestroyEntity, ServerMessage};
use tickwire::wire::rtype::snapshot::Snapshot;
use tickwire::wire::rtype::{Header, Packet};

use super::super::checks::{Cadence, SentWindow};
use crate::tally::{Fault, Tally};

/// Entities remembered after they were destroyed, so that late words about them are told from news.
const DESTROYED_KEPT: usize = 256;

/// The judge of one connection.
#[derive(Debug)]
pub(super) struct Judge {
    /// The sequence of a packet is its index and one.
    sent: SentWindow,
    /// Sequence and acknowledgement of the newest packet received.
    newest: Option<(u32, u32)>,
    /// Timestamp of the Ping that waits for its Pong, and when it was sent.
    ping: Option<(u32, Instant)>,
    cadence: Cadence,
    /// Tick of the newest Snapshot, and the ticks from one to the next, which the server does not say.
    snapshot_tick: Option<u32>,
    interval_ticks: u32,
    /// Entities that are there, with the ticks of their creation.
    alive: BTreeMap<u32, u32>,
    /// Entities that are not any more, with the ticks of their end, oldest first.
    destroyed: VecDeque<(u32, u32)>,
    /// What the client should have counted.
    creates: u64,
    destroys: u64,
    /// What it had counted when it was last looked at.
    seen: ClientStats,
}

impl Judge {
    /// The judge of a connection that gets a Snapshot every `interval_ticks`.
    pub(super) fn new(interval_ticks: u32) -> Self {
        Self {
            sent: SentWindow::new(),
            newest: None,
            ping: None,
            cadence: Cadence::default(),
            snapshot_tick: None,
            interval_ticks,
            alive: BTreeMap::new(),
            destroyed: VecDeque::new(),
            creates: 0,
            destroys: 0,
            seen: ClientStats::default(),
        }
    }

    /// A packet goes out at `now`.
    pub(super) fn sent(&mut self, now: Instant, bytes: &[u8], tally: &mut Tally) {
        let mut is_input = false;
        for message in Packet::parse(bytes).iter().flat_map(|packet| packet.messages()) {
            match ClientMessage::parse(&message) {
                Ok(ClientMessage::Input(_)) => is_input = true,
                Ok(ClientMessage::Ping(ping)) => self.ping = Some((ping.timestamp, now)),
                _ => {}
            }
        }
        self.sent.push(now, is_input, tally);
    }

    /// A packet of this connection came at `now`, which the client has taken in: `stats` are what it counted.
    pub(super) fn received(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        stats: &ClientStats,
        tally: &mut Tally,
    ) {
        self.judge_header(packet.header(), tally);
        for message in packet.messages() {
            match ServerMessage::parse(&message) {
                Ok(ServerMessage::Snapshot(snapshot)) => self.judge_snapshot(now, &snapshot, tally),
                Ok(ServerMessage::CreateEntity(create)) => self.create(&create, tally),
                Ok(ServerMessage::DestroyEntity(destroy)) => self.destroy(&destroy, tally),
                Ok(ServerMessage::Pong(pong)) => {
                    if let Some((_, at)) = self.ping.take_if(|(timestamp, _)| *timestamp == pong.timestamp) {
                        tally.rtt(now.since(at));
                    }
                }
                // The client counts them.
                Err(_) => {}
            }
        }
        self.compare(stats, tally);
    }

    fn judge_header(&mut self, header: &Header, tally: &mut Tally) {
        if let Some((newest, newest_ack)) = self.newest {
            if header.sequence <= newest {
                // What comes twice is counted by the client, which knows it.
                tally.fault(Fault::Reordered);
                return;
            }
            tally.faults.add(Fault::Lost, u64::from(header.sequence - newest - 1));
            if header.ack < newest_ack {
                tally.fault(Fault::AckBackwards);
            }
        }
        self.newest = Some((header.sequence, header.ack));
        if header.ack == 0 {
            // Nothing received yet, says the server.
            return;
        }
        if u64::from(header.ack) > self.sent.count() {
            tally.fault(Fault::AckUnsent);
            return;
        }
        // The round trip is that of Pings.
        let _ = self.sent.acknowledge(u64::from(header.ack) - 1, header.ack_bits, tally);
    }

    /// A Snapshot of several packets counts with the first.
    fn judge_snapshot(&mut self, now: Instant, snapshot: &Snapshot<'_>, tally: &mut Tally) {
        for state in snapshot.iter() {
            if !self.alive.contains_key(&state.id.0) && self.destroyed_at(state.id.0).is_none() {
                tally.fault(Fault::UnknownEntity);
            }
        }
        if self.snapshot_tick.replace(snapshot.tick) != Some(snapshot.tick) {
            self.cadence.snapshot(now, Tick(snapshot.tick), self.interval_ticks, tally);
        }
    }

    fn create(&mut self, create: &CreateEntity, tally: &mut Tally) {
        let id = create.id.0;
        let is_overtaken = self.destroyed_at(id).is_some_and(|at| !is_after(create.tick, at));
        if is_overtaken || self.alive.contains_key(&id) {
            tally.counters.events_again += 1;
            return;
        }
        self.alive.insert(id, create.tick);
        self.creates += 1;
        tally.counters.events += 1;
    }

    fn destroy(&mut self, destroy: &DestroyEntity, tally: &mut Tally) {
        let id = destroy.id.0;
        let created = self.alive.get(&id).copied();
        if created.is_some_and(|created| is_after(created, destroy.tick)) {
            tally.counters.events_again += 1;
            return;
        }
        self.destroyed.retain(|(gone, _)| *gone != id);
        if self.destroyed.len() == DESTROYED_KEPT {
            self.destroyed.pop_front();
        }
        self.destroyed.push_back((id, destroy.tick));
        if self.alive.remove(&id).is_none() {
            tally.counters.events_again += 1;
            return;
        }
        self.destroys += 1;
        tally.counters.events += 1;
    }

    fn destroyed_at(&self, id: u32) -> Option<u32> {
        self.destroyed.iter().rev().find(|(gone, _)| *gone == id).map(|&(_, at)| at)
    }

    /// The client created and destroyed what this judge did, and nothing twice.
    fn compare(&mut self, stats: &ClientStats, tally: &mut Tally) {
        // A client that is full knows less from then on, and that was told.
        if stats.creates_lost == 0 {
            let wrong = self.creates.abs_diff(stats.creates) + self.destroys.abs_diff(stats.destroys);
            tally.faults.add(Fault::EventRepeated, wrong);
        }
        // Each difference is told once.
        (self.creates, self.destroys) = (stats.creates, stats.destroys);
        tally.faults.add(Fault::NoRoom, stats.creates_lost - self.seen.creates_lost);
        tally.faults.add(Fault::Malformed, stats.messages_malformed - self.seen.messages_malformed);
        tally.faults.add(Fault::EventIgnored, stats.messages_unknown - self.seen.messages_unknown);
        self.seen = *stats;
    }
}

/// Whether tick `a` is later than `b`.
const fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

#[cfg(test)]
mod tests {
    use tickwire::model::EntityId;
    use tickwire::wire::rtype::PacketWriter;
    use tickwire::wire::rtype::blueprint::Blueprint;
    use tickwire::wire::rtype::message::{DestroyReason, Input, Ping, Pong};
    use tickwire::wire::rtype::snapshot::EntityState;
    use tickwire::wire::rtype::value::{Pos16, Rot16};

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn measuring() -> Tally {
        Tally { is_measuring: true, ..Tally::new() }
    }

    fn packet(sequence: u32, ack: u32, ack_bits: u32, write: impl FnOnce(&mut PacketWriter<'_>)) -> Vec<u8> {
        let mut out = [0; 548];
        let mut writer = PacketWriter::new(&Header { connection: 7, sequence, ack, ack_bits }, &mut out);
        write(&mut writer);
        let len = writer.finish();
        out[..len].to_vec()
    }

    fn hear(judge: &mut Judge, ms: u64, bytes: &[u8], stats: ClientStats, tally: &mut Tally) {
        judge.received(at(ms), &Packet::parse(bytes).expect("a packet"), &stats, tally);
    }

    fn create(tick: u32, id: u32) -> CreateEntity {
        let archetype = Blueprint::Bydos.archetype();
        let (x, y) = (Pos16(0), Pos16(0));
        CreateEntity { tick, id: EntityId(id), archetype, x, y, rotation: Rot16(0) }
    }

    fn counted(creates: u64, destroys: u64) -> ClientStats {
        ClientStats { creates, destroys, ..ClientStats::default() }
    }

    #[test]
    fn inputs_are_acknowledged_once_and_only_what_was_sent() {
        let (mut judge, mut tally) = (Judge::new(3), measuring());
        let input = Input { sequence: 1, client_tick: 1, controls: Default::default() };
        for sequence in 1..=3 {
            judge.sent(
                at(sequence),
                &packet(sequence as u32, 0, 0, |out| assert!(out.push(&input))),
                &mut tally,
            );
        }
        for (sequence, ack, bits) in [(1, 0, 0), (2, 2, 0b1), (3, 3, 0b11)] {
            hear(&mut judge, 9, &packet(sequence, ack, bits, |_| ()), counted(0, 0), &mut tally);
        }
        assert_eq!((tally.counters.inputs_sent, tally.counters.inputs_acked), (3, 3));
        assert_eq!(tally.faults.total(), 0);
        hear(&mut judge, 9, &packet(4, 4, 0, |_| ()), counted(0, 0), &mut tally);
        hear(&mut judge, 9, &packet(5, 3, 0b111, |_| ()), counted(0, 0), &mut tally);
        assert_eq!(tally.faults.count(Fault::AckUnsent), 2, "the fourth, and one before the first");
    }

    #[test]
    fn gaps_reorders_and_acks_that_fall_are_told_apart() {
        let (mut judge, mut tally) = (Judge::new(3), measuring());
        (0..9).for_each(|ms| judge.sent(at(ms), &packet(ms as u32 + 1, 0, 0, |_| ()), &mut tally));
        for (sequence, ack) in [(3, 5), (6, 6), (5, 6), (7, 4)] {
            hear(&mut judge, 9, &packet(sequence, ack, 0, |_| ()), counted(0, 0), &mut tally);
        }
        let count = |fault| tally.faults.count(fault);
        assert_eq!([Fault::Lost, Fault::Reordered, Fault::AckBackwards].map(count), [2, 1, 1]);
        assert_eq!(tally.faults.total(), 4);
    }

    #[test]
    fn a_pong_gives_the_round_trip_of_its_ping() {
        let (mut judge, mut tally) = (Judge::new(3), measuring());
        judge.sent(at(10), &packet(1, 0, 0, |out| assert!(out.push(&Ping { timestamp: 77 }))), &mut tally);
        for (ms, sequence, timestamp) in [(15, 1, 76), (40, 2, 77), (90, 3, 77)] {
            let pong = packet(sequence, 1, 0, |out| assert!(out.push(&Pong { timestamp })));
            hear(&mut judge, ms, &pong, counted(0, 0), &mut tally);
        }
        assert_eq!((tally.rtt_us.len(), tally.rtt_us.min() / 1000), (1, 30));
    }

    /// What is sent again is no event, and a client that counts it as one is found out.
    #[test]
    fn everything_is_created_and_destroyed_once() {
        let (mut judge, mut tally) = (Judge::new(3), measuring());
        let destroy = DestroyEntity { tick: 6, id: EntityId(1), reason: DestroyReason::Gameplay };
        let told =
            |sequence, message: &CreateEntity| packet(sequence, 0, 0, |out| assert!(out.push(message)));
        hear(&mut judge, 1, &told(1, &create(5, 1)), counted(1, 0), &mut tally);
        hear(&mut judge, 1, &told(2, &create(5, 1)), counted(1, 0), &mut tally);
        hear(&mut judge, 1, &packet(3, 0, 0, |out| assert!(out.push(&destroy))), counted(1, 1), &mut tally);
        hear(&mut judge, 1, &packet(4, 0, 0, |out| assert!(out.push(&destroy))), counted(1, 1), &mut tally);
        hear(&mut judge, 1, &told(5, &create(6, 1)), counted(1, 1), &mut tally);
        assert_eq!((tally.counters.events, tally.counters.events_again), (2, 3));
        assert_eq!(tally.faults.total(), 0);
        hear(&mut judge, 1, &told(6, &create(7, 1)), counted(3, 1), &mut tally);
        hear(&mut judge, 1, &told(7, &create(8, 2)), counted(4, 1), &mut tally);
        assert_eq!((tally.faults.count(Fault::EventRepeated), tally.faults.total()), (1, 1));
    }

    #[test]
    fn snapshots_count_by_their_ticks_and_show_what_was_told_of() {
        let (mut judge, mut tally) = (Judge::new(3), measuring());
        hear(
            &mut judge,
            0,
            &packet(1, 0, 0, |out| assert!(out.push(&create(1, 1)))),
            counted(1, 0),
            &mut tally,
        );
        // The one of tick 9 comes in two packets, and that of tick 12 never.
        for (sequence, tick, id) in [(2, 3, 1), (3, 6, 1), (4, 9, 1), (5, 9, 1), (6, 15, 2)] {
            let state = EntityState {
                id: EntityId(id),
                archetype_low: 0,
                x: Pos16(0),
                y: Pos16(0),
                rotation: Rot16(0),
            };
            let mut states = [state].into_iter();
            let bytes = packet(sequence, 0, 0, |out| {
                out.snapshot(tick, &mut states).expect("room for one");
            });
            hear(&mut judge, u64::from(tick) * 20, &bytes, counted(1, 0), &mut tally);
        }
        assert_eq!((tally.counters.snapshots_received, tally.counters.snapshots_expected), (3, 4));
        assert_eq!((tally.faults.count(Fault::UnknownEntity), tally.faults.total()), (1, 1));
        assert_eq!(tally.interval_us.len(), 3);
    }
}
