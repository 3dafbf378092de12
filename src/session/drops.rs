//! The account of what was dropped, by source address and reason: counted in a fixed table, told in the log at a
//! bounded rate, and the ground on which a flooding address is ignored for a while.
//! Implements sections 6.6 and 6.7 of the Aegis protocol, for every protocol that the server speaks.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use log::{debug, info};

use super::rate::Limiter;
use crate::storage::{Deadlines, Lru};
use crate::time::{Duration, Instant};

/// Sources remembered; the one not heard of for the longest makes way for a new one.
pub const SOURCES_MAX: usize = 256;

/// Least time between two log lines about one source.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Time from a source's first drop to its first line, so that the line tells more than one drop.
const REPORT_DELAY: Duration = Duration::from_secs(1);

/// Wrong tokens that an address may try in a second before its Connects are ignored (Aegis 3.4).
const GUESSES_PER_SECOND_MAX: u32 = 20;

/// How long they are then ignored.
const GUESS_PENALTY: Duration = Duration::from_secs(10);

/// Dropped datagrams in a second after which an address is ignored: far beyond what a confused client sends.
const FLOOD_PER_SECOND: u32 = 1000;

/// How long it is then ignored. Datagrams of bound endpoints are let through all the same.
const FLOOD_PENALTY: Duration = Duration::from_secs(5);

/// Log lines that strangers can cause: this many at once, then one every [`LINE_INTERVAL`].
const LINES_BURST: u32 = 20;
const LINE_INTERVAL: Duration = Duration::from_secs(2);

/// The same for warnings, which no flood of other lines must crowd out.
const WARNINGS_BURST: u32 = 20;
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// All of them together, in an hour of the longest possible lines, stay below a megabyte.
const _: () = {
    let lines = 3600 / (LINE_INTERVAL.as_millis() / 1000) + LINES_BURST as u64;
    let warnings = 3600 / (WARNING_INTERVAL.as_millis() / 1000) + WARNINGS_BURST as u64;
    assert!(lines * LINE_BYTES_MAX + warnings * WARNING_BYTES_MAX < 1_000_000);
};

/// The longest lines with their time and level: a cut one, and a warning with everything at its longest.
const LINE_BYTES_MAX: u64 = 512;
const WARNING_BYTES_MAX: u64 = 160;

/// The same for debug lines, one per dropped datagram.
const DEBUG_LINES_BURST: u32 = 200;
const DEBUG_LINE_INTERVAL: Duration = Duration::from_millis(10);

/// Why a datagram was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum DropReason {
    /// Longer than the protocol allows.
    TooLarge,
    /// Shorter than the header.
    TruncatedHeader,
    /// Not this protocol.
    BadMagic,
    /// Not this version.
    BadVersion,
    /// A packet type that does not exist.
    UnknownType,
    /// Valid, but not for this receiver: another session, an unbound endpoint, the wrong direction.
    Foreign,
    /// Bytes after the header of a Connect.
    MalformedConnect,
    /// An Input of another size than its protocol's, or with one of bits 5 to 7 set.
    MalformedInput,
    /// An Event datagram whose list does not add up.
    MalformedEvent,
    /// Bytes after the header of a Heartbeat.
    MalformedHeartbeat,
    /// A Disconnect of another size than its protocol's, or for a reason that does not exist.
    MalformedDisconnect,
    /// Bytes after a Hello, or none where its header should be.
    MalformedHello,
    /// A packet whose messages do not add up, or one of type 0.
    MalformedPacket,
    /// A Ping that is not four bytes.
    MalformedPing,
    /// A QueryEntity that is not four bytes, or asks for entity 0.
    MalformedQuery,
    /// Seen before, or too old to tell.
    Stale,
    /// From an address that is being ignored, or more than a session may send.
    Flood,
}

impl DropReason {
    /// How many reasons there are.
    pub const COUNT: usize = 17;

    /// Every reason.
    pub const ALL: [Self; Self::COUNT] = [
        Self::TooLarge,
        Self::TruncatedHeader,
        Self::BadMagic,
        Self::BadVersion,
        Self::UnknownType,
        Self::Foreign,
        Self::MalformedConnect,
        Self::MalformedInput,
        Self::MalformedEvent,
        Self::MalformedHeartbeat,
        Self::MalformedDisconnect,
        Self::MalformedHello,
        Self::MalformedPacket,
        Self::MalformedPing,
        Self::MalformedQuery,
        Self::Stale,
        Self::Flood,
    ];

    /// Whether the sender broke the protocol: what counts against a session (6.6).
    pub const fn is_malformed(self) -> bool {
        match self {
            Self::MalformedConnect
            | Self::MalformedInput
            | Self::MalformedEvent
            | Self::MalformedHeartbeat
            | Self::MalformedDisconnect
            | Self::MalformedHello
            | Self::MalformedPacket
            | Self::MalformedPing
            | Self::MalformedQuery => true,
            Self::TooLarge
            | Self::TruncatedHeader
            | Self::BadMagic
            | Self::BadVersion
            | Self::UnknownType
            | Self::Foreign
            | Self::Stale
            | Self::Flood => false,
        }
    }

    /// Its words in logs and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLarge => "datagram too large",
            Self::TruncatedHeader => "truncated header",
            Self::BadMagic => "bad magic",
            Self::BadVersion => "bad version",
            Self::UnknownType => "unknown type",
            Self::Foreign => "foreign",
            Self::MalformedConnect => "malformed Connect",
            Self::MalformedInput => "malformed Input",
            Self::MalformedEvent => "malformed Event",
            Self::MalformedHeartbeat => "malformed Heartbeat",
            Self::MalformedDisconnect => "malformed Disconnect",
            Self::MalformedHello => "malformed Hello",
            Self::MalformedPacket => "malformed packet",
            Self::MalformedPing => "malformed Ping",
            Self::MalformedQuery => "malformed QueryEntity",
            Self::Stale => "duplicate or too old",
            Self::Flood => "flood",
        }
    }
}

/// Datagrams dropped, by [`DropReason`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DropCounts([u64; DropReason::COUNT]);

impl DropCounts {
    /// How many for `reason`.
    pub const fn get(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }

    /// How many in all.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    const fn add(&mut self, reason: DropReason) {
        self.0[reason as usize] += 1;
    }
}

/// "3 foreign, 1 bad magic".
impl fmt::Display for DropCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for reason in DropReason::ALL.into_iter().filter(|&reason| self.get(reason) > 0) {
            write!(f, "{separator}{} {}", self.get(reason), reason.as_str())?;
            separator = ", ";
        }
        Ok(())
    }
}

/// What is known of one source address.
#[derive(Clone, Copy, Default, Debug)]
struct Source {
    /// Not yet reported.
    counts: DropCounts,
    reported_at: Option<Instant>,
    drops: Window,
    guesses: Window,
    ignored_until: Instant,
    connects_ignored_until: Instant,
}

/// A count within the current second.
#[derive(Clone, Copy, Default, Debug)]
struct Window {
    start: Instant,
    count: u32,
}

impl Window {
    fn hit(&mut self, now: Instant) -> u32 {
        if self.count == 0 || now.since(self.start) >= Duration::from_secs(1) {
            *self = Self { start: now, count: 0 };
        }
        self.count = self.count.saturating_add(1);
        self.count
    }
}

/// The sources whose datagrams were dropped lately.
#[derive(Debug)]
pub struct Sources {
    table: Lru<Source>,
    reports: Deadlines,
    totals: DropCounts,
    lines: Limiter,
    warnings: Limiter,
    debug_lines: Limiter,
    lines_withheld: u64,
    /// No address is ignored after this: the look-up is skipped while nobody floods.
    any_ignored_until: Instant,
}

impl Sources {
    /// An empty table, hashed with `secret`.
    pub fn new(secret: [u64; 2]) -> Self {
        Self {
            table: Lru::new(SOURCES_MAX, secret, Source::default()),
            reports: Deadlines::new(SOURCES_MAX),
            totals: DropCounts::default(),
            lines: Limiter::new(LINES_BURST, LINE_INTERVAL),
            warnings: Limiter::new(WARNINGS_BURST, WARNING_INTERVAL),
            debug_lines: Limiter::new(DEBUG_LINES_BURST, DEBUG_LINE_INTERVAL),
            lines_withheld: 0,
            any_ignored_until: Instant::ZERO,
        }
    }

    /// Counts a dropped datagram.
    pub fn dropped(&mut self, now: Instant, from: SocketAddr, reason: DropReason, bytes: &[u8]) {
        if log::log_enabled!(log::Level::Debug) && self.debug_lines.pass(now) {
            debug!(
                "dropped a datagram from {from}: {}, {} bytes, {}",
                reason.as_str(),
                bytes.len(),
                Hex(bytes)
            );
        }
        self.totals.add(reason);
        let (slot, source, evicted) = self.table.touch(key(from.ip()), Source::default());
        source.counts.add(reason);
        if reason != DropReason::Flood && source.drops.hit(now) >= FLOOD_PER_SECOND {
            source.ignored_until = now + FLOOD_PENALTY;
            self.any_ignored_until = source.ignored_until;
        }
        let report_at = match source.reported_at {
            Some(before) => (now + REPORT_DELAY).max(before + REPORT_INTERVAL),
            None => now + REPORT_DELAY,
        };
        if evicted.is_some() || self.reports.get(slot).is_none() {
            self.reports.set(slot, report_at);
        }
    }

    /// Counts a Connect with a wrong token against its address.
    pub fn guessed(&mut self, now: Instant, ip: IpAddr) {
        let (_, source, _) = self.table.touch(key(ip), Source::default());
        if source.guesses.hit(now) > GUESSES_PER_SECOND_MAX {
            source.connects_ignored_until = now + GUESS_PENALTY;
        }
    }

    /// Whether the Connects of this address are ignored for its guesses.
    pub fn ignores_connects(&self, now: Instant, ip: IpAddr) -> bool {
        self.table.peek(key(ip)).is_some_and(|(_, source)| now < source.connects_ignored_until)
    }

    /// Whether datagrams of this address are ignored because it floods.
    pub fn ignores(&self, now: Instant, ip: IpAddr) -> bool {
        now < self.any_ignored_until
            && self.table.peek(key(ip)).is_some_and(|(_, source)| now < source.ignored_until)
    }

    /// When a report is next due.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.reports.next()
    }

    /// Logs the reports that are due.
    pub fn advance(&mut self, now: Instant) {
        while let Some(slot) = self.reports.pop_due(now) {
            let Some((key, &source)) = self.table.slot(slot) else { continue };
            if self.may_log(now) {
                info!("dropped from {}: {}", ip(key), source.counts);
            }
            if let Some(source) = self.table.slot_mut(slot) {
                source.counts = DropCounts::default();
                source.reported_at = Some(now);
            }
        }
    }

    /// Whether a line that a stranger caused may be logged now; the lines withheld are told once there is room for
    /// that line as well.
    pub fn may_log(&mut self, now: Instant) -> bool {
        if !log::log_enabled!(log::Level::Info) {
            return false;
        }
        if !self.lines.pass(now) {
            self.lines_withheld += 1;
            return false;
        }
        if self.lines_withheld > 0 && self.lines.pass(now) {
            info!("withheld {} lines about other peers", self.lines_withheld);
            self.lines_withheld = 0;
        }
        true
    }

    /// Whether a warning that a peer caused may be logged now.
    pub fn may_warn(&mut self, now: Instant) -> bool {
        log::log_enabled!(log::Level::Warn) && self.warnings.pass(now)
    }

    /// Everything dropped since the start.
    pub const fn totals(&self) -> &DropCounts {
        &self.totals
    }
}

/// An address as one number, the same for 1.2.3.4 and ::ffff:1.2.3.4.
pub fn key(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(ip.to_ipv6_mapped()),
        IpAddr::V6(ip) => u128::from(ip),
    }
}

fn ip(key: u128) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from(key)).to_canonical()
}

/// The first 32 bytes of a bad packet, in hexadecimal. The session token (bytes 14 to 17 of a header) is not for logs.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().take(32).enumerate() {
            if (14..18).contains(&index) { f.write_str("..")? } else { write!(f, "{byte:02x}")? }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 9))
    }

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn reports_at_most_every_ten_seconds_and_only_when_something_was_dropped() {
        let mut sources = Sources::new([1, 2]);
        let mut reports = Vec::new();
        for ms in 0..60_000 {
            if ms < 35_000 {
                sources.dropped(at(ms), peer(1), DropReason::Foreign, &[]);
            }
            if sources.next_deadline().is_some_and(|due| due <= at(ms)) {
                reports.push(ms);
            }
            sources.advance(at(ms));
        }
        assert_eq!(reports, [1000, 11_000, 21_000, 31_000, 41_000]);
        assert_eq!(sources.totals().get(DropReason::Foreign), 35_000);
        assert_eq!(sources.totals().total(), 35_000);
    }

    #[test]
    fn more_than_twenty_guesses_a_second_are_punished() {
        let mut sources = Sources::new([1, 2]);
        let ip = peer(1).ip();
        (0..20).for_each(|_| sources.guessed(at(100), ip));
        assert!(!sources.ignores_connects(at(100), ip));
        sources.guessed(at(1099), ip);
        assert!(sources.ignores_connects(at(1099), ip));
        assert!(sources.ignores_connects(at(11_098), ip));
        assert!(!sources.ignores_connects(at(11_099), ip));
        assert!(!sources.ignores_connects(at(1099), peer(2).ip()));
    }

    /// 1.2.3.4 and ::ffff:1.2.3.4 are one source (field case 57).
    #[test]
    fn case_57_mapped_addresses_are_the_same_source() {
        let v4: IpAddr = "1.2.3.4".parse().unwrap();
        let v6: IpAddr = "::ffff:1.2.3.4".parse().unwrap();
        assert_eq!(key(v4), key(v6));
        assert_eq!(ip(key(v6)), v4);
    }

    #[test]
    fn a_flooding_address_is_ignored_for_a_while() {
        let mut sources = Sources::new([1, 2]);
        (0..999).for_each(|_| sources.dropped(at(5), peer(1), DropReason::BadMagic, &[]));
        assert!(!sources.ignores(at(6), peer(1).ip()));
        sources.dropped(at(6), peer(1), DropReason::BadMagic, &[]);
        assert!(sources.ignores(at(7), peer(1).ip()));
        assert!(!sources.ignores(at(7), peer(2).ip()));
        assert!(!sources.ignores(at(5006), peer(1).ip()));
    }

    /// Datagrams from ever new addresses leave a bounded state (field cases 26 and 33).
    #[test]
    fn case_33_rotating_sources_are_bounded() {
        let mut sources = Sources::new([1, 2]);
        for number in 0..100_000u32 {
            let from = SocketAddr::from((std::net::Ipv4Addr::from(number), 1));
            sources.dropped(at(u64::from(number) / 100), from, DropReason::BadMagic, &[]);
            sources.advance(at(u64::from(number) / 100));
        }
        assert_eq!((sources.table.len(), sources.totals().total()), (SOURCES_MAX, 100_000));
    }

    #[test]
    fn bytes_in_logs_hide_the_token() {
        let bytes: Vec<u8> = (0..40).collect();
        let text = Hex(&bytes).to_string();
        assert_eq!(text, "000102030405060708090a0b0c0d........12131415161718191a1b1c1d1e1f");
    }
}
