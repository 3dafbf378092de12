//! KCP, as the `kcp` crate has it: a state machine for reliable messages, on sockets of the program's own. KCP has nothing
//! unreliable. So there are two ways to use it: everything through it, or, as games do whose KCP library offers both, inputs
//! and snapshots in datagrams beside it and only events through it. Every datagram begins with the conversation, as
//! KCP's own do, so that those beside it are told apart by one that is none.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::rc::Rc;
use std::time::Instant;

use kcp::Kcp;

use crate::pace::{Guest, Host};
use crate::work::{Job, SNAPSHOT_BYTES, Tally};

/// Of datagrams that are not KCP's.
const BESIDE: u32 = 0;

/// Bytes of a conversation's number at a datagram's start.
const CONV_BYTES: usize = 4;

/// Segments on their way: more than a second of ticks.
const WINDOW: u16 = 128;

/// What games set: resend after 1.5 times the round trip and after two later acknowledgements, no congestion window.
const INTERVAL_MS: i32 = 10;
const RESEND: i32 = 2;

/// The conversation that a datagram belongs to.
fn conv_of(datagram: &[u8]) -> Option<u32> {
    datagram.first_chunk::<CONV_BYTES>().map(|&bytes| u32::from_le_bytes(bytes))
}

/// One side of a conversation.
struct Talk<W: Write> {
    kcp: Kcp<W>,
    began: Instant,
}

impl<W: Write> Talk<W> {
    fn new(conv: u32, output: W) -> Self {
        let mut kcp = Kcp::new(conv, output);
        kcp.set_nodelay(true, INTERVAL_MS, RESEND, true);
        kcp.set_wndsize(WINDOW, WINDOW);
        let mut talk = Self { kcp, began: Instant::now() };
        talk.update();
        talk
    }

    fn receive(&mut self, datagram: &[u8], mut take: impl FnMut(&[u8])) {
        // A datagram that is not right is left out, as on any network.
        let _ = self.kcp.input(datagram);
        let mut message = [0; 2 * SNAPSHOT_BYTES];
        while let Ok(len) = self.kcp.recv(&mut message) {
            take(&message[..len]);
        }
    }

    fn send(&mut self, message: &[u8]) {
        // Fails for messages of more than a window only.
        let _ = self.kcp.send(message);
    }

    /// Every tick is later than the interval, so that this always sends.
    fn update(&mut self) {
        let _ = self.kcp.update(self.began.elapsed().as_millis() as u32);
    }
}

pub struct KcpHost {
    socket: Rc<UdpSocket>,
    /// Whether snapshots go beside KCP.
    is_beside: bool,
    numbers: BTreeMap<SocketAddr, usize>,
    clients: Vec<(Talk<ToClient>, SocketAddr)>,
}

/// Where the packets of one conversation go.
struct ToClient {
    socket: Rc<UdpSocket>,
    address: SocketAddr,
}

impl Write for ToClient {
    fn write(&mut self, packet: &[u8]) -> io::Result<usize> {
        // What the system refuses is lost, as on any network.
        let _ = self.socket.send_to(packet, self.address);
        Ok(packet.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl KcpHost {
    pub fn bind(job: &Job, is_beside: bool) -> Result<Self, String> {
        let open = || -> io::Result<UdpSocket> {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = Rc::new(open().map_err(|error| error.to_string())?);
        let clients = Vec::with_capacity(job.clients);
        Ok(Self { socket, is_beside, numbers: BTreeMap::new(), clients })
    }

    /// The client at `address`; the first datagram makes one. Who comes through KCP names the conversation.
    fn client(&mut self, address: SocketAddr, conv: u32) -> usize {
        let next = self.clients.len();
        let number = *self.numbers.entry(address).or_insert(next);
        if number == next {
            let output = ToClient { socket: Rc::clone(&self.socket), address };
            self.clients.push((Talk::new(conv, output), address));
        }
        number
    }
}

impl Host for KcpHost {
    fn port(&self) -> u16 {
        self.socket.local_addr().map_or(0, |address| address.port())
    }

    fn receive(&mut self) -> u64 {
        let mut inputs = 0;
        let mut buffer = [0; 2048];
        while let Ok((len, from)) = self.socket.recv_from(&mut buffer) {
            let datagram = &buffer[..len];
            let Some(conv) = conv_of(datagram) else { continue };
            if conv == BESIDE {
                inputs += u64::from(self.numbers.contains_key(&from));
                continue;
            }
            let client = self.client(from, conv);
            self.clients[client].0.receive(datagram, |message| inputs += u64::from(message.len() == 1));
        }
        inputs
    }

    fn clients(&self) -> usize {
        self.clients.len()
    }

    fn send(&mut self, snapshot: &[u8], event: Option<&[u8]>) {
        let mut beside = [0; CONV_BYTES + SNAPSHOT_BYTES];
        beside[CONV_BYTES..].copy_from_slice(snapshot);
        for (talk, address) in &mut self.clients {
            if self.is_beside {
                // What the system refuses is lost, as on any network.
                let _ = self.socket.send_to(&beside, *address);
            } else {
                talk.send(snapshot);
            }
            if let Some(event) = event {
                talk.send(event);
            }
        }
    }

    fn flush(&mut self) {
        for (talk, _) in &mut self.clients {
            talk.update();
        }
    }
}

pub struct KcpGuest {
    socket: Rc<UdpSocket>,
    talk: Talk<ToServer>,
    is_beside: bool,
    /// Whether the server knows the conversation: it does once it has acknowledged something.
    is_in: bool,
}

struct ToServer(Rc<UdpSocket>);

impl Write for ToServer {
    fn write(&mut self, packet: &[u8]) -> io::Result<usize> {
        let _ = self.0.send(packet);
        Ok(packet.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a client opens its conversation with: no message of the work.
const HELLO: &[u8] = b"hello";

impl KcpGuest {
    pub fn connect(port: u16, number: usize, is_beside: bool) -> Result<Self, String> {
        let socket = Rc::new(super::client_socket(port)?);
        let mut talk = Talk::new(number as u32 + 1, ToServer(Rc::clone(&socket)));
        talk.send(HELLO);
        Ok(Self { socket, talk, is_beside, is_in: false })
    }
}

impl Guest for KcpGuest {
    fn receive(&mut self, tally: &mut Tally) {
        let mut buffer = [0; 2048];
        while let Ok(len) = self.socket.recv(&mut buffer) {
            let datagram = &buffer[..len];
            self.is_in = true;
            if conv_of(datagram) == Some(BESIDE) {
                tally.note(&datagram[CONV_BYTES..]);
            } else {
                self.talk.receive(datagram, |message| tally.note(message));
            }
        }
    }

    fn is_in(&self) -> bool {
        self.is_in
    }

    fn send(&mut self, input: u8) {
        if self.is_beside {
            let mut datagram = [0; CONV_BYTES + 1];
            datagram[CONV_BYTES] = input;
            let _ = self.socket.send(&datagram);
        } else {
            self.talk.send(&[input]);
        }
    }

    fn flush(&mut self) {
        self.talk.update();
    }
}
