//! The TOML file: one flat table of the options' names.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use toml::de::DeTable;

use super::effective::{Origin, Setting};
use super::error::Error;
use super::options::KEYS;
use super::shown;

/// The largest file read, in bytes: a device or a log given by mistake is refused, not swallowed.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Lets the file at `path` replace `settings`.
pub(super) fn read(path: &Path, settings: &mut [Setting], errors: &mut Vec<Error>) {
    let name = shown(path);
    match read_text(path) {
        Ok(text) => parse(&name, &text, settings, errors),
        Err(what) => errors.push(Error::new(Origin::File(name, None), None, what)),
    }
}

fn read_text(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error: io::Error| error.to_string())?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("larger than {FILE_BYTES_MAX} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())
}

/// Lets `text`, the contents of the file `name`, replace `settings`. Complaints come in the order of the lines.
pub(super) fn parse(name: &str, text: &str, settings: &mut [Setting], errors: &mut Vec<Error>) {
    let at = |offset: usize| Origin::File(name.to_owned(), Some(line(text, offset)));
    let (table, syntax) = DeTable::parse_recoverable(text);
    if !syntax.is_empty() {
        // What a broken file recovers to is a guess: its values would only give complaints that mislead.
        let mut syntax: Vec<_> =
            syntax.iter().map(|error| (error.span().map_or(0, |span| span.start), error.message())).collect();
        syntax.sort_unstable();
        errors.extend(
            syntax
                .iter()
                .map(|(offset, what)| Error::new(at(*offset), None, what.escape_debug().to_string())),
        );
        return;
    }
    let mut entries: Vec<_> = table.get_ref().iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in entries {
        let origin = at(key.span().start);
        let name = key.get_ref().as_ref();
        let Some(index) = KEYS.iter().position(|known| known.name == name) else {
            errors.push(Error::new(origin, Some(name), unknown(name)));
            continue;
        };
        match KEYS[index].kind.read(value.get_ref()) {
            Ok(value) => settings[index] = Setting { value, origin },
            Err(what) => errors.push(Error::new(origin, Some(name), what)),
        }
    }
}

/// The complaint about a key that is none, with the one it resembles.
fn unknown(name: &str) -> String {
    let plain = name.replace('-', "_").to_ascii_lowercase();
    match KEYS.iter().find(|key| key.name == plain) {
        Some(key) => format!("unknown key (the option is {})", key.name),
        None => "unknown key".to_owned(),
    }
}

/// The line, from 1, of the byte at `offset`.
fn line(text: &str, offset: usize) -> usize {
    let before = &text.as_bytes()[..offset.min(text.len())];
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}
