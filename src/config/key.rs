//! One option's declaration ([`Key`]), what it may hold ([`Kind`]), and the way from text and TOML to a [`Value`].

use std::fmt;
use std::net::SocketAddr;
use std::num::IntErrorKind;

use log::LevelFilter;
use toml::de::DeValue;

use super::choice::{Backend, Level, Wake};

/// One option.
#[derive(Debug)]
pub struct Key {
    /// Its name in a file: `aegis_tcp`.
    pub name: &'static str,
    /// Its group, a heading of the help.
    pub group: &'static str,
    /// What it may hold.
    pub kind: Kind,
    /// Its default, as text.
    pub default: &'static str,
    pub(super) doc: &'static str,
}

/// What an option may hold.
#[derive(Debug)]
pub enum Kind {
    /// An IP address and port.
    Address,
    /// A whole number.
    Number {
        /// What it counts, as the help's placeholder.
        unit: &'static str,
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// One of some words.
    Choice(&'static [&'static str]),
    /// True or false.
    Switch,
    /// A word that leaves the option unset, or a value of another kind.
    Or(&'static str, &'static Kind),
}

/// A value of some [`Kind`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value {
    /// An address.
    Address(SocketAddr),
    /// A number in its range.
    Number(u64),
    /// A word of the choice.
    Choice(&'static str),
    /// A switch.
    Switch(bool),
    /// Left out by this word.
    Unset(&'static str),
}

impl Key {
    /// Its flag, dashes included: `--aegis-tcp`.
    pub fn flag(&self) -> String {
        format!("--{}", self.name.replace('_', "-"))
    }

    /// Its environment variable: `TICKWIRE_AEGIS_TCP`.
    pub fn variable(&self) -> String {
        format!("TICKWIRE_{}", self.name.to_ascii_uppercase())
    }

    /// What it is for, in a sentence or two.
    pub fn doc(&self) -> &'static str {
        self.doc.trim()
    }

    /// The value that `text` stands for.
    ///
    /// # Errors
    /// Why it stands for none.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        self.kind.parse(text)
    }

    pub(super) fn default_value(&self) -> Value {
        self.parse(self.default).expect("a default of the option's kind")
    }
}

impl Kind {
    /// The help's placeholder for a value: `ADDR`, `tick|event`, `WORD` for one of many.
    pub fn placeholder(&self) -> String {
        match self {
            Self::Address => "ADDR".to_owned(),
            Self::Number { unit, .. } => (*unit).to_owned(),
            Self::Choice(words) if words.len() > 3 => "WORD".to_owned(),
            Self::Choice(words) => words.join("|"),
            Self::Switch => "true|false".to_owned(),
            Self::Or(word, kind) => format!("{}|{word}", kind.placeholder()),
        }
    }

    /// The values allowed, for people: `1 to 4096`, `level1 or stress`.
    pub fn range(&self) -> String {
        match self {
            Self::Address => "IP:PORT or [IPv6]:PORT".to_owned(),
            Self::Number { min: 0, max: u64::MAX, .. } => "any 64-bit number".to_owned(),
            Self::Number { min, max, .. } => format!("{min} to {max}"),
            Self::Choice(words) => {
                let (last, rest) = words.split_last().expect("a choice has words");
                format!("{} or {last}", rest.join(", "))
            }
            Self::Switch => "true or false".to_owned(),
            Self::Or(word, kind) => format!("{}, or {word}", kind.range()),
        }
    }

    fn parse(&self, text: &str) -> Result<Value, String> {
        let value = match self {
            Self::Address => text.parse().ok().map(Value::Address),
            Self::Number { min, max, .. } => return self.number(text, 10, text, *min, *max),
            Self::Choice(words) => words.iter().find(|word| **word == text).copied().map(Value::Choice),
            Self::Switch => match text {
                "true" | "1" => Some(Value::Switch(true)),
                "false" | "0" => Some(Value::Switch(false)),
                _ => None,
            },
            Self::Or(word, _) if *word == text => Some(Value::Unset(word)),
            Self::Or(_, kind) => {
                return kind.parse(text).map_err(|what| self.or_word(what));
            }
        };
        value.ok_or_else(|| format!("`{}` is not {}", text.escape_debug(), self.noun()))
    }

    /// The value that a file's `value` stands for.
    pub(super) fn read(&self, value: &DeValue<'_>) -> Result<Value, String> {
        match (self, value) {
            (Self::Number { min, max, .. }, DeValue::Integer(number)) => {
                self.number(number.as_str(), number.radix(), &number.to_string(), *min, *max)
            }
            (Self::Address | Self::Choice(_), DeValue::String(text)) => self.parse(text),
            (Self::Switch, DeValue::Boolean(on)) => Ok(Value::Switch(*on)),
            (Self::Or(word, _), DeValue::String(text)) if text == word => Ok(Value::Unset(word)),
            (Self::Or(_, kind), _) => kind.read(value).map_err(|what| self.or_word(what)),
            _ => Err(format!("expected {}, found {}", self.noun(), toml_noun(value))),
        }
    }

    fn number(&self, digits: &str, radix: u32, shown: &str, min: u64, max: u64) -> Result<Value, String> {
        let shown = shown.escape_debug();
        let (below, above) = (format!("{shown} is below {min}"), format!("{shown} is above {max}"));
        match i128::from_str_radix(digits, radix) {
            Ok(number) if number < i128::from(min) => Err(below),
            Ok(number) if number > i128::from(max) => Err(above),
            Ok(number) => Ok(Value::Number(number as u64)),
            Err(error) => Err(match error.kind() {
                IntErrorKind::PosOverflow => above,
                IntErrorKind::NegOverflow => below,
                _ => format!("`{shown}` is not {}", self.noun()),
            }),
        }
    }

    /// Amends a complaint of the kind inside [`Kind::Or`], which does not know the word outside.
    fn or_word(&self, what: String) -> String {
        let Self::Or(_, inner) = self else { return what };
        what.replacen(&inner.noun(), &self.noun(), 1)
    }

    /// What a value is, in the middle of a sentence.
    fn noun(&self) -> String {
        match self {
            Self::Address => "ADDRESS:PORT".to_owned(),
            Self::Number { .. } => "a whole number".to_owned(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Switch => "true or false".to_owned(),
            Self::Or(word, kind) => format!("{} or {word}", kind.noun()),
        }
    }
}

/// What stands in the file instead.
fn toml_noun(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// As TOML.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "\"{address}\""),
            Self::Number(number) => write!(f, "{number}"),
            Self::Choice(word) | Self::Unset(word) => write!(f, "\"{word}\""),
            Self::Switch(on) => write!(f, "{on}"),
        }
    }
}

/// A field's type, made from the value of its key.
pub(super) trait Typed {
    /// # Panics
    /// When the kind that the table gives the key does not fit the field's type: a mistake in the table.
    fn from_value(value: &Value) -> Self;
}

impl Typed for SocketAddr {
    fn from_value(value: &Value) -> Self {
        let Value::Address(address) = value else { panic!("{value} is no address") };
        *address
    }
}

impl Typed for bool {
    fn from_value(value: &Value) -> Self {
        let Value::Switch(on) = value else { panic!("{value} is no switch") };
        *on
    }
}

impl Typed for u64 {
    fn from_value(value: &Value) -> Self {
        let Value::Number(number) = value else { panic!("{value} is no number") };
        *number
    }
}

impl Typed for u32 {
    fn from_value(value: &Value) -> Self {
        Self::try_from(u64::from_value(value)).expect("a range that fits its field")
    }
}

impl Typed for u16 {
    fn from_value(value: &Value) -> Self {
        Self::try_from(u64::from_value(value)).expect("a range that fits its field")
    }
}

impl Typed for u8 {
    fn from_value(value: &Value) -> Self {
        Self::try_from(u64::from_value(value)).expect("a range that fits its field")
    }
}

impl<T: Typed> Typed for Option<T> {
    fn from_value(value: &Value) -> Self {
        if matches!(value, Value::Unset(_)) { None } else { Some(T::from_value(value)) }
    }
}

/// The word that a choice settled on.
fn word(value: &Value) -> &'static str {
    let Value::Choice(word) = value else { panic!("{value} is no choice") };
    word
}

impl Typed for Level {
    fn from_value(value: &Value) -> Self {
        Self::from_word(word(value)).expect("a level")
    }
}

impl Typed for Wake {
    fn from_value(value: &Value) -> Self {
        Self::from_word(word(value)).expect("a way to wake")
    }
}

impl Typed for Backend {
    fn from_value(value: &Value) -> Self {
        Self::from_word(word(value)).expect("a backend")
    }
}

impl Typed for LevelFilter {
    fn from_value(value: &Value) -> Self {
        word(value).parse().expect("a log level")
    }
}
