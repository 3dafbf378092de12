//! What a client knows from events: which entities are to be shown, and who plays. Implements Aegis 4.4 and 4.5.

use crate::model::{EntityId, Name, PLAYERS_MAX};
use crate::storage::{Index, Lru};
use crate::time::Tick;
use crate::wire::aegis::event::Event;

/// Destroyed ids remembered, in case their Spawn comes later than their Destroy.
const DESTROYED_MAX: usize = 1024;

/// Entities told of and not destroyed, and the players' names.
#[derive(Debug)]
pub(super) struct Known {
    /// Id → tick of its Spawn. Ids come again after 256 uses of an index, so ticks tell which use is meant.
    alive: Index,
    alive_max: usize,
    /// Id → tick of its Destroy.
    destroyed: Lru<Tick>,
    names: [Option<Name>; PLAYERS_MAX],
    /// Tick of the last word about each player: events arrive in any order.
    told_at: [Option<Tick>; PLAYERS_MAX],
}

impl Known {
    pub(super) fn new(entities_max: usize) -> Self {
        // The ids come from the server that the client chose to play on: no secret is needed.
        let alive_max = entities_max * 2;
        Self {
            alive: Index::new(alive_max, [1, 2]),
            alive_max,
            destroyed: Lru::new(DESTROYED_MAX, [1, 2], Tick(0)),
            names: [None; PLAYERS_MAX],
            told_at: [None; PLAYERS_MAX],
        }
    }

    pub(super) fn is_alive(&self, id: EntityId) -> bool {
        self.alive.get(u128::from(id.0)).is_some()
    }

    pub(super) fn names(&self) -> &[Option<Name>; PLAYERS_MAX] {
        &self.names
    }

    pub(super) fn learn(&mut self, event: &Event) {
        match *event {
            Event::Spawn { tick, id, .. } => {
                let key = u128::from(id.0);
                let is_gone = self.destroyed.peek(key).is_some_and(|(_, &at)| !is_after(Tick(tick), at));
                if !is_gone && self.alive.len() < self.alive_max {
                    // The index has no room for the very last number; a tick off by one does no harm.
                    self.alive.insert(key, tick.min(u32::MAX - 1));
                }
            }
            Event::Destroy { tick, id, .. } => {
                let key = u128::from(id.0);
                if self.alive.get(key).is_some_and(|spawned| is_after(Tick(spawned), Tick(tick))) {
                    return;
                }
                self.alive.remove(key);
                *self.destroyed.touch(key, Tick(tick)).1 = Tick(tick);
            }
            Event::PlayerJoined { tick, player, name } => self.tell(Tick(tick), player.index(), Some(name)),
            Event::PlayerLeft { tick, player, .. } => self.tell(Tick(tick), player.index(), None),
            Event::Death { .. } | Event::GameOver { .. } => {}
        }
    }

    fn tell(&mut self, tick: Tick, player: usize, name: Option<Name>) {
        if self.told_at[player].is_none_or(|before| !is_after(before, tick)) {
            self.told_at[player] = Some(tick);
            self.names[player] = name;
        }
    }
}

/// Whether `a` is later than `b`.
fn is_after(a: Tick, b: Tick) -> bool {
    let ahead = a.since(b);
    ahead != 0 && ahead < 1 << 31
}
