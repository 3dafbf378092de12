//! What an operator may set: every option, from defaults, a TOML file, the environment and flags, parsed and checked
//! once, before anything else happens.
//!
//! [`options::KEYS`] is the one declaration of the options. Flags, file keys, environment variables, `--help`, the
//! effective configuration ([`Effective`]) and the table in `docs/operations.md` all follow from it.
//!
//! [`load`] reports every mistake of every source at once ([`Errors`]), each in one line that names where it stands;
//! a value that a stronger source overrides is checked all the same. This module reads the file it is told to read
//! and nothing else: environment and flags come in through [`Sources`].

mod choice;
mod effective;
mod error;
mod file;
mod key;
pub mod options;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

pub use self::choice::{Backend, Level, Wake};
pub use self::effective::{Effective, Origin, Setting};
pub use self::error::{Error, Errors};
pub use self::key::{Key, Kind, Value};
pub use self::options::{KEYS, Options};

/// The environment variable that names the configuration file.
pub const CONFIG_VARIABLE: &str = "TICKWIRE_CONFIG";

/// Where settings come from, strongest last: the table's defaults, then these.
pub struct Sources<'a> {
    /// The file that the flag `--config` names; without it, the one that [`CONFIG_VARIABLE`] names, if any.
    pub file: Option<PathBuf>,
    /// The environment: the value of a variable.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// The command line: the text given for a key.
    pub flag: &'a dyn Fn(&Key) -> Option<String>,
}

/// Gathers every option from `sources`.
///
/// # Errors
/// All mistakes found: an unreadable file, TOML syntax, unknown keys, wrong types, values out of range, and settings
/// that contradict each other.
pub fn load(sources: &Sources<'_>) -> Result<Effective, Errors> {
    let mut errors = Vec::new();
    let mut settings: Vec<Setting> =
        KEYS.iter().map(|key| Setting { value: key.default_value(), origin: Origin::Default }).collect();

    let named = (sources.variable)(CONFIG_VARIABLE).map(PathBuf::from);
    if let Some(path) = sources.file.as_ref().or(named.as_ref()) {
        file::read(path, &mut settings, &mut errors);
    }
    for (key, setting) in KEYS.iter().zip(&mut settings) {
        let variable = key.variable();
        if let Some(text) = (sources.variable)(&variable) {
            let parsed = text.to_str().ok_or_else(|| "not UTF-8".to_owned()).and_then(|text| key.parse(text));
            take(setting, parsed, Origin::Variable(variable), &mut errors);
        }
        if let Some(text) = (sources.flag)(key) {
            take(setting, key.parse(&text), Origin::Flag(key.flag()), &mut errors);
        }
    }
    // Settings can only contradict each other once each of them is sound.
    if errors.is_empty() {
        contradictions(&Effective::new(settings.clone()), &mut errors);
    }
    if errors.is_empty() { Ok(Effective::new(settings)) } else { Err(Errors(errors)) }
}

/// Lets `parsed`, if it is sound, replace what a weaker source said.
fn take(setting: &mut Setting, parsed: Result<Value, String>, origin: Origin, errors: &mut Vec<Error>) {
    match parsed {
        Ok(value) => *setting = Setting { value, origin },
        Err(what) => errors.push(Error::new(origin, None, what)),
    }
}

/// The rules between options.
fn contradictions(effective: &Effective, errors: &mut Vec<Error>) {
    let options = &effective.options;
    // The default must not stop an operator who plays another level in small rooms.
    let matters = options.level == Level::Stress || !effective.is_default("stress_entities");
    if matters && options.stress_entities > options.entities {
        errors.push(effective.contradiction("stress_entities", "does not fit in", "entities"));
    }
    let udp = [
        ("aegis_udp", Some(options.aegis_udp)),
        ("rtype_udp", options.rtype_udp),
        ("fignet_udp", options.fignet_udp),
    ];
    let tcp = [("aegis_tcp", Some(options.aegis_tcp)), ("admin", options.admin)];
    same_address(effective, &udp, errors);
    same_address(effective, &tcp, errors);
}

/// Two doors of one transport cannot open at one address. Port 0 is a different port each time.
fn same_address(effective: &Effective, doors: &[(&str, Option<SocketAddr>)], errors: &mut Vec<Error>) {
    for (i, (first, address)) in doors.iter().enumerate() {
        for (second, other) in &doors[i + 1..] {
            if address.is_some_and(|address| address.port() != 0) && address == other {
                errors.push(effective.contradiction(second, "is also", first));
            }
        }
    }
}

/// A path as it goes into one line of text.
fn shown(path: &Path) -> String {
    path.to_string_lossy().escape_debug().to_string()
}
