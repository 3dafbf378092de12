//! Precedence, every way to set every key, and every complaint by its exact words.

use std::collections::BTreeMap;
use std::fs;

use log::LevelFilter;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// Sources to load from, made by hand.
#[derive(Default)]
struct Given {
    file: Option<String>,
    variables: BTreeMap<String, OsString>,
    flags: BTreeMap<String, String>,
}

impl Given {
    fn file(mut self, text: &str) -> Self {
        self.file = Some(text.to_owned());
        self
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.into());
        self
    }

    fn flag(mut self, name: &str, value: &str) -> Self {
        self.flags.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Loads, with the file's directory taken out of every complaint and origin.
    fn load(&self) -> Result<Effective, Errors> {
        let directory = TempDir::new().expect("a temporary directory");
        let path = directory.path().join("tickwire.toml");
        if let Some(text) = &self.file {
            fs::write(&path, text).expect("a file");
        }
        let prefix = format!("{}/", directory.path().display());
        let plain = |origin: &mut Origin| {
            if let Origin::File(name, _) = origin {
                *name = name.replace(&prefix, "");
            }
        };
        let mut result = load(&Sources {
            file: self.file.as_ref().map(|_| path),
            variable: &|name| self.variables.get(name).cloned(),
            flag: &|key| self.flags.get(&key.flag()).cloned(),
        });
        match &mut result {
            Ok(effective) => {
                effective.settings_mut().iter_mut().for_each(|setting| plain(&mut setting.origin))
            }
            Err(errors) => errors.0.iter_mut().for_each(|error| {
                plain(&mut error.origin);
                error.what = error.what.replace(&prefix, "");
            }),
        }
        result
    }

    fn options(&self) -> Options {
        self.load().unwrap_or_else(|errors| panic!("{errors}")).options
    }

    /// The complaints, by line.
    fn complaints(&self) -> Vec<String> {
        let errors = self.load().expect_err("a mistake").to_string();
        errors.lines().map(str::to_owned).collect()
    }
}

fn key(name: &str) -> &'static Key {
    KEYS.iter().find(|key| key.name == name).expect("an option's name")
}

/// A valid value of `kind`, as text for flags and variables and as TOML; different for small different `n`, as far
/// as the kind has that many.
fn sample(kind: &Kind, n: u16) -> (String, String) {
    match kind {
        Kind::Address => {
            let text =
                if n.is_multiple_of(2) { format!("10.0.0.1:{n}") } else { format!("[2001:db8::1]:{n}") };
            (text.clone(), format!("\"{text}\""))
        }
        Kind::Number { min, max, .. } => {
            let number = (min + u64::from(n)).min(*max).to_string();
            (number.clone(), number)
        }
        Kind::Choice(words) => {
            let word = words[usize::from(n) % words.len()];
            (word.to_owned(), format!("\"{word}\""))
        }
        Kind::Switch => {
            let on = n.is_multiple_of(2).to_string();
            (on.clone(), on)
        }
        Kind::Or(word, _) if n == 0 => ((*word).to_owned(), format!("\"{word}\"")),
        Kind::Or(_, kind) => sample(kind, n),
    }
}

#[test]
fn defaults() {
    let expected = Options {
        aegis_tcp: "0.0.0.0:4243".parse().unwrap(),
        aegis_udp: "0.0.0.0:4243".parse().unwrap(),
        rtype_udp: None,
        rtype_idle_timeout_s: 10,
        fignet_udp: None,
        admin: None,
        rooms: 64,
        sessions_per_address: 16,
        level: Level::Level1,
        entities: 128,
        stress_entities: 100,
        snapshot_interval: 3,
        round_start_players: 2,
        round_start_wait_s: 30,
        seed: None,
        fignet_protocol_id: 305419896,
        fignet_max_peers: 64,
        fignet_max_channels: 4,
        fignet_mtu: 1200,
        fignet_connection_timeout_ms: 5000,
        fignet_ping_interval_ms: 5000,
        fignet_disconnect_timeout_ms: 10000,
        fignet_bandwidth_limit_bytes_per_sec: 262144,
        fignet_packet_rate_per_sec: 30,
        fignet_initial_rto_ms: 100,
        fignet_max_rto_ms: 5000,
        fignet_max_retransmissions: 8,
        fignet_max_fragment_size: 1200,
        fignet_max_fragments_per_message: 64,
        fignet_fragment_timeout_ms: 5000,
        fignet_connection_attempts_per_minute: 3,
        fignet_require_encryption: false,
        wake: Wake::Tick,
        backend: Backend::Auto,
        busy_poll_us: 0,
        pin: None,
        priority: 0,
        log: LevelFilter::Info,
        verify: false,
    };
    assert_eq!(Given::default().options(), expected);
}

#[test]
fn typed_values_arrive() {
    let options = Given::default()
        .flag("--rtype-udp", "[::1]:4242")
        .flag("--level", "stress")
        .flag("--wake", "event")
        .flag("--log", "trace")
        .flag("--seed", "18446744073709551615")
        .flag("--verify", "true")
        .options();
    assert_eq!(options.rtype_udp, Some("[::1]:4242".parse().unwrap()));
    assert_eq!((options.level, options.wake, options.log), (Level::Stress, Wake::Event, LevelFilter::Trace));
    assert_eq!((options.seed, options.verify), (Some(u64::MAX), true));
}

#[test]
fn every_key_in_every_way() {
    for key in KEYS {
        for n in [0, 1, 2] {
            let (text, toml) = sample(&key.kind, n);
            let value = key.parse(&text).unwrap();
            let line = format!("# a line\n{} = {toml}\n", key.name);
            let ways = [
                (Given::default().file(&line), "tickwire.toml:2".to_owned()),
                (Given::default().variable(&key.variable(), &text), key.variable()),
                (Given::default().flag(&key.flag(), &text), key.flag()),
            ];
            for (given, origin) in ways {
                let effective = given.load().unwrap_or_else(|errors| panic!("{errors}"));
                let setting = effective.get(key.name);
                assert_eq!((setting.value, setting.origin.to_string()), (value, origin), "{text}");
                for other in KEYS.iter().filter(|other| other.name != key.name) {
                    assert_eq!(effective.get(other.name).origin, Origin::Default, "{}", other.name);
                }
            }
        }
    }
}

/// The ends of each range are in it, what is one further is not, and the words say so.
#[test]
fn ranges_hold_their_ends() {
    for key in KEYS {
        let number = match key.kind {
            Kind::Or(_, kind) => kind,
            ref kind => kind,
        };
        let Kind::Number { min, max, .. } = *number else { continue };
        for inside in [min, max] {
            assert_eq!(key.parse(&inside.to_string()), Ok(Value::Number(inside)), "{}", key.name);
        }
        let (below, above) = (i128::from(min) - 1, i128::from(max) + 1);
        assert_eq!(key.parse(&below.to_string()), Err(format!("{below} is below {min}")), "{}", key.name);
        assert_eq!(key.parse(&above.to_string()), Err(format!("{above} is above {max}")), "{}", key.name);
    }
}

#[test]
fn a_stronger_source_wins() {
    let given = Given::default().file("rooms = 2").variable("TICKWIRE_ROOMS", "3").flag("--rooms", "4");
    assert_eq!(given.options().rooms, 4);
    let given = Given::default().file("rooms = 2").variable("TICKWIRE_ROOMS", "3");
    assert_eq!(given.options().rooms, 3);
    assert_eq!(Given::default().file("rooms = 2").options().rooms, 2);
    // A door that the file opens can be shut again.
    let given = Given::default().file("admin = \"127.0.0.1:9000\"").flag("--admin", "off");
    assert_eq!(given.options().admin, None);
}

#[test]
fn the_environment_may_name_the_file() {
    let directory = TempDir::new().expect("a temporary directory");
    let [weak, strong] = ["weak.toml", "strong.toml"].map(|name| directory.path().join(name));
    fs::write(&weak, "rooms = 2").expect("a file");
    fs::write(&strong, "rooms = 3").expect("a file");
    let rooms = |file: Option<PathBuf>| {
        let variable = |name: &str| (name == CONFIG_VARIABLE).then(|| weak.clone().into_os_string());
        load(&Sources { file, variable: &variable, flag: &|_| None }).expect("sound files").options.rooms
    };
    assert_eq!(rooms(None), 2);
    assert_eq!(rooms(Some(strong)), 3);
}

#[test]
fn every_mistake_of_a_file_at_once_by_line() {
    let text = "\
aegis_tcp = \"localhost:4243\"
aegis-udp = \"127.0.0.1:4243\"
rtype_udp = 4242

fignet_udp = \"x\"

rooms = 9000
entities = \"128\"
level = \"level9\"
log = 3
snapshot_interval = 0
round_start_players = 2.0
round_start_wait_s = -0x1
round_start_wait_min = 1
seed = -5
stress_entities = 99999999999999999999999999999999999999999999
wake = [\"tick\"]
verify = \"yes\"
sessions_per_address = 1979-05-27
[server]
rooms = 1
";
    let text = text.replace("-0x1", "0xffff");
    let expected = "\
tickwire.toml:1: aegis_tcp: `localhost:4243` is not ADDRESS:PORT
tickwire.toml:2: aegis-udp: unknown key (the option is aegis_udp)
tickwire.toml:3: rtype_udp: expected ADDRESS:PORT or off, found an integer
tickwire.toml:5: fignet_udp: `x` is not ADDRESS:PORT or off
tickwire.toml:7: rooms: 9000 is above 4096
tickwire.toml:8: entities: expected a whole number, found a string
tickwire.toml:9: level: `level9` is not one of level1, stress
tickwire.toml:10: log: expected one of off, error, warn, info, debug, trace, found an integer
tickwire.toml:11: snapshot_interval: 0 is below 1
tickwire.toml:12: round_start_players: expected a whole number, found a float
tickwire.toml:13: round_start_wait_s: 0xffff is above 3600
tickwire.toml:14: round_start_wait_min: unknown key
tickwire.toml:15: seed: -5 is below 0
tickwire.toml:16: stress_entities: 99999999999999999999999999999999999999999999 is above 60000
tickwire.toml:17: wake: expected one of tick, event, found an array
tickwire.toml:18: verify: expected true or false, found a string
tickwire.toml:19: sessions_per_address: expected a whole number, found a date or time
tickwire.toml:20: server: unknown key";
    assert_eq!(Given::default().file(&text).complaints(), expected.lines().collect::<Vec<_>>());
}

#[test]
fn syntax_is_complained_about_by_line() {
    let complaints = Given::default().file("rooms = 9000\nlevel = \"a\"\nlevel = \"b\"\n[x").complaints();
    assert_eq!(complaints.len(), 2, "{complaints:?}");
    assert!(complaints[0].starts_with("tickwire.toml:3: duplicate key"), "{complaints:?}");
    assert!(complaints[1].starts_with("tickwire.toml:4: "), "{complaints:?}");
}

#[test]
fn files_that_cannot_be_read() {
    let directory = TempDir::new().expect("a temporary directory");
    let complaint = |name: &str, bytes: Option<&[u8]>| {
        let path = directory.path().join(name);
        if let Some(bytes) = bytes {
            fs::write(&path, bytes).expect("a file");
        }
        let sources = Sources { file: Some(path.clone()), variable: &|_| None, flag: &|_| None };
        let errors = load(&sources).expect_err("a mistake").to_string();
        errors.strip_prefix(&format!("{}: ", path.display())).expect("the file's name").to_owned()
    };
    assert_eq!(complaint("none", None), "No such file or directory (os error 2)");
    assert_eq!(complaint("latin", Some(b"# caf\xe9")), "not UTF-8");
    assert_eq!(complaint("large", Some(&vec![b' '; (1 << 20) + 1])), "larger than 1048576 bytes");
}

#[test]
fn variables_and_flags_are_named_in_complaints() {
    let mut given = Given::default()
        .variable("TICKWIRE_ROOMS", "0")
        .variable("TICKWIRE_LOG", "")
        .variable("TICKWIRE_VERIFY", "yes")
        .variable("TICKWIRE_SEED", "dice")
        .flag("--aegis-tcp", "foo")
        .flag("--admin", "1.2.3.4")
        .flag("--wake", "a\nb")
        .flag("--level", "foo")
        .flag("--entities", "many")
        .flag("--stress-entities", "-340282366920938463463374607431768211456");
    // A byte that is no UTF-8.
    let bytes = std::os::unix::ffi::OsStringExt::from_vec(vec![0xff]);
    given.variables.insert("TICKWIRE_RTYPE_UDP".to_owned(), bytes);
    let expected = [
        "--aegis-tcp: `foo` is not ADDRESS:PORT",
        "TICKWIRE_RTYPE_UDP: not UTF-8",
        "--admin: `1.2.3.4` is not ADDRESS:PORT or off",
        "TICKWIRE_ROOMS: 0 is below 1",
        "--level: `foo` is not one of level1, stress",
        "--entities: `many` is not a whole number",
        "--stress-entities: -340282366920938463463374607431768211456 is below 1",
        "TICKWIRE_SEED: `dice` is not a whole number or random",
        "--wake: `a\\nb` is not one of tick, event",
        "TICKWIRE_LOG: `` is not one of off, error, warn, info, debug, trace",
        "TICKWIRE_VERIFY: `yes` is not true or false",
    ];
    assert_eq!(given.complaints(), expected);
}

/// A mistake counts even where a stronger source makes up for it.
#[test]
fn overridden_mistakes_are_mistakes() {
    let given = Given::default().file("rooms = 0").variable("TICKWIRE_ROOMS", "x").flag("--rooms", "4");
    assert_eq!(
        given.complaints(),
        ["tickwire.toml:1: rooms: 0 is below 1", "TICKWIRE_ROOMS: `x` is not a whole number"]
    );
}

#[test]
fn the_stress_level_fits_its_rooms() {
    let given = Given::default().file("\nentities = 64").flag("--level", "stress");
    assert_eq!(
        given.complaints(),
        ["stress_entities: 100 (default) does not fit in entities: 64 (tickwire.toml:2)"]
    );
    let given = Given::default().flag("--stress-entities", "129");
    assert_eq!(
        given.complaints(),
        ["stress_entities: 129 (--stress-entities) does not fit in entities: 128 (default)"]
    );
    assert_eq!(Given::default().flag("--stress-entities", "128").options().stress_entities, 128);
    // Its default stands in nobody's way on another level.
    assert_eq!(Given::default().flag("--entities", "64").options().entities, 64);
}

#[test]
fn doors_of_one_transport_differ() {
    let given =
        Given::default().flag("--fignet-udp", "0.0.0.0:4243").variable("TICKWIRE_ADMIN", "0.0.0.0:4243");
    assert_eq!(
        given.complaints(),
        [
            "fignet_udp: \"0.0.0.0:4243\" (--fignet-udp) is also aegis_udp: \"0.0.0.0:4243\" (default)",
            "admin: \"0.0.0.0:4243\" (TICKWIRE_ADMIN) is also aegis_tcp: \"0.0.0.0:4243\" (default)",
        ]
    );
    let given = Given::default().flag("--rtype-udp", "127.0.0.1:0").flag("--fignet-udp", "127.0.0.1:0");
    assert!(given.load().is_ok(), "port 0 is a new port each time");
}

#[test]
fn the_effective_configuration_names_its_sources() {
    let given = Given::default()
        .file("rooms = 2\nadmin = \"[::1]:9\"")
        .variable("TICKWIRE_WAKE", "event")
        .flag("--seed", "7");
    let shown = given.load().expect("sound settings").to_string();
    for line in [
        "rooms = 2                                # tickwire.toml:1",
        "admin = \"[::1]:9\"                        # tickwire.toml:2",
        "wake = \"event\"                           # TICKWIRE_WAKE",
        "seed = 7                                 # --seed",
        "rtype_udp = \"off\"                        # default",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
    assert_eq!(shown.lines().count(), KEYS.len());
}

#[test]
fn keys_are_named_alike_and_documented() {
    for key in KEYS {
        assert!(
            key.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'),
            "{}",
            key.name
        );
        assert!(key.doc().ends_with('.'), "{}: {}", key.name, key.doc());
    }
    let rtype = key("rtype_udp");
    assert_eq!((rtype.flag(), rtype.variable()), ("--rtype-udp".to_owned(), "TICKWIRE_RTYPE_UDP".to_owned()));
}

/// The table in the operator's guide is the table of options.
#[test]
fn the_guide_lists_the_options() {
    let guide = include_str!("../../docs/operations.md");
    let mut table = String::from("| flag | values | default | meaning |\n|---|---|---|---|\n");
    for key in KEYS {
        let (flag, range, default, doc) = (key.flag(), key.kind.range(), key.default, key.doc());
        table += &format!("| `{flag}` | {range} | `{default}` | {doc} |\n");
    }
    assert!(guide.contains(&table), "docs/operations.md should hold this table:\n{table}");
}

/// A setting for some key: in the file, the environment, a flag.
type Choices = Vec<[Option<u16>; 3]>;

fn choices() -> impl Strategy<Value = Choices> {
    let n = || proptest::option::of(0..50u16);
    proptest::collection::vec([n(), n(), n()], KEYS.len())
}

proptest! {
    /// For every key on its own: flag over environment over file over default.
    #[test]
    fn precedence(choices in choices()) {
        let mut given = Given::default().file("");
        let mut expected = Vec::new();
        for (key, [file, variable, flag]) in KEYS.iter().zip(&choices) {
            let mut strongest = key.default_value();
            if let Some(n) = file {
                let (text, toml) = sample(&key.kind, *n);
                given.file = given.file.map(|file| file + &format!("{} = {toml}\n", key.name));
                strongest = key.parse(&text).unwrap();
            }
            if let Some(n) = variable {
                let (text, _) = sample(&key.kind, *n);
                strongest = key.parse(&text).unwrap();
                given = given.variable(&key.variable(), &text);
            }
            if let Some(n) = flag {
                let (text, _) = sample(&key.kind, *n);
                strongest = key.parse(&text).unwrap();
                given = given.flag(&key.flag(), &text);
            }
            expected.push(strongest);
        }
        match given.load() {
            Ok(effective) => {
                for (key, value) in KEYS.iter().zip(expected) {
                    prop_assert_eq!(effective.get(key.name).value, value, "{}", key.name);
                }
                // What is shown is a file that gives the same again.
                let again = Given::default().file(&effective.to_string()).options();
                prop_assert_eq!(again, effective.options);
            }
            // Sound settings can still contradict each other.
            Err(errors) => prop_assert!(errors.0.iter().all(|error| error.origin == Origin::Default), "{}", errors),
        }
    }

    /// No text makes a key panic, and a complaint is one line.
    #[test]
    fn any_text_is_a_value_or_a_line(text in any::<String>()) {
        for key in KEYS {
            if let Err(what) = key.parse(&text) {
                prop_assert_eq!(what.lines().count(), 1);
            }
        }
    }

    /// Neither does any file.
    #[test]
    fn any_file_is_options_or_lines(text in "([a-z_]{1,8}|rooms|level|seed|=|\\[|\\]|\"|[0-9-]{1,4}|[ \n\r\t.#]|\\PC){0,40}") {
        if let Err(errors) = Given::default().file(&text).load() {
            for error in &errors.0 {
                prop_assert_eq!(error.to_string().lines().count(), 1, "{}", error);
            }
        }
    }
}
