//! A writer of JSON: objects of numbers, texts and further objects, which is all that a report is.

use std::fmt::{Display, Write as _};

/// An object being written.
#[derive(Debug)]
pub struct Object<'a> {
    out: &'a mut String,
    is_empty: bool,
}

/// Writes an object whose members `fill` gives.
pub fn object(fill: impl FnOnce(&mut Object<'_>)) -> String {
    let mut out = String::new();
    write(&mut out, fill);
    out
}

fn write(out: &mut String, fill: impl FnOnce(&mut Object<'_>)) {
    out.push('{');
    fill(&mut Object { out, is_empty: true });
    out.push('}');
}

impl Object<'_> {
    /// A whole number.
    pub fn integer(&mut self, name: &str, value: u64) {
        self.raw(name, value);
    }

    /// A number with three places; `null` when it is none.
    pub fn decimal(&mut self, name: &str, value: f64) {
        if value.is_finite() { self.raw(name, format_args!("{value:.3}")) } else { self.raw(name, "null") }
    }

    /// True or false.
    pub fn boolean(&mut self, name: &str, value: bool) {
        self.raw(name, value);
    }

    /// A text.
    pub fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        quote(self.out, value);
    }

    /// A further object.
    pub fn object(&mut self, name: &str, fill: impl FnOnce(&mut Object<'_>)) {
        self.name(name);
        write(self.out, fill);
    }

    fn raw(&mut self, name: &str, value: impl Display) {
        self.name(name);
        // A String takes everything.
        let _ = write!(self.out, "{value}");
    }

    fn name(&mut self, name: &str) {
        if !self.is_empty {
            self.out.push(',');
        }
        self.is_empty = false;
        quote(self.out, name);
        self.out.push(':');
    }
}

fn quote(out: &mut String, text: &str) {
    out.push('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            _ if char.is_control() => _ = write!(out, "\\u{:04x}", u32::from(char)),
            _ => out.push(char),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_every_kind() {
        let text = object(|it| {
            it.integer("n", u64::MAX);
            it.decimal("d", 1.0 / 3.0);
            it.decimal("none", f64::NAN);
            it.boolean("b", true);
            it.text("t", "a \"b\" \\ \n");
            it.object("o", |it| it.object("p", |_| ()));
        });
        let expected = r#"{"n":18446744073709551615,"d":0.333,"none":null,"b":true,"t":"a \"b\" \\ \u000a","o":{"p":{}}}"#;
        assert_eq!(text, expected);
    }
}
