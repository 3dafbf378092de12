//! Sans-IO state machines, one per protocol, and what they share: acknowledgements, round-trip times, reliable events,
//! player input, and the account of what was dropped.

pub mod acks;
pub mod aegis;
pub mod drops;
pub mod fignet;
pub mod input;
pub mod rate;
pub mod reliable;
pub mod rtt;
pub mod rtype;
