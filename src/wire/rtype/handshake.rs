//! Handshake datagrams (R-Type 4): what is said before a connection exists.

/// What a handshake datagram begins with: "RTYP".
pub const MAGIC: [u8; 4] = *b"RTYP";

/// The version of the protocol.
pub const VERSION: u8 = 1;

/// Bytes of Hello and Rejected.
pub const HELLO_BYTES: usize = 6;

/// Bytes of Welcome, the longest of them.
pub const WELCOME_BYTES: usize = 10;

const HELLO: u8 = 1;
const WELCOME: u8 = 2;
const REJECTED: u8 = 3;

/// A handshake datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handshake {
    /// A client asks for a connection.
    Hello,
    /// The server opened one.
    Welcome {
        /// Its id, never 0.
        connection: u32,
    },
    /// The server refuses.
    Rejected,
}

/// Why bytes are no handshake datagram, in the order of the checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandshakeError {
    /// Fewer bytes than its header or, for a Welcome, its id.
    Truncated,
    /// Another protocol's.
    Magic,
    /// Another version's.
    Version,
    /// A type that does not exist.
    Kind,
    /// Bytes after the last field.
    Trailing,
    /// A Welcome to connection 0.
    Connection,
}

impl Handshake {
    /// The handshake datagram in `bytes`, all of them.
    pub fn parse(bytes: &[u8]) -> Result<Self, HandshakeError> {
        let Some((&[m0, m1, m2, m3, version, kind], rest)) = bytes.split_first_chunk() else {
            return Err(HandshakeError::Truncated);
        };
        if [m0, m1, m2, m3] != MAGIC {
            return Err(HandshakeError::Magic);
        }
        if version != VERSION {
            return Err(HandshakeError::Version);
        }
        let handshake = match kind {
            HELLO => Self::Hello,
            REJECTED => Self::Rejected,
            WELCOME => {
                let Some((&id, rest)) = rest.split_first_chunk() else {
                    return Err(HandshakeError::Truncated);
                };
                let connection = u32::from_be_bytes(id);
                return match (connection, rest) {
                    (_, [_, ..]) => Err(HandshakeError::Trailing),
                    (0, []) => Err(HandshakeError::Connection),
                    (connection, []) => Ok(Self::Welcome { connection }),
                };
            }
            _ => return Err(HandshakeError::Kind),
        };
        if rest.is_empty() { Ok(handshake) } else { Err(HandshakeError::Trailing) }
    }

    /// Writes the datagram and returns its length.
    ///
    /// # Panics
    /// When it is a Welcome to connection 0, or `out` is shorter than [`WELCOME_BYTES`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let (kind, connection) = match *self {
            Self::Hello => (HELLO, None),
            Self::Rejected => (REJECTED, None),
            Self::Welcome { connection } => (WELCOME, Some(connection)),
        };
        let out: &mut [u8; WELCOME_BYTES] = out.first_chunk_mut().expect("room for a handshake datagram");
        let [m0, m1, m2, m3] = MAGIC;
        let [c0, c1, c2, c3] = connection.unwrap_or(0).to_be_bytes();
        *out = [m0, m1, m2, m3, VERSION, kind, c0, c1, c2, c3];
        assert!(connection != Some(0), "a Welcome to connection 0");
        if connection.is_some() { WELCOME_BYTES } else { HELLO_BYTES }
    }
}
