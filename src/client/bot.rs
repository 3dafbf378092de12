//! A player without hands: looks at what its client shows and sets its controls. For demonstrations, tests and tools.
//!
//! It flies its ship to the height of the nearest enemy ahead, keeps away from what is about to hit it, and pulls the
//! trigger once or twice in a second when something is in line. Everything by chance comes from its seed.

use super::{aegis, fignet, rtype};
use crate::model::{Controls, Entity, Kind, PlayerId, UNITS_PER_PIXEL};
use crate::rng::Rng;

/// Least ticks between two decisions about the course: people do not change their mind more often either.
const DECISION_TICKS: u32 = 10;

/// Ticks that the trigger is held, and the least and most from one shot to the next.
const TRIGGER_TICKS: u32 = 5;
const SHOT_TICKS_MIN: i32 = 30;
const SHOT_TICKS_MAX: i32 = 60;

/// What is nearer than this ahead, in pixels, is to be kept away from.
const DANGER_AHEAD: i32 = 260;
/// Half the height of the lane that a ship needs, in pixels.
const LANE: i32 = 70;

/// What a bot can play with: a client of any protocol.
pub trait Playable {
    /// The client's own slot, once known. Until then its bot flies about, so that its ship shows itself.
    fn player(&self) -> Option<PlayerId>;

    /// What is to be seen.
    fn entities(&self) -> impl Iterator<Item = &Entity>;

    /// Sets the controls from now on.
    fn set_controls(&mut self, controls: Controls);
}

impl Playable for aegis::Client {
    fn player(&self) -> Option<PlayerId> {
        self.player()
    }

    fn entities(&self) -> impl Iterator<Item = &Entity> {
        self.visible().map(|(_, entity)| entity)
    }

    fn set_controls(&mut self, controls: Controls) {
        self.set_controls(controls);
    }
}

impl Playable for fignet::Client {
    fn player(&self) -> Option<PlayerId> {
        self.player()
    }

    fn entities(&self) -> impl Iterator<Item = &Entity> {
        self.visible().map(|(_, entity)| entity)
    }

    fn set_controls(&mut self, controls: Controls) {
        self.set_controls(controls);
    }
}

impl Playable for rtype::Client {
    fn player(&self) -> Option<PlayerId> {
        self.player()
    }

    fn entities(&self) -> impl Iterator<Item = &Entity> {
        self.visible().map(|(_, entity)| entity)
    }

    fn set_controls(&mut self, controls: Controls) {
        self.set_controls(controls);
    }
}

/// A bot. It has its client set the controls; the caller does all else.
#[derive(Clone, Debug)]
pub struct Bot {
    rng: Rng,
    decide_in: u32,
    shoot_in: u32,
    course: u8,
    is_pressed: bool,
}

impl Bot {
    /// A bot whose chance comes from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let decide_in = rng.below(DECISION_TICKS);
        Self { rng, decide_in, shoot_in: SHOT_TICKS_MIN as u32, course: 0, is_pressed: false }
    }

    /// One tick of play.
    pub fn play(&mut self, client: &mut impl Playable) {
        self.decide_in = self.decide_in.saturating_sub(1);
        if self.decide_in == 0 {
            self.decide_in = DECISION_TICKS + self.rng.below(DECISION_TICKS);
            self.course = self.decide(client);
        }
        self.shoot_in = self.shoot_in.saturating_sub(1);
        if self.shoot_in == 0 {
            self.is_pressed = !self.is_pressed;
            self.shoot_in = match self.is_pressed {
                true => TRIGGER_TICKS,
                false => self.rng.between(SHOT_TICKS_MIN, SHOT_TICKS_MAX) as u32,
            };
        }
        let trigger = if self.is_pressed { Controls::SHOOT } else { 0 };
        client.set_controls(Controls::from_bits(self.course | trigger).unwrap_or_default());
    }

    fn decide(&mut self, client: &impl Playable) -> u8 {
        let Some(player) = client.player() else { return self.search() };
        let is_own = |entity: &&Entity| entity.kind == Kind::SHIP && entity.owner() == Some(player);
        let Some(ship) = client.entities().find(is_own) else { return 0 };
        let threat = nearest(client, ship, |entity| {
            let (dx, dy) = offset(ship, entity);
            (-LANE..DANGER_AHEAD).contains(&dx) && dy.abs() < LANE
        });
        if let Some(threat) = threat {
            let (_, dy) = offset(ship, threat);
            return if dy > 0 { Controls::UP } else { Controls::DOWN };
        }
        let target = nearest(client, ship, |entity| entity.kind == Kind::BYDOS && entity.x > ship.x);
        match target.map(|target| offset(ship, target)) {
            Some((_, dy)) if dy > LANE / 2 => Controls::DOWN,
            Some((_, dy)) if dy < -LANE / 2 => Controls::UP,
            _ => self.wander(ship),
        }
    }

    /// Which ship is it? The one that does this, for long enough to be seen.
    fn search(&mut self) -> u8 {
        if self.course != 0 && self.rng.chance(2, 3) {
            return self.course;
        }
        let ways = [Controls::UP, Controls::DOWN, Controls::LEFT, Controls::RIGHT];
        ways[self.rng.below(ways.len() as u32) as usize]
    }

    /// Nothing to do: stay, or drift about the left half.
    fn wander(&mut self, ship: &Entity) -> u8 {
        let x = ship.x / UNITS_PER_PIXEL;
        match self.rng.below(6) {
            0 if x < 700 => Controls::RIGHT,
            1 if x > 200 => Controls::LEFT,
            2 => Controls::UP,
            3 => Controls::DOWN,
            _ => 0,
        }
    }
}

/// The enemy or obstacle nearest to `ship` for which `is_wanted` holds.
fn nearest<'a>(
    client: &'a impl Playable,
    ship: &Entity,
    is_wanted: impl Fn(&Entity) -> bool,
) -> Option<&'a Entity> {
    client
        .entities()
        .filter(|entity| matches!(entity.kind, Kind::BYDOS | Kind::TILE) && is_wanted(entity))
        .min_by_key(|entity| {
            let (dx, dy) = offset(ship, entity);
            dx.abs().max(dy.abs())
        })
}

/// From `ship` to `entity`, in pixels.
fn offset(ship: &Entity, entity: &Entity) -> (i32, i32) {
    ((entity.x - ship.x) / UNITS_PER_PIXEL, (entity.y - ship.y) / UNITS_PER_PIXEL)
}
