//! The R-Type protocol's connections, on both ends (docs/protocol/rtype.md): times, the server's check of a Hello, the
//! sequences and acknowledgements that both ends keep ([`Link`]), and the server's side of a connection
//! ([`Session`]).

mod endpoint;
mod link;
mod notices;
mod session;

use crate::model::{Name, PlayerId};
use crate::session::drops::DropReason;
use crate::time::Duration;
use crate::wire::rtype::blueprint::Blueprint;
use crate::wire::rtype::handshake::{Handshake, HandshakeError};
use crate::wire::rtype::{DATAGRAM_BYTES_MAX, PacketError};

pub use endpoint::{EndpointKey, endpoint_key};
pub use link::{Link, Receipt, Receipts};
pub use notices::Notice;
pub use session::{Connection, DATAGRAMS_PER_SECOND_MAX, Heard, MALFORMED_MAX, QUERIES_MAX, Session};

/// How often a client says Hello (4.2).
pub const HELLO_INTERVAL: Duration = Duration::from_secs(1);
/// For how long a client says Hello before it gives up (4.2).
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection from which no valid packet has ever come is forgotten after this.
pub const PROOF_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection from which nothing valid came for so long ends, unless the operator says otherwise.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Least time between two Welcomes to one endpoint.
pub const WELCOME_INTERVAL: Duration = Duration::from_millis(500);

/// Checks a datagram from an endpoint that has no connection: only a Hello opens one (4.2).
pub fn check_hello(bytes: &[u8]) -> Result<(), DropReason> {
    if bytes.len() > DATAGRAM_BYTES_MAX {
        return Err(DropReason::TooLarge);
    }
    match Handshake::parse(bytes) {
        Ok(Handshake::Hello) => Ok(()),
        Ok(Handshake::Welcome { .. } | Handshake::Rejected) => Err(DropReason::Foreign),
        Err(HandshakeError::Truncated) => Err(DropReason::TruncatedHeader),
        Err(HandshakeError::Magic) => Err(DropReason::BadMagic),
        Err(HandshakeError::Version) => Err(DropReason::BadVersion),
        Err(HandshakeError::Kind) => Err(DropReason::UnknownType),
        Err(HandshakeError::Trailing | HandshakeError::Connection) => Err(DropReason::MalformedHello),
    }
}

/// The name under which the others know a player of this protocol, which has no names: that of the ship.
pub fn player_name(player: PlayerId) -> Name {
    Name::new(Blueprint::Player(player).name().as_bytes()).expect("ships have short names")
}

/// How a packet that is no packet is accounted for.
const fn drop_reason(error: PacketError) -> DropReason {
    match error {
        PacketError::TooLarge => DropReason::TooLarge,
        PacketError::Truncated => DropReason::TruncatedHeader,
        PacketError::MessageHeader | PacketError::MessageSize => DropReason::MalformedPacket,
    }
}

#[cfg(test)]
mod tests;
