//! The protocols that bots speak: everything that the demonstration has to know of each is named here.

use std::net::SocketAddr;

use tickwire::seam::Door;

use super::aegis::{self, AegisGuest};
use super::fignet::FignetGuest;
use super::guest::{Counts, Guest};
use super::rtype::{self, RtypeGuest};
use super::{Addresses, Plan};

/// A protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// docs/protocol/aegis.md
    Aegis,
    /// docs/protocol/rtype.md
    Rtype,
    /// docs/protocol/fignet.md
    Fignet,
}

/// The word for all protocols at once.
const MIXED: &str = "mixed";

impl Protocol {
    /// Every protocol, in the order in which mixed bots take turns.
    pub const ALL: &'static [Self] = &[Self::Aegis, Self::Rtype, Self::Fignet];

    /// The words that [`Protocol::choose`] knows.
    pub fn words() -> impl Iterator<Item = &'static str> {
        Self::ALL.iter().map(|protocol| protocol.name()).chain([MIXED])
    }

    /// The protocols that `word` asks for: the one of this name, or all.
    pub fn choose(word: &str) -> Option<&'static [Self]> {
        if word == MIXED {
            return Some(Self::ALL);
        }
        let index = Self::ALL.iter().position(|protocol| protocol.name() == word)?;
        Some(&Self::ALL[index..=index])
    }

    /// Its name in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aegis => "aegis",
            Self::Rtype => "rtype",
            Self::Fignet => "fignet",
        }
    }

    /// The door that its datagrams go to.
    pub const fn door(self) -> Door {
        match self {
            Self::Aegis => Door::Aegis,
            Self::Rtype => Door::Rtype,
            Self::Fignet => Door::Fignet,
        }
    }

    /// Whether its bots are handed the events of the room.
    pub const fn has_events(self) -> bool {
        match self {
            Self::Aegis | Self::Fignet => true,
            Self::Rtype => false,
        }
    }

    /// Where its bots go first.
    pub fn front(self, addresses: &Addresses) -> Option<SocketAddr> {
        match self {
            Self::Aegis => Some(addresses.tcp),
            Self::Rtype | Self::Fignet => addresses.udp(self),
        }
    }

    /// Bot `number` of `plan`, about to be let in.
    pub fn connect(self, plan: &Plan, number: usize) -> Result<Box<dyn Guest>, String> {
        let udp = plan.addresses.udp(self).ok_or("the server has no door for it")?;
        Ok(match self {
            Self::Aegis => Box::new(AegisGuest::connect(plan, udp, number)?),
            Self::Rtype => Box::new(RtypeGuest::connect(plan, udp, number)?),
            Self::Fignet => Box::new(FignetGuest::connect(plan, udp, number)?),
        })
    }

    /// What the report says of the kinds of snapshots; empty where there is only one.
    pub fn snapshot_kinds(self, counts: &Counts) -> String {
        match self {
            Self::Aegis | Self::Fignet => aegis::snapshot_kinds(counts),
            Self::Rtype => String::new(),
        }
    }

    /// What the report says of events.
    pub fn events(self, counts: &Counts) -> String {
        match self {
            Self::Aegis | Self::Fignet => aegis::events(counts),
            Self::Rtype => rtype::events(counts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_chooses() {
        assert_eq!(Protocol::words().collect::<Vec<_>>(), ["aegis", "rtype", "fignet", "mixed"]);
        for word in Protocol::words() {
            let chosen = Protocol::choose(word).expect("a word of its own");
            assert!(word == MIXED || chosen.len() == 1 && chosen[0].name() == word, "{word}");
        }
        assert_eq!(Protocol::choose("mixed"), Some(Protocol::ALL));
        assert_eq!(Protocol::choose("smtp"), None);
    }
}
