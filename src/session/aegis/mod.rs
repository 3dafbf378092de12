//! Aegis over time: the checks of a datagram in their exact order, the link that both ends share, and the server's
//! side of a session. Implements Aegis 3.4, 5 and 6.3.

mod link;
mod session;

pub use link::{Carried, Link, Payload, compose};
pub use session::{Ended, Heard, Login, Session};

use super::drops::DropReason;
use crate::lz4;
use crate::model::Controls;
use crate::time::Duration;
use crate::wire::aegis::event::EventList;
use crate::wire::aegis::{
    self, DATAGRAM_BYTES_MAX, HEADER_BYTES, Header, HeaderError, PAYLOAD_BYTES_MAX, PacketKind,
};

/// A connection must have sent its LoginRequest by then (3.3).
pub const LOGIN_TIMEOUT: Duration = Duration::from_secs(5);
/// A session must be bound by then (3.4).
pub const BIND_TIMEOUT: Duration = Duration::from_secs(10);
/// A session from which nothing valid came for so long ends (5.5).
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// A side that sent nothing for so long sends a Heartbeat (5.5).
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(500);
/// A bound endpoint must have been silent for so long before another port may take over (3.4).
pub const REBIND_SILENCE: Duration = Duration::from_secs(1);
/// A client resends Connect this often until it is accepted (3.4).
pub const CONNECT_INTERVAL: Duration = Duration::from_millis(250);
/// How often a Disconnect is sent, since nobody acknowledges it (5.5).
pub const DISCONNECT_COPIES: usize = 3;

/// What a client's datagram says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientPayload {
    /// Bind me.
    Connect,
    /// My controls.
    Input(Controls),
    /// Events, checked in their framing only: version 1 has none that a client sends.
    Event,
    /// I am here.
    Heartbeat,
    /// I leave.
    Disconnect,
}

/// Steps 1 to 3 of the checks in 6.3 on the server: size, header, direction.
pub fn check_header(bytes: &[u8]) -> Result<Header, DropReason> {
    if bytes.len() > DATAGRAM_BYTES_MAX {
        return Err(DropReason::TooLarge);
    }
    let header = Header::parse(bytes).map_err(|error| match error {
        HeaderError::Truncated => DropReason::TruncatedHeader,
        HeaderError::Magic => DropReason::BadMagic,
        HeaderError::Version => DropReason::BadVersion,
        HeaderError::Kind => DropReason::UnknownType,
    })?;
    if header.kind.to_server() { Ok(header) } else { Err(DropReason::Foreign) }
}

/// Step 5 of the checks in 6.3 on the server: the whole payload, decompressed into `scratch` if need be.
pub fn check_payload(
    header: &Header,
    datagram: &[u8],
    scratch: &mut [u8; PAYLOAD_BYTES_MAX],
) -> Result<ClientPayload, DropReason> {
    let malformed = match header.kind {
        PacketKind::Connect => DropReason::MalformedConnect,
        PacketKind::Input => DropReason::MalformedInput,
        PacketKind::Event => DropReason::MalformedEvent,
        PacketKind::Heartbeat => DropReason::MalformedHeartbeat,
        PacketKind::Disconnect => DropReason::MalformedDisconnect,
        PacketKind::Accept | PacketKind::Snapshot => DropReason::Foreign,
    };
    let mut payload = &datagram[HEADER_BYTES..];
    if header.compressed {
        let len = lz4::decompress(payload, scratch).map_err(|_| malformed)?;
        payload = &scratch[..len];
    }
    let checked = match header.kind {
        PacketKind::Input => aegis::parse_input(payload).ok().map(ClientPayload::Input),
        PacketKind::Event => EventList::parse(payload).ok().map(|_| ClientPayload::Event),
        _ if !payload.is_empty() => None,
        PacketKind::Connect => Some(ClientPayload::Connect),
        PacketKind::Heartbeat => Some(ClientPayload::Heartbeat),
        PacketKind::Disconnect => Some(ClientPayload::Disconnect),
        PacketKind::Accept | PacketKind::Snapshot => None,
    };
    checked.ok_or(malformed)
}
