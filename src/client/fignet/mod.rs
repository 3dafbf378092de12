//! A FigNet client of the game: connects, plays, and knows what is in the room. Implements the client's side of
//! docs/protocol/fignet.md and docs/protocol/fignet-sync.md.
//!
//! The caller owns the socket. It exchanges datagrams with the server's address and port only ([`Client::datagram`],
//! [`Client::transmit`]). Everything is allocated at creation.

#[cfg(test)]
mod tests;

use super::received::Received;
use crate::model::{Controls, Entity, EntityId, PlayerId};
use crate::session::fignet::keys::Key;
use crate::session::fignet::seal::{End, Seal};
use crate::session::fignet::{
    Delivery, Event as PeerEvent, HearError, NetworkConfig, Peer, PeerState, PeerStats, Pools, SendError,
};
use crate::storage::{Ring, is_newer};
use crate::time::{Duration, Instant};
use crate::wire::aegis::event::Event;
use crate::wire::fignet::game::{
    CHANNEL_CHAT, CHANNEL_EVENTS, CHANNEL_INPUT, CHANNEL_SNAPSHOTS, CHANNELS, CHAT_BYTES_MAX, Input, Seated,
    chat,
};
use crate::wire::fignet::snapshot::{Head, Table};
use crate::wire::fignet::{ErrorCode, MTU_MAX};

/// Events that wait for the caller; more are lost and counted.
const EVENTS_MAX: usize = 1024;

/// Lines of chat that wait for the caller; more are lost and counted.
const CHATS_MAX: usize = 32;

/// What a client is told at creation.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The protocol's settings: as the server's, where they must agree.
    pub config: NetworkConfig,
    /// Entities of one room that it can hold.
    pub entities_max: usize,
    /// Ticks from one of the server's snapshots to the next, at the least.
    pub snapshot_interval: usize,
}

/// Where a client stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Not connected yet, or not seated.
    Connecting,
    /// In the match.
    Playing,
    /// Out of it, for good.
    Over(Over),
}

/// Why it is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Over {
    /// The server refused, or did not answer.
    Failed(ErrorCode),
    /// The server ended the connection, or it was lost.
    Disconnected(ErrorCode),
    /// The client left.
    Left,
}

/// What happened so far.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ClientStats {
    /// Snapshots taken in.
    pub snapshots: u64,
    /// Of these, against a baseline.
    pub snapshots_delta: u64,
    /// Snapshots dropped: malformed, or against a baseline that is not here.
    pub snapshots_dropped: u64,
    /// Snapshots older than one that came before; they are kept for others to build on.
    pub snapshots_late: u64,
    /// Events handed over.
    pub events: u64,
    /// Events lost because the caller did not take them.
    pub events_lost: u64,
    /// Events of unknown type or with malformed content.
    pub events_ignored: u64,
    /// Lines of chat received.
    pub chats: u64,
    /// Packets dropped.
    pub dropped: u64,
}

/// A line of chat.
#[derive(Clone, Copy, Debug)]
pub struct ChatLine {
    /// Who said it.
    pub by: PlayerId,
    len: u8,
    text: [u8; CHAT_BYTES_MAX],
}

/// A client of one connection.
#[derive(Debug)]
pub struct Client {
    peer: Peer<Seal>,
    pools: Pools,
    game: Reception,
    over: Option<Over>,
    controls: Controls,
    client_tick: u32,
    input_at: Instant,
}

/// What the server said.
#[derive(Debug)]
struct Reception {
    seated: Option<Seated>,
    received: Received,
    events: Ring<Event>,
    chats: Ring<ChatLine>,
    stats: ClientStats,
}

impl Client {
    /// A client that is about to connect, under a `nonce` by chance. With a `key`, which the server must have for this
    /// nonce, everything after the first packet is encrypted; `epoch` is a number that no earlier connection with this
    /// key had.
    ///
    /// # Panics
    /// When the settings make no sense, or have fewer than the game's four channels.
    pub fn new(now: Instant, settings: &Settings, nonce: u32, key: Option<(&Key, u32)>) -> Self {
        assert!(settings.config.max_channels >= CHANNELS, "the game needs four channels");
        let mut peer = Peer::new(&settings.config);
        peer.connect(now, nonce, key.map(|(key, epoch)| Seal::new(key, End::Client, epoch)));
        let filler = Event::PlayerLeft {
            tick: 0,
            player: PlayerId::all().next().expect("there is a first player"),
            reason: crate::model::LeaveReason::Left,
        };
        let line = ChatLine {
            by: PlayerId::all().next().expect("there is a first player"),
            len: 0,
            text: [0; CHAT_BYTES_MAX],
        };
        Self {
            peer,
            pools: Pools::new(&settings.config, 1),
            game: Reception {
                seated: None,
                received: Received::new(settings.entities_max, settings.snapshot_interval),
                events: Ring::new(EVENTS_MAX, filler),
                chats: Ring::new(CHATS_MAX, line),
                stats: ClientStats::default(),
            },
            over: None,
            controls: Controls::RELEASED,
            client_tick: 0,
            input_at: now,
        }
    }

    /// Where it stands.
    pub const fn phase(&self) -> Phase {
        match (self.over, self.game.seated) {
            (Some(over), _) => Phase::Over(over),
            (None, Some(_)) => Phase::Playing,
            (None, None) => Phase::Connecting,
        }
    }

    /// Whether it is over.
    pub const fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Its slot, once told.
    pub fn player(&self) -> Option<PlayerId> {
        self.game.seated.map(|seated| seated.player)
    }

    /// Takes in a datagram from the server's address and port that arrived `at`.
    pub fn datagram(&mut self, now: Instant, at: Instant, bytes: &[u8]) -> Result<(), HearError> {
        let Self { peer, pools, game, .. } = self;
        let heard = peer.hear(now, at, pools, bytes, |delivery| game.take(&delivery));
        self.game.stats.dropped += u64::from(heard.is_err());
        self.run(now);
        heard
    }

    /// Sets the controls that go out with every Input from now on.
    pub fn set_controls(&mut self, controls: Controls) {
        self.controls = controls;
    }

    /// Says something to everyone in the room who speaks FigNet.
    ///
    /// # Errors
    /// When there is no connection, or too much waits already.
    ///
    /// # Panics
    /// When `text` is no line of chat: 1 to 200 bytes without control characters.
    pub fn say(&mut self, text: &str) -> Result<(), SendError> {
        assert!(chat(text.as_bytes()).is_some(), "no line of chat");
        self.peer.send(&mut self.pools, CHANNEL_CHAT, text.as_bytes())
    }

    /// Leaves: what [`Client::transmit`] then still gives is to be sent.
    pub fn leave(&mut self, now: Instant) {
        if self.over.is_none() {
            self.over = Some(Over::Left);
            self.peer.disconnect(now, &mut self.pools, ErrorCode::Success, b"");
        }
    }

    /// Writes the next datagram due at `now` into `buffer` and returns its length; `None` when none is due. To be called
    /// until then.
    pub fn transmit(&mut self, now: Instant, buffer: &mut [u8; MTU_MAX]) -> Option<usize> {
        self.run(now);
        let interval = self.frame();
        if self.phase() == Phase::Playing && super::is_beat(self.input_at, interval, now) {
            // One Input a frame: who comes late sends the newest controls, not a burst of old ones.
            self.input_at = super::next_beat(self.input_at, interval, now);
            self.client_tick = self.client_tick.wrapping_add(1);
            let input = Input { controls: self.controls, client_tick: self.client_tick };
            // What cannot be sent now is overtaken by the next one.
            let _ = self.peer.send(&mut self.pools, CHANNEL_INPUT, &input.to_bytes());
        }
        self.peer.transmit(now, &mut self.pools, buffer)
    }

    /// When [`Client::transmit`] next has something to do, if ever.
    pub fn next_deadline(&self) -> Option<Instant> {
        let input = (self.phase() == Phase::Playing).then_some(self.input_at);
        [input, self.peer.next_deadline()].into_iter().flatten().min()
    }

    /// The next event, in the order in which they happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.game.events.pop()
    }

    /// The next line of chat.
    pub fn poll_chat(&mut self) -> Option<ChatLine> {
        self.game.chats.pop()
    }

    /// The newest snapshot.
    pub fn table(&self) -> Option<&Table> {
        self.game.received.newest()
    }

    /// What is to be seen: the entities of the newest snapshot of known kinds.
    pub fn visible(&self) -> impl Iterator<Item = (EntityId, &Entity)> {
        self.table().into_iter().flat_map(Table::iter).filter(|(_, entity)| entity.kind.is_known())
    }

    /// The smoothed round-trip time, once measured.
    pub fn rtt(&self) -> Option<Duration> {
        self.peer.rtt()
    }

    /// What went over the connection.
    pub fn connection_stats(&self) -> PeerStats {
        self.peer.stats()
    }

    /// The connection's state.
    pub const fn state(&self) -> PeerState {
        self.peer.state()
    }

    /// Counters so far.
    pub const fn stats(&self) -> &ClientStats {
        &self.game.stats
    }

    fn run(&mut self, now: Instant) {
        while let Some(event) = self.peer.advance(now, &mut self.pools) {
            let over = match event {
                PeerEvent::Failed(reason) => Over::Failed(reason),
                PeerEvent::Disconnected { reason, .. } => Over::Disconnected(reason),
                PeerEvent::Connected | PeerEvent::FragmentError { .. } => continue,
            };
            self.over.get_or_insert(over);
        }
    }

    fn frame(&self) -> Duration {
        let rate = self.game.seated.map_or(60, |seated| seated.tick_rate_hz);
        Duration::from_secs(1).per(u64::from(rate))
    }
}

impl ChatLine {
    /// What was said.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.text[..usize::from(self.len)]).unwrap_or("")
    }
}

impl Reception {
    fn take(&mut self, delivery: &Delivery<'_>) {
        let Delivery::Message { channel, bytes } = delivery else { return };
        match *channel {
            CHANNEL_EVENTS => self.take_event(bytes),
            CHANNEL_SNAPSHOTS => self.take_snapshot(bytes),
            CHANNEL_CHAT => self.take_chat(bytes),
            _ => {}
        }
    }

    fn take_event(&mut self, bytes: &[u8]) {
        if let Some(seated) = Seated::parse(bytes) {
            self.seated = Some(seated);
            return;
        }
        match Event::parse(bytes) {
            Ok(event) => {
                self.stats.events += 1;
                self.stats.events_lost += u64::from(self.events.push(event).is_err());
            }
            Err(_) => self.stats.events_ignored += 1,
        }
    }

    fn take_snapshot(&mut self, message: &[u8]) {
        let before = self.received.newest().map(Table::sequence);
        match self.received.apply(message) {
            Ok(table) => {
                let is_late = before.is_some_and(|before| !is_newer(table.sequence(), before));
                let is_delta = Head::parse(message).is_ok_and(|head| head.baseline_age.is_some());
                self.stats.snapshots += 1;
                self.stats.snapshots_delta += u64::from(is_delta);
                self.stats.snapshots_late += u64::from(is_late);
            }
            Err(_) => self.stats.snapshots_dropped += 1,
        }
    }

    fn take_chat(&mut self, bytes: &[u8]) {
        let Some((&by, text)) = bytes.split_first() else { return };
        let (Some(by), Some(text)) = (PlayerId::new(by), chat(text)) else { return };
        let mut line = ChatLine { by, len: text.len() as u8, text: [0; CHAT_BYTES_MAX] };
        line.text[..text.len()].copy_from_slice(text.as_bytes());
        self.stats.chats += 1;
        // The oldest makes way: what is said now matters more.
        if self.chats.len() == self.chats.capacity() {
            self.chats.pop();
        }
        let _ = self.chats.push(line);
    }
}
