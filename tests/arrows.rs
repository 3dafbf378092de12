//! Holds the architecture: reads the source and fails on an import that points the wrong way, on `unsafe` outside its
//! few files, on clocks, sockets and environments outside the edges, and on hash maps.
//!
//! Code under `#[cfg(test)]` may import what it likes and reach for the machine; `unsafe` and hash maps are out of
//! bounds there too.

mod scan {
    pub mod paths;
    pub mod tokens;
}

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use scan::paths::{Source, UsedPath};

/// Time, chance, memory, sizes and the vocabulary, which know nothing above them.
const GROUND: &[&str] = &["time", "rng", "heap", "storage", "model", "limits", "seam"];

/// For every module of the crate's root: what it may import beside itself. A new module needs a line here.
const LAYERS: &[(&str, &[&[&str]])] = &[
    ("time", &[]),
    ("rng", &[]),
    ("heap", &[]),
    ("storage", &[&["time", "rng"]]),
    ("model", &[&["time", "rng", "storage"]]),
    ("limits", &[&["model"]]),
    ("seam", &[&["time", "limits"]]),
    ("wire", &[GROUND]),
    ("lz4", &[GROUND]),
    ("session", &[GROUND, &["wire", "lz4"]]),
    ("world", &[GROUND]),
    ("snapshot", &[GROUND, &["world", "wire"]]),
    ("server", &[GROUND, &["wire", "lz4", "session", "world", "snapshot"]]),
    ("io", &[&["seam", "time", "storage", "limits", "heap"]]),
    ("client", &[GROUND, &["wire", "lz4", "session"]]),
    ("config", &[GROUND, &["world"]]),
    ("logger", &[GROUND]),
    ("admin", &[GROUND, &["server"]]),
    ("sim", &[EVERYTHING]),
];

/// Allows every module.
const EVERYTHING: &[&str] = &["*"];

/// The files that may hold `unsafe`.
const UNSAFE_FILES: &[&str] = &["io/sys/mod.rs", "io/sys/batch.rs", "io/sys/uring.rs", "heap.rs"];

/// Modules that may read clocks, open sockets and read the environment; so may the binary.
const MACHINE_MODULES: &[&str] = &["io", "config", "logger"];

#[test]
fn every_arrow_points_the_right_way() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = rust_files(&root);
    assert!(files.len() > 10, "found only {files:?}");
    let sources: Vec<Source> = files
        .iter()
        .map(|path| {
            let text = fs::read_to_string(path).expect("a source file");
            Source::new(path.strip_prefix(&root).expect("a file below the root"), &text)
        })
        .collect();
    let offences = check(&sources);
    assert!(offences.is_empty(), "\n{}\n", offences.join("\n"));
}

/// Every `.rs` file below `directory`, in order.
fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Everything wrong with `sources`, a line each.
fn check(sources: &[Source]) -> Vec<String> {
    let test_modules: BTreeSet<&[String]> =
        sources.iter().flat_map(|source| source.test_modules.iter().map(Vec::as_slice)).collect();
    let mut offences = Vec::new();
    for source in sources {
        let is_test = (1..=source.module.len()).any(|n| test_modules.contains(&source.module[..n]));
        let shown = source.path.display();
        for (line, word) in &source.words {
            if word == "unsafe" && !UNSAFE_FILES.iter().any(|file| source.path == Path::new(file)) {
                offences.push(format!("src/{shown}:{line}: unsafe outside {}", UNSAFE_FILES.join(" and ")));
            }
            if word == "HashMap" || word == "HashSet" {
                offences.push(format!("src/{shown}:{line}: {word}, whose order is random"));
            }
        }
        for used in source.paths.iter().filter(|used| !used.is_test && !is_test) {
            let wrong = wrong_arrow(source, used).or_else(|| wrong_reach(source, used));
            offences.extend(wrong.map(|what| format!("src/{shown}:{}: {what}", used.line)));
        }
    }
    offences
}

/// What is wrong with `used` as an import of the crate, if anything.
fn wrong_arrow(source: &Source, used: &UsedPath) -> Option<String> {
    let from = source.module.first()?;
    if source.is_binary() || used.segments[0] != "crate" {
        return None;
    }
    let to = match used.segments.get(1) {
        Some(to) if to != "*" => to,
        _ => return Some(format!("{from} imports the whole crate")),
    };
    let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| name == from) else {
        return Some(format!("{from} has no layer: give it one in tests/arrows.rs"));
    };
    if !LAYERS.iter().any(|(name, _)| name == to) {
        return Some(format!("{from} imports {to}, which has no layer: give it one in tests/arrows.rs"));
    }
    let may = to == from || allowed.iter().any(|list| *list == EVERYTHING || list.contains(&to.as_str()));
    (!may).then(|| format!("{from} → {to} points the wrong way ({})", used.segments.join("::")))
}

/// What is wrong with `used` as a reach for the machine, if anything.
fn wrong_reach(source: &Source, used: &UsedPath) -> Option<String> {
    let may = source.is_binary() || MACHINE_MODULES.contains(&source.module.first()?.as_str());
    let path: Vec<&str> = used.segments.iter().map(String::as_str).collect();
    let reaches = match path[..] {
        ["std", "env", ..] => true,
        ["std", "time"] => true,
        ["std", "time", item, ..] => ["Instant", "SystemTime", "UNIX_EPOCH", "*"].contains(&item),
        ["std", "net"] => true,
        ["std", "net", item, ..] => ["TcpStream", "TcpListener", "UdpSocket", "*"].contains(&item),
        ["std"] | ["std", "*"] => true,
        _ => false,
    };
    (reaches && !may).then(|| format!("{} outside the edges", path.join("::")))
}

/// The checker, on one file of `text`.
fn offences(path: &str, text: &str) -> Vec<String> {
    check(&[Source::new(Path::new(path), text)])
}

#[test]
fn a_planted_arrow_is_caught() {
    for (path, text, what) in [
        (
            "world/mod.rs",
            "use crate::wire::Reader;",
            "world → wire points the wrong way (crate::wire::Reader)",
        ),
        (
            "world/a/b.rs",
            "use crate::{model::Kind, wire::{self, x}};",
            "world → wire points the wrong way (crate::wire)",
        ),
        (
            "wire/mod.rs",
            "fn f() -> crate::session::Id { todo() }",
            "wire → session points the wrong way (crate::session::Id)",
        ),
        (
            "storage/ring.rs",
            "use super::super::session::Id;",
            "storage → session points the wrong way (crate::session::Id)",
        ),
        ("storage/mod.rs", "use super::{server};", "storage → server points the wrong way (crate::server)"),
        (
            "lz4.rs",
            "mod a { mod b { use super::super::super::wire::X; } }",
            "lz4 → wire points the wrong way (crate::wire::X)",
        ),
        (
            "server/mod.rs",
            "pub use crate::io::Loop as L;",
            "server → io points the wrong way (crate::io::Loop)",
        ),
        (
            "client/mod.rs",
            "macro_rules! m { () => { $crate::server::X } }",
            "client → server points the wrong way (crate::server::X)",
        ),
        (
            "io/mod.rs",
            "type A = Vec<crate::model::Kind>;",
            "io → model points the wrong way (crate::model::Kind)",
        ),
        ("rng.rs", "use crate::time::Instant;", "rng → time points the wrong way (crate::time::Instant)"),
        ("time.rs", "use crate::*;", "time imports the whole crate"),
        ("time.rs", "use crate as everything;", "time imports the whole crate"),
        ("time.rs", "use super::*;", "time imports the whole crate"),
        ("novel.rs", "use crate::time::Tick;", "novel has no layer: give it one in tests/arrows.rs"),
        (
            "sim/mod.rs",
            "use crate::novel::X;",
            "sim imports novel, which has no layer: give it one in tests/arrows.rs",
        ),
        (
            "world/mod.rs",
            "#[cfg(not(test))] use crate::wire::X;",
            "world → wire points the wrong way (crate::wire::X)",
        ),
    ] {
        let found = offences(path, &format!("//! A file.\n{text}\n"));
        assert!(found.contains(&format!("src/{path}:2: {what}")), "{text}: {found:?}");
    }
}

#[test]
fn a_planted_reach_is_caught() {
    const UNSAFE_OUTSIDE: &str =
        "unsafe outside io/sys/mod.rs and io/sys/batch.rs and io/sys/uring.rs and heap.rs";
    for (text, what) in [
        ("use std::time::Instant;", "std::time::Instant outside the edges"),
        ("use std::{fmt, time::{Duration, SystemTime}};", "std::time::SystemTime outside the edges"),
        ("use ::std::time::SystemTime;", "std::time::SystemTime outside the edges"),
        ("fn f() { let t = std::time::Instant::now(); }", "std::time::Instant::now outside the edges"),
        ("use std::time;", "std::time outside the edges"),
        ("use std::net::*;", "std::net::* outside the edges"),
        ("use std::net::{SocketAddr, UdpSocket as U};", "std::net::UdpSocket outside the edges"),
        ("fn f() { std::env::args(); }", "std::env::args outside the edges"),
        ("use std::collections::HashMap;", "HashMap, whose order is random"),
        ("fn f() { unsafe { g() } }", UNSAFE_OUTSIDE),
        ("#[cfg(test)] mod tests { fn f() { unsafe { g() } } }", UNSAFE_OUTSIDE),
    ] {
        let found = offences("server/mod.rs", text);
        assert!(found.contains(&format!("src/server/mod.rs:1: {what}")), "{text}: {found:?}");
    }
}

#[test]
fn what_is_allowed_is_not_caught() {
    for (path, text) in [
        ("world/mod.rs", "use crate::model::{Kind, entity::Entity};\nuse crate::{rng, world::game::Game};"),
        ("world/rtype/mod.rs", "use super::super::model::Kind; use super::game; use self::rules;"),
        (
            "session/a.rs",
            "// use crate::server::X;\n/* crate::io /* nested */ crate::io */\n/// [`crate::server`]\nfn f() {}",
        ),
        (
            "session/a.rs",
            "const S: &str = \"use crate::server::X \\\" unsafe\"; const R: &str = r#\"crate::io \" unsafe\"#;",
        ),
        ("session/a.rs", "fn f<'a>(x: &'a str) -> char { let c = '\"'; let d = '\\''; c } // crate::server"),
        ("session/a.rs", "#[cfg(test)]\nmod tests { use crate::server::X; use std::time::Instant; }"),
        ("session/a.rs", "#[cfg(test)]\nuse crate::server::X;\nfn g() {}"),
        ("session/a.rs", "#[cfg(all(test, unix))]\n#[test]\nfn f() { crate::server::x(); }"),
        ("session/a.rs", "use std::net::{IpAddr, SocketAddr}; use std::time::Duration;"),
        ("session/a.rs", "use crate::session::b; use crate::wire::aegis::{Header, header::{self}};"),
        ("io/sys/mod.rs", "fn f() { unsafe { g() } } use std::time::Instant; use std::net::UdpSocket;"),
        ("main.rs", "use tickwire::server::Server; use crate::cli::X; fn f() { std::env::args(); }"),
        ("main/serve.rs", "use crate::report; use std::net::UdpSocket;"),
        ("lib.rs", "pub mod client; pub mod io;"),
        ("sim/mod.rs", "use crate::{client::A, server::B, io::C};"),
    ] {
        assert_eq!(offences(path, text), Vec::<String>::new(), "{text}");
    }
}

/// A module behind `#[cfg(test)]` in a file of its own is test code, with all below it.
#[test]
fn test_modules_in_files_of_their_own() {
    let file = |path: &str, text: &str| Source::new(Path::new(path), text);
    let import = "use crate::server::X;";
    let parent = "#[cfg(test)]\nmod checks;\nmod plain;";
    let found = check(&[
        file("wire/mod.rs", parent),
        file("wire/checks.rs", import),
        file("wire/checks/deep.rs", import),
        file("wire/plain.rs", import),
    ]);
    assert_eq!(found, ["src/wire/plain.rs:1: wire → server points the wrong way (crate::server::X)"]);
}
