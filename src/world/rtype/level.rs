//! Levels: what comes when. Read from TOML at start, checked whole, spread out into sorted lists, then shared by all
//! rooms. The format is described in `docs/game.md`.

use std::fmt;

use serde::Deserialize;

use super::rules::{BYDOS, FIELD_HEIGHT, TILES};
use crate::model::UNITS_PER_PIXEL;

/// Most enemies in a level, and most tiles.
pub const SPAWNS_MAX: usize = 4096;
/// Longest level, in ticks: an hour.
pub const LENGTH_TICKS_MAX: u32 = 216_000;
/// Furthest that a tile can stand from the start of a level, in pixels.
pub const STAGE_PIXELS_MAX: i64 = 1_000_000;
/// Most entities that a stress level can be asked for.
pub const STRESS_ENTITIES_MAX: u32 = 65_535;

/// A checked level.
#[derive(Clone, Debug)]
pub struct Level {
    name: String,
    pub(super) course: Course,
}

/// What a level is made of.
#[derive(Clone, Debug)]
pub(super) enum Course {
    Script(Script),
    Stress(Stress),
}

/// Everything that appears, in the order of its appearance.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) length_ticks: u32,
    /// Units per tick, to the left.
    pub(super) scroll_speed: i16,
    /// By rising x.
    pub(super) tiles: Box<[TileSpawn]>,
    /// By rising tick.
    pub(super) enemies: Box<[EnemySpawn]>,
}

/// A tile to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct TileSpawn {
    /// Units from the right edge of the playfield when the level starts.
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) variant: u8,
}

/// An enemy to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct EnemySpawn {
    pub(super) tick: u32,
    pub(super) y: i32,
    /// Chance moves it up or down by as much as this.
    pub(super) scatter: i32,
    pub(super) vx: i16,
    pub(super) weave: Weave,
    pub(super) health: u8,
    pub(super) score: u16,
}

/// How a flight weaves: `climb` for `turn_ticks`, level for as long, back, level again. No turns for straight flight.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Weave {
    /// Vertical velocity of the first leg; 0 for straight flight.
    pub(super) climb: i16,
    /// Length of a leg; 0 for straight flight.
    pub(super) turn_ticks: u16,
}

/// A crowd of constant size that bounces about and never ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stress {
    pub(super) entities: u32,
    pub(super) speed: i16,
    pub(super) weave_percent: u8,
    pub(super) turn_ticks: u16,
    pub(super) health: u8,
    pub(super) score: u16,
}

/// Why a text is no level.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LevelError {
    /// Not TOML, a key that is missing or unknown, or a value of the wrong type; the message names it and its line.
    Format(String),
    /// A value that cannot be: which key, and what it may be.
    Value {
        /// Path of the key, such as `waves[3].speed`.
        key: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl fmt::Display for LevelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(message) => f.write_str(message.trim_end()),
            Self::Value { key, problem } => write!(f, "{key}: {problem}"),
        }
    }
}

impl std::error::Error for LevelError {}

impl Level {
    /// A level that the program carries: `level1`, a stage of about two and a half minutes, or `stress`.
    pub fn builtin(name: &str) -> Option<Self> {
        let text = match name {
            "level1" => include_str!("../../../levels/level1.toml"),
            "stress" => include_str!("../../../levels/stress.toml"),
            _ => return None,
        };
        Some(Self::parse(text).expect("the levels inside the program are checked by its tests"))
    }

    /// The level that `text` describes.
    ///
    /// # Errors
    /// When it is not TOML of the format, or when a value is out of its range.
    pub fn parse(text: &str) -> Result<Self, LevelError> {
        let raw: RawLevel = toml::from_str(text).map_err(|error| LevelError::Format(error.to_string()))?;
        if raw.name.is_empty() || raw.name.len() > 32 {
            return Err(wrong("name", "must have 1 to 32 bytes"));
        }
        let course = match (raw.script, raw.stress) {
            (Some(script), None) => Course::Script(script.checked(&raw.tiles, &raw.waves)?),
            (None, Some(_)) if !raw.tiles.is_empty() => {
                return Err(wrong("tiles", "a stress level has none"));
            }
            (None, Some(_)) if !raw.waves.is_empty() => {
                return Err(wrong("waves", "a stress level has none"));
            }
            (None, Some(stress)) => Course::Stress(stress.checked()?),
            (Some(_), Some(_)) => return Err(wrong("stress", "a level has either [script] or [stress]")),
            (None, None) => return Err(wrong("script", "a level needs a table [script] or [stress]")),
        };
        Ok(Self { name: raw.name, course })
    }

    /// The same level with a crowd of another size, for a stress level.
    ///
    /// # Errors
    /// When the level has no crowd, or `entities` is 0 or above [`STRESS_ENTITIES_MAX`].
    pub fn with_entities(mut self, entities: u32) -> Result<Self, LevelError> {
        let Course::Stress(stress) = &mut self.course else {
            return Err(wrong("entities", "only a stress level has a number of entities"));
        };
        let entities = within("entities", i64::from(entities), 1, i64::from(STRESS_ENTITIES_MAX))?;
        stress.entities = entities as u32;
        Ok(self)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Size of the crowd that it keeps, for a stress level.
    pub fn entities(&self) -> Option<u32> {
        match &self.course {
            Course::Script(_) => None,
            Course::Stress(stress) => Some(stress.entities),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLevel {
    name: String,
    script: Option<RawScript>,
    stress: Option<RawStress>,
    #[serde(default)]
    tiles: Vec<RawTiles>,
    #[serde(default)]
    waves: Vec<RawWave>,
}

// Numbers are read wide, so that one out of range is refused by its key and range instead of by its type.

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScript {
    length_ticks: i64,
    scroll_speed: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTiles {
    variant: Variant,
    place: Place,
    x: i64,
    #[serde(default = "one")]
    count: i64,
    #[serde(default)]
    every: i64,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Variant {
    LowGround,
    MediumGround,
    HighGround,
    Ramp,
    Reactor,
    Gate,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Place {
    Ceiling,
    Floor,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWave {
    at_tick: i64,
    flight: Flight,
    count: i64,
    #[serde(default)]
    spacing_ticks: i64,
    y: i64,
    #[serde(default)]
    y_step: i64,
    #[serde(default)]
    scatter: i64,
    speed: i64,
    #[serde(default)]
    climb: i64,
    #[serde(default)]
    turn_ticks: i64,
    health: i64,
    score: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Flight {
    Straight,
    Weave,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStress {
    entities: i64,
    speed: i64,
    weave_percent: i64,
    turn_ticks: i64,
    health: i64,
    score: i64,
}

fn one() -> i64 {
    1
}

impl RawScript {
    fn checked(&self, tiles: &[RawTiles], waves: &[RawWave]) -> Result<Script, LevelError> {
        let length = within("script.length_ticks", self.length_ticks, 1, i64::from(LENGTH_TICKS_MAX))?;
        let scroll_speed = within("script.scroll_speed", self.scroll_speed, 1, 512)? as i16;
        let mut all_tiles = Vec::new();
        for (number, piece) in tiles.iter().enumerate() {
            piece.spread(number, &mut all_tiles)?;
        }
        let mut enemies = Vec::new();
        for (number, wave) in waves.iter().enumerate() {
            wave.spread(number, length, &mut enemies)?;
        }
        // Stable: what stands first in the file appears first among equals.
        all_tiles.sort_by_key(|tile| tile.x);
        enemies.sort_by_key(|enemy| enemy.tick);
        Ok(Script {
            length_ticks: length as u32,
            scroll_speed,
            tiles: all_tiles.into_boxed_slice(),
            enemies: enemies.into_boxed_slice(),
        })
    }
}

impl RawTiles {
    fn spread(&self, number: usize, tiles: &mut Vec<TileSpawn>) -> Result<(), LevelError> {
        let key = |name: &str| format!("tiles[{number}].{name}");
        within(&key("x"), self.x, 0, STAGE_PIXELS_MAX)?;
        let room = SPAWNS_MAX - tiles.len();
        within(&key("count"), self.count, 1, room as i64)?;
        within(&key("every"), self.every, i64::from(self.count > 1), STAGE_PIXELS_MAX)?;
        if self.x + (self.count - 1) * self.every > STAGE_PIXELS_MAX {
            return Err(wrong(
                &key("every"),
                &format!("the last one stands beyond {STAGE_PIXELS_MAX} pixels"),
            ));
        }
        let variant = self.variant as u8;
        let y = match self.place {
            Place::Ceiling => 0,
            Place::Floor => FIELD_HEIGHT - TILES[usize::from(variant)].height,
        };
        tiles.extend((0..self.count).map(|n| TileSpawn {
            x: (self.x + n * self.every) as i32 * UNITS_PER_PIXEL,
            y,
            variant,
        }));
        Ok(())
    }
}

impl RawWave {
    fn spread(&self, number: usize, length: i64, enemies: &mut Vec<EnemySpawn>) -> Result<(), LevelError> {
        let key = |name: &str| format!("waves[{number}].{name}");
        within(&key("at_tick"), self.at_tick, 0, length)?;
        let room = SPAWNS_MAX - enemies.len();
        within(&key("count"), self.count, 1, room as i64)?;
        within(&key("spacing_ticks"), self.spacing_ticks, 0, length)?;
        if self.at_tick + (self.count - 1) * self.spacing_ticks > length {
            return Err(wrong(&key("spacing_ticks"), "the last one comes after script.length_ticks"));
        }
        let speed = within(&key("speed"), self.speed, 16, 1024)?;
        let health = within(&key("health"), self.health, 1, 255)?;
        let score = within(&key("score"), self.score, 0, i64::from(u16::MAX))?;
        let weave = self.weave(number)?;
        self.check_heights(number)?;
        let pixels = i64::from(UNITS_PER_PIXEL);
        enemies.extend((0..self.count).map(|n| EnemySpawn {
            tick: (self.at_tick + n * self.spacing_ticks) as u32,
            y: ((self.y + n * self.y_step) * pixels) as i32,
            scatter: (self.scatter * pixels) as i32,
            vx: -speed as i16,
            weave,
            health: health as u8,
            score: score as u16,
        }));
        Ok(())
    }

    fn weave(&self, number: usize) -> Result<Weave, LevelError> {
        let key = |name: &str| format!("waves[{number}].{name}");
        if self.flight == Flight::Straight {
            within(&key("climb"), self.climb, 0, 0)?;
            within(&key("turn_ticks"), self.turn_ticks, 0, 0)?;
            return Ok(Weave::default());
        }
        within(&key("climb"), self.climb, -512, 512)?;
        if self.climb == 0 {
            return Err(wrong(&key("climb"), "a weaving flight climbs (negative) or dives (positive)"));
        }
        within(&key("turn_ticks"), self.turn_ticks, 5, 600)?;
        Ok(Weave { climb: self.climb as i16, turn_ticks: self.turn_ticks as u16 })
    }

    /// Nobody of the wave ever leaves the playfield at the top or the bottom. The values that make the sum are
    /// within their own ranges already, or checked here, so it cannot overflow.
    fn check_heights(&self, number: usize) -> Result<(), LevelError> {
        let key = |name: &str| format!("waves[{number}].{name}");
        let units = i64::from(UNITS_PER_PIXEL);
        let lowest = i64::from(FIELD_HEIGHT - BYDOS.height) / units;
        within(&key("y"), self.y, 0, lowest)?;
        within(&key("y_step"), self.y_step, -lowest, lowest)?;
        within(&key("scatter"), self.scatter, 0, lowest)?;
        let last = self.y + (self.count - 1) * self.y_step;
        let swing = self.climb * self.turn_ticks;
        let top = self.y.min(last) * units - self.scatter * units + swing.min(0);
        let bottom = self.y.max(last) * units + self.scatter * units + swing.max(0);
        if top < 0 || bottom > lowest * units {
            let problem = format!(
                "with y_step, scatter and the weave the wave reaches from {} to {} pixels, which is not within 0 to {lowest}",
                top.div_euclid(units),
                -(-bottom).div_euclid(units),
            );
            return Err(wrong(&key("y"), &problem));
        }
        Ok(())
    }
}

impl RawStress {
    fn checked(&self) -> Result<Stress, LevelError> {
        let entities = within("stress.entities", self.entities, 1, i64::from(STRESS_ENTITIES_MAX))?;
        Ok(Stress {
            entities: entities as u32,
            speed: within("stress.speed", self.speed, 1, 1024)? as i16,
            weave_percent: within("stress.weave_percent", self.weave_percent, 0, 100)? as u8,
            turn_ticks: within("stress.turn_ticks", self.turn_ticks, 5, 600)? as u16,
            health: within("stress.health", self.health, 1, 255)? as u8,
            score: within("stress.score", self.score, 0, i64::from(u16::MAX))? as u16,
        })
    }
}

fn within(key: &str, value: i64, low: i64, high: i64) -> Result<i64, LevelError> {
    if (low..=high).contains(&value) {
        Ok(value)
    } else if low > high {
        Err(wrong(key, &format!("no more than {SPAWNS_MAX} in all")))
    } else {
        Err(wrong(key, &format!("{value} is not within {low} to {high}")))
    }
}

fn wrong(key: &str, problem: &str) -> LevelError {
    LevelError::Value { key: key.to_owned(), problem: problem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVEL: &str = r#"
        name = "small"
        [script]
        length_ticks = 1000
        scroll_speed = 64
        [[tiles]]
        variant = "gate"
        place = "floor"
        x = 300
        count = 2
        every = 100
        [[tiles]]
        variant = "ramp"
        place = "ceiling"
        x = 350
        [[waves]]
        at_tick = 50
        flight = "weave"
        count = 2
        spacing_ticks = 30
        y = 100
        y_step = 200
        scatter = 10
        speed = 192
        climb = -128
        turn_ticks = 20
        health = 2
        score = 100
    "#;

    const STRESS: &str = r#"
        name = "crowd"
        [stress]
        entities = 10
        speed = 256
        weave_percent = 50
        turn_ticks = 20
        health = 2
        score = 10
    "#;

    fn script(text: &str) -> Script {
        match Level::parse(text).unwrap().course {
            Course::Script(script) => script,
            Course::Stress(_) => panic!("a script"),
        }
    }

    #[test]
    fn spreads_and_sorts_what_comes() {
        let script = script(LEVEL);
        let tiles: Vec<_> = script.tiles.iter().map(|t| (t.x / 64, t.y / 64, t.variant)).collect();
        assert_eq!(tiles, [(300, 792, 5), (350, 0, 3), (400, 792, 5)]);
        let enemies: Vec<_> = script.enemies.iter().map(|e| (e.tick, e.y / 64, e.vx, e.health)).collect();
        assert_eq!(enemies, [(50, 100, -192, 2), (80, 300, -192, 2)]);
        assert_eq!(script.enemies[1].weave, Weave { climb: -128, turn_ticks: 20 });
    }

    #[test]
    fn builtin_levels_are_sound() {
        let level1 = Level::builtin("level1").unwrap();
        assert_eq!((level1.name(), level1.entities()), ("level1", None));
        let stress = Level::builtin("stress").unwrap();
        assert_eq!((stress.name(), stress.entities()), ("stress", Some(256)));
        assert_eq!(stress.with_entities(2000).unwrap().entities(), Some(2000));
        assert!(Level::builtin("level2").is_none());
    }

    /// Every variant and both places occur in level 1, and it lasts two to three minutes.
    #[test]
    fn level1_shows_everything() {
        let script = script(include_str!("../../../levels/level1.toml"));
        for variant in 0..6 {
            assert!(script.tiles.iter().any(|tile| tile.variant == variant), "variant {variant}");
        }
        assert!(script.tiles.iter().any(|t| t.y == 0) && script.tiles.iter().any(|t| t.y > 0));
        assert!((7200..=10_800).contains(&script.length_ticks));
        assert!(script.enemies.iter().any(|e| e.weave == Weave::default()));
    }

    /// A wrong value is refused by the name of its key.
    #[test]
    fn wrong_values_name_their_key() {
        let cases = [
            ("length_ticks = 1000", "length_ticks = 0", "script.length_ticks: 0 is not within"),
            ("length_ticks = 1000", "length_ticks = 70", "waves[0].spacing_ticks: the last one comes after"),
            ("scroll_speed = 64", "scroll_speed = 513", "script.scroll_speed"),
            ("x = 300", "x = -1", "tiles[0].x: -1"),
            ("x = 300", "x = 1000000", "tiles[0].every: the last one stands beyond"),
            ("count = 2\n        every", "count = 5000\n        every", "tiles[0].count: 5000"),
            ("every = 100", "every = 0", "tiles[0].every: 0"),
            ("at_tick = 50", "at_tick = 1001", "waves[0].at_tick: 1001"),
            ("speed = 192", "speed = 5000", "waves[0].speed: 5000 is not within 16 to 1024"),
            (" y = 100", " y = 20", "waves[0].y: with y_step, scatter and the weave"),
            ("y_step = 200", "y_step = 950", "waves[0].y: with y_step"),
            ("climb = -128", "climb = 0", "waves[0].climb"),
            ("climb = -128", "climb = -513", "waves[0].climb: -513"),
            ("turn_ticks = 20", "turn_ticks = 4", "waves[0].turn_ticks: 4"),
            ("\"weave\"", "\"straight\"", "waves[0].climb: -128 is not within 0 to 0"),
            ("health = 2", "health = 256", "waves[0].health"),
            ("score = 100", "score = 65536", "waves[0].score"),
            ("name = \"small\"", "name = \"\"", "name: must have 1 to 32 bytes"),
        ];
        for (from, to, message) in cases {
            assert!(LEVEL.contains(from), "{from}");
            let error = Level::parse(&LEVEL.replacen(from, to, 1)).unwrap_err();
            assert!(error.to_string().starts_with(message), "{to}: {error}");
        }
        let many = LEVEL.replacen("count = 2\n        every = 100", "count = 4096\n        every = 1", 1);
        assert_eq!(Level::parse(&many).unwrap_err().to_string(), "tiles[1].count: no more than 4096 in all");
    }

    #[test]
    fn wrong_forms_name_their_key() {
        let cases = [
            (LEVEL.replace("ramp", "slope"), "slope"),
            (LEVEL.replace("speed = 192", "sped = 192"), "sped"),
            (LEVEL.replace("speed = 192", ""), "speed"),
            (LEVEL.replace(" y = 100", " y = 1.5"), " y = 1.5"),
            (format!("{LEVEL}{}", &STRESS[STRESS.find('[').unwrap()..]), "stress: a level has either"),
            ("name = \"empty\"".to_owned(), "script: a level needs a table"),
            (format!("{STRESS}[[tiles]]\nvariant = \"gate\"\nplace = \"floor\"\nx = 1"), "tiles: a stress"),
            (STRESS.replace("entities = 10", "entities = 0"), "stress.entities: 0"),
            (STRESS.replace("percent = 50", "percent = 101"), "stress.weave_percent: 101"),
            (String::from("\u{0}"), "TOML"),
        ];
        for (text, part) in cases {
            let error = Level::parse(&text).unwrap_err().to_string();
            assert!(error.contains(part), "{part}: {error}");
        }
        let level = Level::parse(LEVEL).unwrap();
        assert!(level.with_entities(5).unwrap_err().to_string().starts_with("entities: only a stress"));
        assert!(Level::parse(STRESS).unwrap().with_entities(0).is_err());
    }
}
