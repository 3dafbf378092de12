//! The configuration that came out, and which source each value came from.

use std::fmt;

use super::error::Error;
use super::key::Value;
use super::options::{KEYS, Options};

/// Where a value comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The table of options.
    Default,
    /// A file, by its name as given, at a line from 1; without a line, all of it.
    File(String, Option<usize>),
    /// An environment variable.
    Variable(String),
    /// A flag, dashes included.
    Flag(String),
}

/// One option's value and where it comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// The value.
    pub value: Value,
    /// Its source.
    pub origin: Origin,
}

/// The effective configuration. Shows as a TOML file that gives the same configuration again.
#[derive(Clone, Debug)]
pub struct Effective {
    /// The values, typed.
    pub options: Options,
    settings: Vec<Setting>,
}

impl Effective {
    /// From one setting for each of [`KEYS`], in order.
    pub(super) fn new(settings: Vec<Setting>) -> Self {
        Self { options: Options::from_settings(&settings), settings }
    }

    /// The setting of the option `name`.
    ///
    /// # Panics
    /// When there is no such option.
    pub fn get(&self, name: &str) -> &Setting {
        &self.settings[index_of(name)]
    }

    /// Whether the option `name` has its default value, wherever it comes from.
    pub fn is_default(&self, name: &str) -> bool {
        self.get(name).value == KEYS[index_of(name)].default_value()
    }

    #[cfg(test)]
    pub(super) fn settings_mut(&mut self) -> &mut [Setting] {
        &mut self.settings
    }

    /// The complaint that the options `first` and `second` contradict each other.
    pub(super) fn contradiction(&self, first: &str, how: &str, second: &str) -> Error {
        let [one, other] = [first, second].map(|name| {
            let Setting { value, origin } = self.get(name);
            format!("{value} ({origin})")
        });
        Error::new(Origin::Default, Some(first), format!("{one} {how} {second}: {other}"))
    }
}

fn index_of(name: &str) -> usize {
    KEYS.iter().position(|key| key.name == name).expect("an option's name")
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(name, Some(line)) => write!(f, "{name}:{line}"),
            Self::File(name, None) => f.write_str(name),
            Self::Variable(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, setting) in KEYS.iter().zip(&self.settings) {
            let line = format!("{} = {}", key.name, setting.value);
            writeln!(f, "{line:<40} # {}", setting.origin)?;
        }
        Ok(())
    }
}
