//! Real clients over real sockets, and the program as a process.
#![allow(dead_code, reason = "each test uses its part")]

#[path = "kill.rs"]
pub mod kill;

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tickwire::client::aegis::{Client, Phase, Settings};
use tickwire::client::bot::Bot;
use tickwire::io::Clock;
use tickwire::rng::Rng;
use tickwire::seam::DATAGRAM_BYTES_MAX;
use tickwire::wire::aegis::{Header, PacketKind};

/// A client with its sockets.
pub struct Player {
    pub client: Client,
    pub bot: Bot,
    stream: TcpStream,
    socket: UdpSocket,
    clock: Clock,
    rng: Rng,
    /// Datagrams that it loses in each direction, per thousand.
    pub loss_per_mille: u32,
    /// Disconnects that came, whether the client still cared or not.
    pub disconnects: u32,
    /// Everything that the server said on the stream.
    pub heard: Vec<u8>,
}

impl Player {
    /// Connects; the login is only said with the first [`Player::exchange`].
    pub fn connect(tcp: SocketAddr, udp: SocketAddr, settings: &Settings, seed: u64) -> Self {
        let stream = TcpStream::connect(tcp).expect("a connection");
        stream.set_nodelay(true).expect("an option");
        stream.set_nonblocking(true).expect("an option");
        let socket = UdpSocket::bind((tcp.ip(), 0)).expect("a socket");
        socket.connect(udp).expect("a peer");
        socket.set_nonblocking(true).expect("an option");
        Self {
            client: Client::new(settings),
            bot: Bot::new(seed),
            stream,
            socket,
            clock: Clock::new(),
            rng: Rng::new(seed),
            loss_per_mille: 0,
            disconnects: 0,
            heard: Vec::new(),
        }
    }

    /// Moves bytes both ways once.
    pub fn exchange(&mut self) {
        let now = self.clock.now();
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        while let Ok(len) = self.socket.recv(&mut buffer) {
            if !self.rng.chance(self.loss_per_mille, 1000) {
                let header = Header::parse(&buffer[..len]);
                self.disconnects +=
                    u32::from(header.is_ok_and(|header| header.kind == PacketKind::Disconnect));
                let _ = self.client.datagram(now, now, &buffer[..len]);
            }
        }
        match self.stream.read(&mut buffer) {
            Ok(0) => self.client.stream_closed(),
            Ok(len) => {
                self.heard.extend_from_slice(&buffer[..len]);
                self.client.stream_bytes(now, &buffer[..len]);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.client.stream_closed(),
        }
        let said: Vec<u8> = std::iter::from_fn(|| self.client.stream_output()).collect();
        if !said.is_empty() && self.stream.write_all(&said).is_err() {
            self.client.stream_closed();
        }
        while let Some(len) = self.client.transmit(now, &mut buffer) {
            if !self.rng.chance(self.loss_per_mille, 1000) {
                let _ = self.socket.send(&buffer[..len]);
            }
        }
    }

    /// One tick of play.
    pub fn play(&mut self) {
        self.bot.play(&mut self.client);
        self.exchange();
        while self.client.poll_event().is_some() {}
    }

    /// Sends bytes as a datagram from the client's own port.
    pub fn send_raw(&self, bytes: &[u8]) {
        let _ = self.socket.send(bytes);
    }
}

/// Lets everyone play for `span`, at 60 Hz; `each` is called for each player and tick.
pub fn play(players: &mut [Player], span: Duration, mut each: impl FnMut(usize, &mut Player)) {
    let start = Instant::now();
    let mut ticks = 0;
    while start.elapsed() < span {
        for (number, player) in players.iter_mut().enumerate() {
            player.play();
            each(number, player);
        }
        ticks += 1;
        let next = start + Duration::from_nanos(16_666_667) * ticks;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// Lets everyone play until `is_done`; at most for ten seconds.
pub fn play_until(players: &mut [Player], mut is_done: impl FnMut(&[Player]) -> bool) {
    for _ in 0..1000 {
        if is_done(players) {
            return;
        }
        play(players, Duration::from_millis(10), |_, _| ());
    }
    let phases: Vec<Phase> = players.iter().map(|player| player.client.phase()).collect();
    panic!("it did not come to that: {phases:?}");
}

/// The program, serving on loopback; killed when dropped.
pub struct Program {
    child: Child,
    pub tcp: SocketAddr,
    pub udp: SocketAddr,
    stderr: Option<ChildStderr>,
}

impl Program {
    /// Starts it with `args` beside loopback addresses, and waits until it is ready.
    pub fn serve(args: &[&str]) -> Self {
        Self::serve_under(&[], args)
    }

    /// The same, by a program that takes the command line to run as its last arguments and becomes what it runs.
    pub fn serve_under(runner: &[&str], args: &[&str]) -> Self {
        let line = [runner, &[env!("CARGO_BIN_EXE_tickwire")]].concat();
        let mut child = Command::new(line[0])
            .args(&line[1..])
            .args(["serve", "--aegis-tcp", "127.0.0.1:0", "--aegis-udp", "127.0.0.1:0"])
            .args(args)
            .env_clear()
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stdout = BufReader::new(child.stdout.take().expect("its output"));
        let lines: Vec<String> =
            stdout.lines().map(|line| line.expect("a line")).take_while(|line| line != "ready").collect();
        let address = |name: &str| -> SocketAddr {
            let start = format!("listening {name} ");
            let line = lines.iter().find_map(|line| line.strip_prefix(&start));
            line.unwrap_or_else(|| panic!("no {name} in {lines:?}")).parse().expect("an address")
        };
        let stderr = child.stderr.take();
        Self { tcp: address("aegis-tcp"), udp: address("aegis-udp"), child, stderr }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal: `TERM` or `INT`.
    pub fn signal(&self, name: &str) {
        kill::kill(name, self.pid());
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    /// Waits for its end, at most ten seconds. Its exit code, and what it logged.
    pub fn wait(mut self) -> (Option<i32>, String) {
        for _ in 0..1000 {
            if let Some(status) = self.child.try_wait().expect("a child") {
                let mut log = String::new();
                self.stderr.take().expect("its log").read_to_string(&mut log).expect("UTF-8");
                return (status.code(), log);
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("the program did not end");
    }

    /// A line of `/proc/PID/status`.
    pub fn status(&self, name: &str) -> String {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("a process");
        let line = status.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
        line.expect("a line of that name").trim().to_owned()
    }

    /// Processor time that it has used, in seconds.
    pub fn cpu_s(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).expect("a process");
        let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
        // utime and stime are the 14th and 15th field, in hundredths; two came before the parenthesis closed.
        let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum();
        ticks as f64 / 100.0
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
