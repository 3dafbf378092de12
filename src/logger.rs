//! The log: one line per record on standard error, without allocating.
//!
//! `2026-12-01T00:56:49.123Z INFO  message`. A line is put together in a buffer of [`LINE_BYTES_MAX`] bytes on the
//! stack and written in one call; a longer one is cut and ends in `…`. Control characters are escaped, so that a
//! record is one line whatever a peer put into it.

use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Write as _};
use std::sync::OnceLock;

use log::{Level, LevelFilter, Log, Metadata, Record, SetLoggerError};

/// The longest line, its newline included, in bytes.
pub const LINE_BYTES_MAX: usize = 512;

/// What a cut line ends in.
const CUT: &str = "…";
/// Ends the colour of a level.
const COLOUR_END: &str = "\x1b[0m";

/// The one logger of a process.
static LOGGER: OnceLock<Logger> = OnceLock::new();

/// Logs everything up to `level` to standard error from now on. Colours the level when standard error is a terminal
/// and `NO_COLOR` is not set. A second call only changes the level.
///
/// # Errors
/// When the process has another logger already.
pub fn init(level: LevelFilter) -> Result<(), SetLoggerError> {
    let mut first = false;
    let logger = LOGGER.get_or_init(|| {
        first = true;
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Logger { colour: !plain && io::stderr().is_terminal() }
    });
    if first {
        log::set_logger(logger)?;
    }
    log::set_max_level(level);
    Ok(())
}

/// Writes records to standard error.
struct Logger {
    colour: bool,
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let mut line = Line::new();
        line.record(unix_ms(), record.level(), *record.args(), self.colour);
        // Nobody is left to tell when standard error fails.
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }

    fn flush(&self) {}
}

/// Milliseconds since 1970; 0 for a clock set before.
#[expect(
    clippy::disallowed_types,
    reason = "people read the log by the wall clock; nothing else depends on it"
)]
fn unix_ms() -> u64 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// A line under construction.
struct Line {
    bytes: [u8; LINE_BYTES_MAX],
    len: usize,
    /// Where the line is cut if it turns out too long: the last end of a character that leaves room for [`CUT`].
    cut_at: usize,
    is_cut: bool,
}

impl Line {
    /// Bytes that the text may fill; the newline comes after it.
    const TEXT_BYTES_MAX: usize = LINE_BYTES_MAX - 1;

    fn new() -> Self {
        Self { bytes: [0; LINE_BYTES_MAX], len: 0, cut_at: 0, is_cut: false }
    }

    /// Fills the line with a record and ends it.
    fn record(&mut self, unix_ms: u64, level: Level, message: fmt::Arguments<'_>, colour: bool) {
        let (start, end) = if colour { (colour_of(level), COLOUR_END) } else { ("", "") };
        self.timestamp(unix_ms);
        for part in [" ", start, level.as_str(), end, &"     "[level.as_str().len()..], " "] {
            self.push(part);
        }
        // An error is a cut line, or a `Display` that failed: what was written so far stands.
        let _ = self.write_fmt(message);
        if self.is_cut {
            self.len = self.cut_at + CUT.len();
            self.bytes[self.cut_at..self.len].copy_from_slice(CUT.as_bytes());
        }
        self.bytes[self.len] = b'\n';
        self.len += 1;
    }

    /// `2026-12-01T00:56:49.123Z`
    fn timestamp(&mut self, unix_ms: u64) {
        let (days, ms) = (unix_ms / 86_400_000, unix_ms % 86_400_000);
        let (year, month, day) = civil(days);
        let (hour, minute, second, ms) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000);
        let _ = write!(self, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z");
    }

    /// Adds `text` as it is and whole, or cuts the line here.
    fn push(&mut self, text: &str) {
        let end = self.len + text.len();
        if self.is_cut || end > Self::TEXT_BYTES_MAX {
            self.is_cut = true;
            return;
        }
        self.bytes[self.len..end].copy_from_slice(text.as_bytes());
        self.len = end;
        if end <= Self::TEXT_BYTES_MAX - CUT.len() {
            self.cut_at = end;
        }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Adds text with its control characters escaped.
impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            if is_unprintable(character) {
                self.escape(character);
            } else {
                self.push(character.encode_utf8(&mut [0; 4]));
            }
            if self.is_cut {
                // No more of it will be seen: whoever formats may stop.
                return Err(fmt::Error);
            }
        }
        Ok(())
    }
}

impl Line {
    /// Adds `\n` or `\u{1b}`, whole or not at all.
    fn escape(&mut self, character: char) {
        let mut text = [0; "\\u{10ffff}".len()];
        let mut len = 0;
        for byte in character.escape_default() {
            text[len] = byte as u8;
            len += 1;
        }
        self.push(std::str::from_utf8(&text[..len]).expect("an escape is ASCII"));
    }
}

/// Whether a terminal might act on `character` instead of showing it: control characters, line separators, and the
/// marks that turn the direction of the text after them.
fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn colour_of(level: Level) -> &'static str {
    match level {
        Level::Error => "\x1b[31m",
        Level::Warn => "\x1b[33m",
        Level::Info => "\x1b[32m",
        Level::Debug => "\x1b[36m",
        Level::Trace => "\x1b[2m",
    }
}

/// Year, month and day of the Gregorian calendar, `days` after 1 January 1970.
fn civil(days: u64) -> (u64, u64, u64) {
    // Years are counted from 1 March, so that the leap day ends one; 719,468 days lie between 1 March of year 0 and
    // 1970, and the calendar repeats every 146,097 days (400 years).
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months from March: 153 days in each five.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(message: fmt::Arguments<'_>, colour: bool) -> String {
        let mut line = Line::new();
        line.record(1_796_086_609_123, Level::Info, message, colour);
        String::from_utf8(line.as_bytes().to_vec()).expect("a line is UTF-8")
    }

    #[test]
    fn a_line_is_time_level_message() {
        assert_eq!(
            line(format_args!("room {} is open", 3), false),
            "2026-12-01T00:56:49.123Z INFO  room 3 is open\n"
        );
        assert_eq!(line(format_args!("x"), true), "2026-12-01T00:56:49.123Z \x1b[32mINFO\x1b[0m  x\n");
    }

    #[test]
    fn every_level_is_five_wide() {
        for level in Level::iter() {
            let mut line = Line::new();
            line.record(0, level, format_args!("x"), false);
            assert_eq!(line.as_bytes().len(), "1970-01-01T00:00:00.000Z ERROR x\n".len(), "{level}");
        }
    }

    #[test]
    fn control_characters_are_escaped() {
        let hostile = "a\nb\r\t\0\x1b[2J\u{7f}\u{85}\u{9b}\u{2028}\u{202e}é";
        let text = line(format_args!("{hostile}"), false);
        assert!(
            text.ends_with("INFO  a\\nb\\r\\t\\u{0}\\u{1b}[2J\\u{7f}\\u{85}\\u{9b}\\u{2028}\\u{202e}é\n"),
            "{text}"
        );
    }

    /// A line is cut only when it must be, and at a whole character.
    #[test]
    fn long_lines_are_cut() {
        let head = line(format_args!(""), false).len();
        let room = LINE_BYTES_MAX - head;
        for (filler, width) in [("a", 1), ("é", 2), ("€", 3), ("🚀", 4), ("\x1b", 6)] {
            let fits = line(format_args!("{}", filler.repeat(room / width)), false);
            assert!(!fits.contains('…') && fits.len() > LINE_BYTES_MAX - width, "{width}: {}", fits.len());
            let cut = line(format_args!("{}", filler.repeat(room / width + 1)), false);
            assert!(cut.ends_with("…\n"), "{cut}");
            assert!(
                cut.len() <= LINE_BYTES_MAX && cut.len() > LINE_BYTES_MAX - width - CUT.len(),
                "{}",
                cut.len()
            );
            assert_eq!(line(format_args!("{}", filler.repeat(9000)), false), cut);
        }
    }

    #[test]
    fn nothing_follows_a_cut() {
        let text = line(format_args!("{}{}{}", "a".repeat(480), "🚀".repeat(9), "b"), false);
        assert!(text.ends_with("…\n") && !text.contains('b'), "{text}");
    }

    #[test]
    fn dates_follow_the_calendar() {
        for (days, date) in [
            (0, (1970, 1, 1)),
            (58, (1970, 2, 28)),
            (59, (1970, 3, 1)),
            (789, (1972, 2, 29)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_788, (2026, 12, 1)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(civil(days), date, "{days}");
        }
    }

    /// Each day is the one after the day before it, for four centuries.
    #[test]
    fn days_follow_each_other() {
        let mut before = civil(0);
        for days in 1..146_097 {
            let (year, month, day) = civil(days);
            let next_day = (year, month, day) == (before.0, before.1, before.2 + 1);
            let next_month = (year, month, day) == (before.0, before.1 + 1, 1) && before.2 >= 28;
            let next_year = (year, month, day) == (before.0 + 1, 1, 1) && (before.1, before.2) == (12, 31);
            assert!(next_day || next_month || next_year, "{before:?} → {:?}", (year, month, day));
            before = (year, month, day);
        }
    }
}
