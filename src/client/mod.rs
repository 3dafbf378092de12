//! Sans-IO clients: what bots, tools, tests and other people's games build on. They share the wire and the session
//! parts with the server, and know nothing of it.

pub mod aegis;
pub mod bot;
pub mod fignet;
pub mod interpolation;
pub mod received;
pub mod rtype;
