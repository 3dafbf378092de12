//! Options that are one word out of a few.

/// Declares an enum whose variants have a word each.
macro_rules! choices {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name { $($(#[$variant_meta])* $variant,)+ }

        impl $name {
            /// The words, in the order of the variants.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word of this variant.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// The variant that `word` names.
            pub fn from_word(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

choices! {
    /// Which level the rooms play.
    Level {
        /// The game's first level.
        Level1 = "level1",
        /// A field of as many moving entities as asked for, to measure with.
        Stress = "stress",
    }
}

choices! {
    /// What wakes the loop.
    Wake {
        /// The next tick or timer: datagrams wait in the socket and are taken in batches.
        Tick = "tick",
        /// Every arrival: the least delay, at several times the processor time.
        Event = "event",
    }
}

choices! {
    /// What moves the bytes.
    Backend {
        /// Whatever costs least here.
        Auto = "auto",
        /// Readiness: epoll.
        Mio = "mio",
        /// Completions: io_uring, or epoll where the system refuses it.
        IoUring = "io_uring",
    }
}

/// The words of [`log::LevelFilter`], least first.
pub(super) const LOG_WORDS: &[&str] = &["off", "error", "warn", "info", "debug", "trace"];
