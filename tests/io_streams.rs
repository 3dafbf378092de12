//! Streams over real loopback sockets: slots, closes, peers that misbehave. Cases from the field carry their numbers.

#[macro_use]
mod io_toy;

use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Command;

use io_toy::{StreamEvent, Toy, bind, everything, tcp_client, turn_until, udp_client};
use socket2::SockRef;
use tickwire::io::{ACCEPT_PAUSE, Backend, LINGER_MAX, STREAM_READ_BYTES_PER_TURN};
use tickwire::seam::StreamId;
use tickwire::time::Duration;

over_each_backend! {
    bytes_go_both_ways_and_the_peers_close_is_told_once,
    a_close_of_the_core_flushes_first,
    a_close_with_unread_bytes_does_not_reset,
    a_turn_reads_no_more_than_its_share_of_a_stream,
    a_word_about_an_earlier_stream_of_the_slot_finds_nobody,
    more_streams_than_slots_are_closed_at_once_and_counted,
    case_47_a_peer_that_never_reads_is_closed,
    case_48_vanished_peers_give_their_slots_back,
    case_50_connect_and_close_at_once,
    case_51_sending_to_a_reset_peer_is_the_end_of_that_stream,
    case_49_no_descriptors_left,
}

fn bytes_go_both_ways_and_the_peers_close_is_told_once(backend: Backend) {
    let mut server = bind(&everything(backend, 4, 8));
    let mut toy = Toy::idle();
    let mut client = tcp_client(&server);
    client.write_all(b"echo").expect("sent");
    turn_until(&mut server, &mut toy, |server, _| server.stats().streams.bytes_out == 4);
    let mut echo = [0; 4];
    client.read_exact(&mut echo).expect("an echo");
    assert_eq!(&echo, b"echo");
    let peer = client.local_addr().expect("its address");
    drop(client);
    turn_until(&mut server, &mut toy, |server, _| server.streams_len() == 0);
    let id = StreamId { index: 0, generation: 0 };
    assert_eq!(
        toy.streams,
        [StreamEvent::Opened(id, peer), StreamEvent::Bytes(id, 4), StreamEvent::Closed(id)]
    );
}

/// The core closes: its last bytes arrive, then the end of the stream, and the core hears nothing more.
fn a_close_of_the_core_flushes_first(backend: Backend) {
    let mut server = bind(&everything(backend, 4, 8));
    let mut toy = Toy::idle();
    let mut client = tcp_client(&server);
    client.write_all(b"close me").expect("sent");
    turn_until(&mut server, &mut toy, |server, _| server.stats().streams.bytes_out == 8);
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).expect("the end of the stream, not a reset");
    assert_eq!(answer, b"close me");
    assert_eq!(server.streams_len(), 1, "it lingers until its peer closes");
    drop(client);
    turn_until(&mut server, &mut toy, |server, _| server.streams_len() == 0);
    assert!(toy.closed().is_empty());
    assert_eq!(server.stats().streams.linger_cut, 0);
}

/// Bytes that nobody reads any more must not turn the close into a reset, which would take our last message along.
fn a_close_with_unread_bytes_does_not_reset(backend: Backend) {
    let mut server = bind(&everything(backend, 4, 8));
    let mut toy = Toy::idle();
    let mut client = tcp_client(&server);
    let mut bytes = vec![b'x'; 3 * STREAM_READ_BYTES_PER_TURN];
    bytes[0] = b'c';
    client.write_all(&bytes).expect("sent");
    turn_until(&mut server, &mut toy, |server, _| server.stats().streams.bytes_in == bytes.len() as u64);
    client.write_all(b"and more, after its close").expect("sent");
    client.shutdown(Shutdown::Write).expect("still connected");
    turn_until(&mut server, &mut toy, |server, _| server.streams_len() == 0);
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).expect("the end of the stream, not a reset");
    assert_eq!(answer.len(), 30);
    assert_eq!(toy.streams.iter().filter(|e| matches!(e, StreamEvent::Bytes(..))).count(), 1);
}

/// One that sends without end gets its share of each turn, and the others theirs.
fn a_turn_reads_no_more_than_its_share_of_a_stream(backend: Backend) {
    let mut server = bind(&everything(backend, 4, 8));
    let mut toy = Toy::idle();
    let mut greedy = tcp_client(&server);
    let mut modest = tcp_client(&server);
    let total = 16 * STREAM_READ_BYTES_PER_TURN;
    greedy.write_all(&vec![b'x'; total]).expect("sent");
    modest.write_all(b"y").expect("sent");
    let mut before = 0;
    turn_until(&mut server, &mut toy, |server, toy| {
        let bytes_in = server.stats().streams.bytes_in as usize;
        assert!(bytes_in - before <= STREAM_READ_BYTES_PER_TURN + 1);
        before = bytes_in;
        if bytes_in > 2 * STREAM_READ_BYTES_PER_TURN {
            let has_modest = |event: &StreamEvent| matches!(event, StreamEvent::Bytes(_, 1));
            assert!(toy.streams.iter().any(has_modest), "served long before the greedy one was done");
        }
        bytes_in == total + 1
    });
}

fn a_word_about_an_earlier_stream_of_the_slot_finds_nobody(backend: Backend) {
    let mut server = bind(&everything(backend, 1, 8));
    let mut toy = Toy::idle();
    drop(tcp_client(&server));
    turn_until(&mut server, &mut toy, |_, toy| toy.closed().len() == 1);
    let mut client = tcp_client(&server);
    turn_until(&mut server, &mut toy, |_, toy| toy.opened().len() == 2);
    let (old, new) = (toy.opened()[0], toy.opened()[1]);
    assert_eq!(old.index, new.index);
    assert_ne!(old.generation, new.generation);
    toy.send_stream(old, b"not for you", true);
    toy.send_stream(StreamId { index: 77, generation: 0 }, b"no such slot", true);
    toy.send_stream(new, b"for you", true);
    turn_until(&mut server, &mut toy, |server, _| server.stats().streams.bytes_out > 0);
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).expect("the end of the stream");
    assert_eq!(answer, b"for you");
}

fn more_streams_than_slots_are_closed_at_once_and_counted(backend: Backend) {
    let mut server = bind(&everything(backend, 2, 8));
    let mut toy = Toy::idle();
    let inside = [tcp_client(&server), tcp_client(&server)];
    turn_until(&mut server, &mut toy, |_, toy| toy.opened().len() == 2);
    let mut outside: Vec<_> = (0..5).map(|_| tcp_client(&server)).collect();
    turn_until(&mut server, &mut toy, |server, _| server.stats().streams.refused == 5);
    for client in &mut outside {
        assert_eq!(client.read(&mut [0; 8]).expect("the end of the stream"), 0);
    }
    assert!(toy.closed().is_empty());
    drop(inside);
    turn_until(&mut server, &mut toy, |_, toy| toy.closed().len() == 2);
    let _later = tcp_client(&server);
    turn_until(&mut server, &mut toy, |_, toy| toy.opened().len() == 3);
}

/// A peer that sends but never reads: our output for it is capped, then it is closed.
fn case_47_a_peer_that_never_reads_is_closed(backend: Backend) {
    let mut server = bind(&everything(backend, 2, 8));
    let mut toy = Toy::idle();
    let mut deaf = tcp_client(&server);
    SockRef::from(&deaf).set_recv_buffer_size(4096).expect("a small buffer");
    deaf.write_all(b"flood me").expect("sent");
    turn_until(&mut server, &mut toy, |_, toy| !toy.closed().is_empty());
    assert_eq!(toy.closed().len(), 1);
    assert_eq!((server.streams_len(), server.stats().streams.overflowed), (0, 1));
}

/// Peers that vanish without a word, in every slot. The core gives up on them, and newcomers get in at once; what then
/// lingers is cut after its time.
fn case_48_vanished_peers_give_their_slots_back(backend: Backend) {
    let mut server = bind(&everything(backend, 8, 8));
    let mut toy = Toy::idle();
    let silent: Vec<_> = (0..8).map(|_| tcp_client(&server)).collect();
    turn_until(&mut server, &mut toy, |_, toy| toy.opened().len() == 8);
    toy.opened().into_iter().for_each(|id| toy.send_stream(id, b"too late", true));
    server.run_turn(&mut toy).expect("one turn");
    assert_eq!(server.streams_len(), 8, "they linger");

    let newcomers: Vec<_> = (0..5).map(|_| tcp_client(&server)).collect();
    turn_until(&mut server, &mut toy, |_, toy| toy.opened().len() == 13);
    assert_eq!((server.stats().streams.refused, server.stats().streams.linger_cut), (0, 5));

    let closed_at = toy.now;
    turn_until(&mut server, &mut toy, |server, _| server.streams_len() == 5);
    assert_eq!(server.stats().streams.linger_cut, 8);
    assert!(toy.now + Duration::from_secs(1) >= closed_at + LINGER_MAX, "not cut before their time");
    drop(newcomers);
    turn_until(&mut server, &mut toy, |server, _| server.streams_len() == 0);
    assert_eq!(toy.closed().len(), 5, "only those are told whom the core had not closed");
    drop(silent);
}

/// Connected and gone again before the server has looked, by a close or by a reset.
fn case_50_connect_and_close_at_once(backend: Backend) {
    let mut server = bind(&everything(backend, 4, 8));
    let mut toy = Toy::idle();
    for round in 1..=40 {
        for n in 0..4 {
            let client = tcp_client(&server);
            if n % 2 == 0 {
                reset(client);
            }
        }
        turn_until(&mut server, &mut toy, |server, _| {
            let streams = server.stats().streams;
            let gone = streams.accept_errors + streams.refused + streams.closed;
            gone == 4 * round && server.streams_len() == 0
        });
    }
    let in_order = |mut ids: Vec<StreamId>| {
        ids.sort_by_key(|id| (id.index, id.generation));
        ids
    };
    assert_eq!(in_order(toy.opened()), in_order(toy.closed()), "each that opened closed once");
}

/// Output for a peer that has reset the connection. (That the write raises no SIGPIPE, even where that would kill, is
/// a unit test beside the system calls.)
fn case_51_sending_to_a_reset_peer_is_the_end_of_that_stream(backend: Backend) {
    let mut server = bind(&everything(backend, 4, 8));
    let mut toy = Toy::idle();
    let mut other = tcp_client(&server);
    for n in 1..=20 {
        let client = tcp_client(&server);
        turn_until(&mut server, &mut toy, |_, toy| toy.opened().len() == n + 1);
        let id = toy.opened()[n];
        reset(client);
        for _ in 0..3 {
            toy.send_stream(id, b"are you there?", false);
        }
        turn_until(&mut server, &mut toy, |_, toy| toy.closed().len() == n);
        assert_eq!(toy.closed()[n - 1], id);
    }
    other.write_all(b"echo").expect("sent");
    turn_until(&mut server, &mut toy, |server, _| server.stats().streams.bytes_out >= 4);
    other.read_exact(&mut [0; 4]).expect("the others live");
}

/// Out of descriptors: accepting pauses, datagrams go on, and the connection gets in when there is room again. Played by
/// a child with a low limit.
fn case_49_no_descriptors_left(backend: Backend) {
    const IN_CHILD: &str = "TICKWIRE_IO_TEST_FEW_DESCRIPTORS";
    if env::var_os(IN_CHILD).is_none() {
        let exe = env::current_exe().expect("this test's path");
        let output = Command::new("/bin/sh")
            .args([
                "-c",
                "ulimit -n 64 && exec \"$0\" --exact \"$1::case_49_no_descriptors_left\" --nocapture",
            ])
            .arg(exe)
            .arg(if backend == Backend::Mio { "mio" } else { "io_uring" })
            .env(IN_CHILD, "1")
            .output()
            .expect("the child runs");
        assert!(output.status.success(), "{output:?}");
        return;
    }

    let mut server = bind(&everything(backend, 4, 8));
    let mut toy = Toy::idle();
    let player = udp_client(&server, "aegis-udp");
    let mut fillers = Vec::new();
    let full = loop {
        match File::open("/dev/null") {
            Ok(file) => fillers.push(file),
            Err(error) => break error,
        }
    };
    assert_eq!(full.raw_os_error(), Some(libc::EMFILE));
    fillers.pop();
    let mut client = tcp_client(&server);

    turn_until(&mut server, &mut toy, |server, _| server.stats().streams.accept_pauses == 1);
    let paused_at = toy.now;
    // While it pauses, datagrams come and go; one a time, since an idle server takes them in at its leisure.
    for n in 1..=3 {
        player.send(b"still here").expect("sent");
        turn_until(&mut server, &mut toy, |server, _| server.stats().doors[0].datagrams_out == n);
        player.recv(&mut [0; 16]).expect("an echo");
    }
    // It tries again now and then, and does not spin.
    turn_until(&mut server, &mut toy, |server, _| server.stats().streams.accept_pauses == 3);
    assert!(toy.now.since(paused_at) >= ACCEPT_PAUSE.times(2));
    let tries =
        if backend == Backend::Mio { server.stats().calls.accept } else { server.stats().uring.rearms + 1 };
    assert_eq!(tries, 3);

    fillers.clear();
    turn_until(&mut server, &mut toy, |_, toy| toy.opened().len() == 1);
    client.write_all(b"echo").expect("sent");
    turn_until(&mut server, &mut toy, |server, _| server.stats().streams.bytes_out == 4);
    client.read_exact(&mut [0; 4]).expect("an echo");
}

/// Ends a connection with a reset.
fn reset(client: TcpStream) {
    let close: io::Result<()> = SockRef::from(&client).set_linger(Some(std::time::Duration::ZERO));
    close.expect("a socket option");
}
