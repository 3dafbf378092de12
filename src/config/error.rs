//! What is wrong with a configuration, one line each.

use std::fmt;

use super::effective::Origin;

/// One mistake: where, in which key, and what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// Where the value comes from; [`Origin::Default`] when no single source is to blame.
    pub origin: Origin,
    /// The key, where the origin does not name it already.
    pub key: Option<String>,
    /// What is wrong.
    pub what: String,
}

/// Every mistake found. Shows as a line each, without a newline at the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Errors(pub Vec<Error>);

impl Error {
    pub(super) fn new(origin: Origin, key: Option<&str>, what: impl Into<String>) -> Self {
        Self { origin, key: key.map(|key| key.escape_debug().to_string()), what: what.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.origin != Origin::Default {
            write!(f, "{}: ", self.origin)?;
        }
        if let Some(key) = &self.key {
            write!(f, "{key}: ")?;
        }
        f.write_str(&self.what)
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
impl std::error::Error for Errors {}
