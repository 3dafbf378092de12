//! What only shows when a ring is made too small, or goes at an awkward moment.

use std::io::Read;
use std::net::{TcpStream, UdpSocket};
use std::time;

use super::*;
use crate::io::SendError;
use crate::seam::Input;

/// Remembers the numbers that datagrams carry, and answers each.
#[derive(Default)]
struct Numbers {
    told: Vec<u32>,
    answers: Vec<(Door, SocketAddr)>,
    opened: usize,
}

impl Core for Numbers {
    fn handle(&mut self, _: Instant, input: Input<'_>) {
        match input {
            Input::Datagram { door, from, bytes, .. } => {
                self.told.push(u32::from_be_bytes(bytes.try_into().expect("four bytes")));
                self.answers.push((door, from));
            }
            Input::StreamOpened { .. } => self.opened += 1,
            _ => {}
        }
    }
    /// Always due: a turn that finds nothing must not sleep.
    fn next_deadline(&self) -> Option<Instant> {
        Some(Instant::ZERO)
    }
    fn next_tick(&self) -> Option<Instant> {
        Some(Instant::ZERO)
    }
    fn advance(&mut self, _: Instant) {}
    fn transmit(&mut self, _: Instant, out: &mut Outbox) -> bool {
        while out.has_datagram_room()
            && let Some((door, to)) = self.answers.pop()
        {
            out.datagram(door, to, |_| Some(1));
        }
        !self.answers.is_empty()
    }
}

/// A loop with those sizes, and a client of its first door; `None` where the kernel refuses.
fn small(sizes: Sizes) -> Option<(UringLoop, UdpSocket)> {
    let mut options = IoOptions::new(4, 256);
    options.doors[0] = Some("127.0.0.1:0".parse().expect("an address"));
    options.aegis_tcp = options.doors[0];
    let server = match UringLoop::bind_sized(&options, sizes) {
        Err(BindError::Refused { source, .. }) => {
            println!("skipped, io_uring is refused: {source}");
            return None;
        }
        result => result.expect("loopback sockets"),
    };
    let client = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    client.connect(address_of(&server, "aegis-udp")).expect("loopback");
    Some((server, client))
}

fn address_of(server: &UringLoop, name: &str) -> SocketAddr {
    server.local_addrs().find(|(other, _)| *other == name).expect("such a listener").1
}

/// Sends `count` numbers in bursts, and demands that each is told once and in order.
fn burst(server: &mut UringLoop, client: &UdpSocket, count: u32) {
    let mut core = Numbers::default();
    for round in 0..4 {
        for n in round * count / 4..(round + 1) * count / 4 {
            client.send(&n.to_be_bytes()).expect("sent");
        }
        for _ in 0..2 * count {
            server.run_turn(&mut core).expect("the loop goes on");
        }
    }
    assert_eq!(core.told, (0..count).collect::<Vec<_>>());
    let stats = server.stats();
    assert_eq!(stats.doors[0].datagrams_out, u64::from(count));
    assert_eq!((stats.doors[0].kernel_drops, stats.doors[0].receive_errors), (0, 0), "{stats:?}");
}

/// Far fewer completions than datagrams: what does not fit is held back, ends the receive, and comes all the same.
#[test]
fn case_69_an_overflowing_completion_queue_loses_nothing() {
    let Some((mut server, client)) = small(Sizes { buffers: 256, completions: 32, batch: 8 }) else { return };
    burst(&mut server, &client, 400);
    let stats = server.stats().uring;
    assert!(stats.overflows > 0 && stats.rearms > 0, "{stats:?}");
}

/// Far fewer buffers than datagrams: the receive ends for want of one, and is made again once some are back.
#[test]
fn case_70_exhausted_buffers_are_survived() {
    let Some((mut server, client)) = small(Sizes { buffers: 8, completions: 1024, batch: 128 }) else {
        return;
    };
    burst(&mut server, &client, 400);
    let stats = server.stats().uring;
    assert!(stats.no_buffers > 0 && stats.rearms > 0, "{stats:?}");
}

/// Answers to one peer in a row go as one message; where the kernel cannot cut that, they go alone and in order, nothing
/// is lost, and it is not asked again.
#[test]
fn case_55_refused_offload_is_switched_off() {
    let Some((mut server, client)) = small(Sizes { buffers: 256, completions: 1024, batch: 128 }) else {
        return;
    };
    client.set_read_timeout(Some(time::Duration::from_secs(20))).expect("a timeout");
    for (round, refused) in [(1, false), (2, true), (3, true)] {
        if refused {
            server.doors.refuse_offload(Door::Aegis);
        }
        (0..4_u32).for_each(|n| assert_eq!(client.send(&n.to_be_bytes()).expect("sent"), 4));
        let mut core = Numbers::default();
        while core.told.len() < 4 {
            server.run_turn(&mut core).expect("the loop goes on");
        }
        (0..4).for_each(|_| assert_eq!(client.recv(&mut [0; 8]).expect("an answer"), 1));
        let stats = server.stats().doors[0];
        assert_eq!(
            (stats.datagrams_out, stats.bytes_out, stats.send_errors_total()),
            (4 * round, 4 * round, 0)
        );
        assert_eq!((stats.offloaded_out, stats.offload_refused), (4, u64::from(refused)));
    }
}

/// An address that nothing can be sent to is no reason to switch anything off: a peer chooses its own.
#[test]
fn case_55_a_refused_address_switches_nothing_off() {
    let Some((mut server, client)) = small(Sizes { buffers: 256, completions: 1024, batch: 128 }) else {
        return;
    };
    let nowhere = "127.0.0.1:0".parse().expect("an address: no port");
    let here = client.local_addr().expect("its address");
    let to = [here, here, nowhere, nowhere, nowhere];
    let mut core = Numbers { answers: to.map(|to| (Door::Aegis, to)).to_vec(), ..Numbers::default() };
    server.run_turn(&mut core).expect("one turn");
    let stats = server.stats().doors[0];
    assert_eq!((stats.datagrams_out, stats.bytes_out, stats.offloaded_out), (2, 2, 2));
    assert_eq!((stats.send_errors[SendError::Invalid as usize], stats.offload_refused), (3, 0));
}

/// Accepted by the kernel, but the loop goes before it has looked: the connection is closed and not left hanging in a
/// descriptor that nobody knows.
#[test]
fn case_72_an_accepted_connection_that_nobody_takes_is_closed() {
    let Some((mut server, _)) = small(Sizes { buffers: 8, completions: 64, batch: 8 }) else { return };
    let mut core = Numbers::default();
    server.run_turn(&mut core).expect("one turn, which begins to accept");
    let mut clients: Vec<_> =
        (0..3).map(|_| TcpStream::connect(address_of(&server, "aegis-tcp")).expect("loopback")).collect();
    // The kernel accepts, and nobody reads the completions.
    server.control.wait(3, None).expect("three completions");
    assert!(server.control.has_completions());
    drop(server);
    for client in &mut clients {
        client.set_read_timeout(Some(time::Duration::from_secs(20))).expect("a timeout");
        // An end or a reset, but no silence.
        let kind = client.read(&mut [0; 8]).map_err(|error| error.kind());
        assert!(matches!(kind, Ok(0) | Err(io::ErrorKind::ConnectionReset)), "{kind:?}");
    }
    assert_eq!(core.opened, 0);
}

/// Requests name a stream by its descriptor. One that closes with a request queued takes it along, and whoever gets the
/// same number and the same slot next is served.
#[test]
fn a_descriptors_next_owner_is_not_confused_with_its_last() {
    let Some((mut server, _)) = small(Sizes { buffers: 8, completions: 64, batch: 8 }) else { return };
    let mut core = Numbers::default();
    for n in 1..=100 {
        let client = TcpStream::connect(address_of(&server, "aegis-tcp")).expect("loopback");
        while core.opened < n {
            server.run_turn(&mut core).expect("the loop goes on");
        }
        drop(client);
        while server.streams_len() > 0 {
            server.run_turn(&mut core).expect("the loop goes on");
        }
    }
    assert_eq!((server.stats().streams.accepted, server.stats().streams.closed), (100, 100));
}

/// A loop that another thread has turned fails, and says so.
#[test]
fn a_loop_stays_with_its_thread() {
    let Some((mut server, _)) = small(Sizes { buffers: 8, completions: 64, batch: 8 }) else { return };
    std::thread::scope(|scope| {
        let turned = scope.spawn(|| server.run_turn(&mut Numbers::default()).map(|_| ()));
        turned.join().expect("no panic").expect("the first thread may");
    });
    server.run_turn(&mut Numbers::default()).expect_err("and no other");
}

/// Sizes are what a buffer ring and a completion queue can have, whatever the options.
#[test]
fn sizes_fit_the_kernels_bounds() {
    for (sessions, buffers) in [(1, 256), (256, 1024), (1000, 4096), (16_384, 32_768), (1 << 30, 32_768)] {
        let sizes = Sizes::of(&IoOptions::new(1, sessions));
        assert_eq!(sizes.buffers, buffers, "{sessions} sessions");
        assert!(sizes.completions <= COMPLETIONS_MAX && sizes.completions.is_power_of_two());
        assert!((BATCH_MIN..=BATCH_MAX).contains(&sizes.batch));
    }
}
