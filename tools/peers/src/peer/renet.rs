//! renet 2, with its default channels: unreliable, and reliable unordered. Plain, its packets go into datagrams as they
//! are; secure, through its netcode transport, which encrypts and authenticates each of them. (What that transport calls
//! unsecure encrypts all the same, with a key that everyone knows: it would be no plain measure.)

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use renet::{Bytes, ClientId, ConnectionConfig, DefaultChannel, RenetClient, RenetServer, ServerEvent};
use renet_netcode::{
    ClientAuthentication, ConnectToken, NETCODE_KEY_BYTES, NetcodeClientTransport, NetcodeServerTransport,
    ServerAuthentication, ServerConfig,
};

use crate::pace::{Guest, Host};
use crate::work::{JOIN_MAX, Job, Tally};

/// A key for measurements: it protects nothing.
const KEY: [u8; NETCODE_KEY_BYTES] = [7; NETCODE_KEY_BYTES];
const PROTOCOL_ID: u64 = 1;
const TIMEOUT_S: i32 = 15;

/// Clients that the netcode transport can have.
const NETCODE_CLIENTS_MAX: usize = 1024;

pub struct Renet {
    server: RenetServer,
    way: Way,
    port: u16,
    updated: Instant,
    clients: Vec<ClientId>,
}

/// How packets travel.
enum Way {
    Plain { socket: UdpSocket, ids: BTreeMap<SocketAddr, ClientId>, addresses: Vec<SocketAddr> },
    Secure(Box<NetcodeServerTransport>),
}

impl Renet {
    pub fn bind(job: &Job, is_secure: bool) -> Result<Self, String> {
        let socket = open().map_err(|error| error.to_string())?;
        let address = socket.local_addr().map_err(|error| error.to_string())?;
        let way = if is_secure {
            if job.clients > NETCODE_CLIENTS_MAX {
                return Err(format!("renet's transport takes {NETCODE_CLIENTS_MAX} clients at most"));
            }
            let config = ServerConfig {
                current_time: since_epoch(),
                max_clients: job.clients,
                protocol_id: PROTOCOL_ID,
                public_addresses: vec![address],
                authentication: ServerAuthentication::Secure { private_key: KEY },
            };
            let transport = NetcodeServerTransport::new(config, socket).map_err(|error| error.to_string())?;
            Way::Secure(Box::new(transport))
        } else {
            Way::Plain { socket, ids: BTreeMap::new(), addresses: Vec::with_capacity(job.clients) }
        };
        Ok(Self {
            server: RenetServer::new(ConnectionConfig::default()),
            way,
            port: address.port(),
            updated: Instant::now(),
            clients: Vec::with_capacity(job.clients),
        })
    }
}

impl Host for Renet {
    fn port(&self) -> u16 {
        self.port
    }

    fn receive(&mut self) -> u64 {
        let now = Instant::now();
        let passed = now - std::mem::replace(&mut self.updated, now);
        self.server.update(passed);
        match &mut self.way {
            Way::Secure(transport) => {
                // Fails only with its socket; then nothing arrives, and the counts tell.
                let _ = transport.update(passed, &mut self.server);
            }
            Way::Plain { socket, ids, addresses } => {
                let mut buffer = [0; 2048];
                while let Ok((len, from)) = socket.recv_from(&mut buffer) {
                    let id = *ids.entry(from).or_insert_with(|| {
                        let id = addresses.len() as ClientId;
                        addresses.push(from);
                        self.server.add_connection(id);
                        id
                    });
                    let _ = self.server.process_packet_from(&buffer[..len], id);
                }
            }
        }
        while let Some(event) = self.server.get_event() {
            match event {
                ServerEvent::ClientConnected { client_id } => self.clients.push(client_id),
                ServerEvent::ClientDisconnected { client_id, .. } => {
                    self.clients.retain(|&other| other != client_id)
                }
            }
        }
        let mut inputs = 0;
        for &client in &self.clients {
            while self.server.receive_message(client, DefaultChannel::Unreliable).is_some() {
                inputs += 1;
            }
        }
        inputs
    }

    fn clients(&self) -> usize {
        self.clients.len()
    }

    fn send(&mut self, snapshot: &[u8], event: Option<&[u8]>) {
        for &client in &self.clients {
            let message = Bytes::copy_from_slice(snapshot);
            self.server.send_message(client, DefaultChannel::Unreliable, message);
            if let Some(event) = event {
                let message = Bytes::copy_from_slice(event);
                self.server.send_message(client, DefaultChannel::ReliableUnordered, message);
            }
        }
    }

    fn flush(&mut self) {
        match &mut self.way {
            Way::Secure(transport) => transport.send_packets(&mut self.server),
            Way::Plain { socket, addresses, .. } => {
                for &client in &self.clients {
                    let packets = self.server.get_packets_to_send(client).unwrap_or_default();
                    for packet in packets {
                        // What the system refuses is lost, as on any network.
                        let _ = socket.send_to(&packet, addresses[client as usize]);
                    }
                }
            }
        }
    }
}

pub struct RenetGuest {
    client: RenetClient,
    way: GuestWay,
    updated: Instant,
}

enum GuestWay {
    Plain(UdpSocket),
    Secure(Box<NetcodeClientTransport>),
}

impl RenetGuest {
    pub fn connect(port: u16, number: usize, is_secure: bool) -> Result<Self, String> {
        let mut client = RenetClient::new(ConnectionConfig::default());
        let way = if is_secure {
            let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let (id, now, valid_s) = (number as u64, since_epoch(), 2 * JOIN_MAX.as_secs());
            let connect_token =
                ConnectToken::generate(now, PROTOCOL_ID, valid_s, id, TIMEOUT_S, vec![server], None, &KEY)
                    .map_err(|error| error.to_string())?;
            let socket = open().map_err(|error| error.to_string())?;
            let authentication = ClientAuthentication::Secure { connect_token };
            let transport = NetcodeClientTransport::new(now, authentication, socket);
            GuestWay::Secure(Box::new(transport.map_err(|error| error.to_string())?))
        } else {
            client.set_connected();
            GuestWay::Plain(super::client_socket(port)?)
        };
        Ok(Self { client, way, updated: Instant::now() })
    }
}

impl Guest for RenetGuest {
    fn receive(&mut self, tally: &mut Tally) {
        let now = Instant::now();
        let passed = now - std::mem::replace(&mut self.updated, now);
        self.client.update(passed);
        match &mut self.way {
            GuestWay::Secure(transport) => {
                // A client that is thrown out gets nothing more, and the counts tell.
                let _ = transport.update(passed, &mut self.client);
            }
            GuestWay::Plain(socket) => {
                let mut buffer = [0; 2048];
                while let Ok(len) = socket.recv(&mut buffer) {
                    self.client.process_packet(&buffer[..len]);
                }
            }
        }
        for channel in [DefaultChannel::Unreliable, DefaultChannel::ReliableUnordered].map(u8::from) {
            while let Some(message) = self.client.receive_message(channel) {
                tally.note(&message);
            }
        }
    }

    fn is_in(&self) -> bool {
        self.client.is_connected()
    }

    fn send(&mut self, input: u8) {
        self.client.send_message(DefaultChannel::Unreliable, vec![input]);
    }

    fn flush(&mut self) {
        match &mut self.way {
            GuestWay::Secure(transport) => {
                let _ = transport.send_packets(&mut self.client);
            }
            GuestWay::Plain(socket) => {
                for packet in self.client.get_packets_to_send() {
                    let _ = socket.send(&packet);
                }
            }
        }
    }
}

fn open() -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Tokens expire by the wall clock.
#[allow(clippy::disallowed_types, reason = "renet asks for the time of the day")]
fn since_epoch() -> Duration {
    use std::time::SystemTime;

    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
