//! Datagrams over real loopback sockets: batches, ticks, errors of peers. Cases from the field carry their numbers; case
//! 53 (ENOBUFS, which loopback cannot be made to say) is a unit test beside the sending code, as is case 62 beside the
//! clock.

#[macro_use]
mod io_toy;

use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time;

use io_toy::{Toy, address_of, bind, everything, everything_at, tcp_client, turn_until, udp_client};
use tickwire::io::{Backend, BindError, IDLE_INTERVAL, IoOptions, Loop, SendError, Wake};
use tickwire::seam::Door;
use tickwire::time::Duration;

/// Long enough that no test reaches it unless it waits for it.
const LONG_TICK: Duration = Duration::from_millis(200);

over_each_backend! {
    a_thousand_datagrams_are_echoed,
    each_door_answers_from_its_own_socket,
    many_datagrams_to_one_peer_arrive_as_they_are,
    with_wake_tick_datagrams_wait_for_the_tick,
    with_wake_tick_a_stream_wakes_the_loop_and_datagrams_stay,
    with_wake_tick_timers_wait_for_a_near_tick,
    a_tick_of_many_clients_costs_few_system_calls,
    with_wake_event_datagrams_are_taken_at_once,
    with_wake_event_what_a_turn_leaves_over_comes_next_turn,
    while_nobody_plays_a_flood_wakes_once_per_interval,
    an_empty_server_sleeps,
    case_19_an_empty_datagram_is_a_datagram,
    case_52_a_closed_port_of_a_peer_stops_nobody,
    case_52_refused_addresses_lose_their_own_datagram_only,
    a_door_that_is_closed_swallows_and_counts,
    case_56_a_long_datagram_stays_longer_than_the_limit,
    case_59_a_spammer_does_not_starve_the_others,
    what_the_kernel_drops_is_counted,
    receive_times_do_not_include_the_wait_for_the_tick,
    case_57_a_dual_stack_socket_has_ipv4_peers,
    a_taken_address_is_named,
}

fn a_thousand_datagrams_are_echoed(backend: Backend) {
    let mut server = bind(&everything(backend, 1, 1000));
    let mut toy = Toy::playing(server.clock().now(), Duration::from_millis(10));
    let clients: Vec<_> = (0..10).map(|_| udp_client(&server, "aegis-udp")).collect();
    for n in 0..1000_u32 {
        clients[n as usize % 10].send(&n.to_be_bytes()).expect("sent");
    }
    turn_until(&mut server, &mut toy, |server, _| server.stats().doors[0].datagrams_out == 1000);
    for n in 0..1000_u32 {
        let mut buffer = [0; 100];
        let len = clients[n as usize % 10].recv(&mut buffer).expect("an echo");
        assert_eq!(&buffer[..len], n.to_be_bytes(), "in order for each client");
    }
    let stats = server.stats().doors[Door::Aegis as usize];
    assert_eq!((stats.datagrams_in, stats.bytes_in, stats.bytes_out), (1000, 4000, 4000));
    assert_eq!((stats.send_errors_total(), stats.kernel_drops, stats.receive_errors), (0, 0, 0));
}

/// Of all lengths, so that some are joined and some are not.
fn many_datagrams_to_one_peer_arrive_as_they_are(backend: Backend) {
    let mut server = bind(&everything(backend, 1, 256));
    let mut toy = Toy::idle();
    let client = udp_client(&server, "aegis-udp");
    let to = client.local_addr().expect("its address");
    let lens = [200, 200, 200, 60, 60, 1200, 1200, 7, 7, 0, 0, 8, 7, 7, 9];
    for (n, len) in lens.into_iter().enumerate() {
        toy.send(Door::Aegis, to, &vec![n as u8; len]);
    }
    turn_until(&mut server, &mut toy, |server, _| server.stats().doors[0].datagrams_out == 15);
    for (n, len) in lens.into_iter().enumerate() {
        let mut buffer = [0xEE; 2000];
        assert_eq!(client.recv(&mut buffer).expect("it came"), len);
        assert!(buffer[..len].iter().all(|byte| *byte == n as u8), "in order, and whole");
    }
    let stats = server.stats().doors[0];
    assert_eq!(stats.bytes_out, lens.iter().sum::<usize>() as u64);
    if stats.offload_refused == 0 {
        assert_eq!(stats.offloaded_out, 4 + 3 + 2, "200 200 200 60, 1200 1200 7, and 8 7");
    }
}

fn each_door_answers_from_its_own_socket(backend: Backend) {
    let mut server = bind(&everything(backend, 1, 8));
    let mut toy = Toy::idle();
    let names = ["aegis-udp", "rtype-udp", "fignet-udp"];
    let clients = names.map(|name| udp_client(&server, name));
    clients.iter().for_each(|client| assert_eq!(client.send(b"x").expect("sent"), 1));
    turn_until(&mut server, &mut toy, |server, _| server.stats().doors.iter().all(|d| d.datagrams_out == 1));
    // Connected clients hear only from the socket that they are connected to.
    clients.iter().for_each(|client| assert_eq!(client.recv(&mut [0; 8]).expect("an echo"), 1));
    for (door, client) in [Door::Aegis, Door::Rtype, Door::Fignet].into_iter().zip(&clients) {
        let from = client.local_addr().expect("its address");
        assert!(toy.datagrams.iter().any(|d| d.door == door && d.from == from));
    }
}

/// While somebody plays, datagrams wake nobody, and a whole tick of them costs what its batches cost.
fn with_wake_tick_datagrams_wait_for_the_tick(backend: Backend) {
    let mut server = bind(&everything(backend, 1, 256));
    let mut toy = Toy::playing(server.clock().now(), LONG_TICK);
    toy.heartbeat = false;
    let client = udp_client(&server, "rtype-udp");
    server.run_turn(&mut toy).expect("the first turn, which nothing was sent to");
    for _ in 0..5 {
        let before = *server.stats();
        let due = toy.next_tick;
        for n in 0..300_u32 {
            client.send(&n.to_be_bytes()).expect("sent");
        }
        let turn = server.run_turn(&mut toy).expect("one turn");
        let stats = server.stats();
        assert!(turn.now >= due, "woken before the tick");
        assert_eq!(stats.doors[1].datagrams_in - before.doors[1].datagrams_in, 300);
        assert_eq!(stats.calls.waits() - before.calls.waits(), 1);
        if backend == Backend::IoUring {
            // The first time, it is not known how many will come, and they are received by 32.
            let to_receive = if before.doors[1].datagrams_in == 0 { 300 / 32 + 1 } else { 1 };
            let calls = stats.calls.total() - before.calls.total();
            assert!(calls <= 1 + to_receive + 1, "a wait, to receive, and to send: {calls}");
            continue;
        }
        assert!(stats.calls.timerfd_settime - before.calls.timerfd_settime <= 1);
        assert_eq!(stats.calls.recvmmsg - before.calls.recvmmsg, 3 + 2, "three batches, and two quiet doors");
        assert_eq!(stats.calls.sendmmsg - before.calls.sendmmsg, 3);
        assert_eq!(stats.calls.epoll_ctl, before.calls.epoll_ctl);
    }
}

/// Timers that come due between ticks do not wake the loop at a moment each of their own.
fn with_wake_tick_timers_wait_for_a_near_tick(backend: Backend) {
    let mut server = bind(&everything(backend, 1, 8));
    let mut toy = Toy::playing(server.clock().now(), Duration::from_millis(15));
    assert!(toy.heartbeat, "a timer every 5 ms");
    // It has been due from the beginning, and so is not waited with.
    server.run_turn(&mut toy).expect("the first turn");
    let (ticks, waits) = (toy.ticks, server.stats().calls.waits());
    for turn in 1..=20 {
        server.run_turn(&mut toy).expect("one turn");
        assert_eq!(toy.ticks - ticks, turn, "every turn is a tick");
    }
    assert_eq!(server.stats().calls.waits() - waits, 20);
}

/// Each of many clients sends in each tick and is answered: the loop sleeps, receives and sends, with a call or a few
/// for each.
fn a_tick_of_many_clients_costs_few_system_calls(backend: Backend) {
    const CLIENTS: usize = 250;
    const TICKS: u64 = 20;
    let mut server = bind(&everything(backend, 1, CLIENTS));
    let mut toy = Toy::playing(server.clock().now(), Duration::from_millis(10));
    let clients: Vec<_> = (0..CLIENTS).map(|_| udp_client(&server, "aegis-udp")).collect();
    let mut tick = |server: &mut Loop| {
        let (before, sent) = (toy.ticks, server.stats().doors[0].datagrams_out);
        clients.iter().for_each(|client| assert_eq!(client.send(&[7; 60]).expect("sent"), 60));
        while toy.ticks == before {
            server.run_turn(&mut toy).expect("one turn");
        }
        assert_eq!(server.stats().doors[0].datagrams_out - sent, CLIENTS as u64);
        clients.iter().for_each(|client| assert_eq!(client.recv(&mut [0; 100]).expect("an echo"), 60));
    };
    // It takes a tick to know how many datagrams to expect.
    (0..3).for_each(|_| tick(&mut server));
    let before = server.stats().calls;
    (0..TICKS).for_each(|_| tick(&mut server));
    let calls = server.stats().calls.total() - before.total();
    println!("{} calls in {TICKS} ticks", calls);
    let most = if backend == Backend::IoUring { 3 } else { 40 };
    assert!(calls <= most * TICKS, "{calls} calls in {TICKS} ticks: {:?}", server.stats().calls);
    assert_eq!(server.stats().doors[0].send_errors_total(), 0);
}

/// A stream's wake in between leaves the datagrams where they are.
fn with_wake_tick_a_stream_wakes_the_loop_and_datagrams_stay(backend: Backend) {
    let mut server = bind(&everything(backend, 4, 8));
    let mut toy = Toy::playing(server.clock().now(), Duration::from_secs(3600));
    let client = udp_client(&server, "aegis-udp");
    client.send(b"later").expect("sent");
    let _stream = tcp_client(&server);
    turn_until(&mut server, &mut toy, |_, toy| !toy.streams.is_empty());
    assert!(toy.datagrams.is_empty());
    assert_eq!((server.stats().calls.recvmmsg, server.stats().calls.uring_enter), (0, 0));
    // The last player goes: now what waits is told of.
    toy.tick = None;
    turn_until(&mut server, &mut toy, |_, toy| toy.datagrams.len() == 1);
}

fn with_wake_event_datagrams_are_taken_at_once(backend: Backend) {
    let mut options = everything(backend, 1, 8);
    options.wake = Wake::Event;
    let mut server = bind(&options);
    let mut toy = Toy::playing(server.clock().now(), Duration::from_secs(3600));
    let client = udp_client(&server, "aegis-udp");
    for n in 1..=20 {
        client.send(b"now").expect("sent");
        turn_until(&mut server, &mut toy, |_, toy| toy.datagrams.len() == n);
    }
    assert_eq!(toy.ticks, 0);
}

/// A turn's bound cuts a burst short, but its edge is not lost.
fn with_wake_event_what_a_turn_leaves_over_comes_next_turn(backend: Backend) {
    let mut options = everything(backend, 1, 256);
    options.wake = Wake::Event;
    options.datagrams_per_turn = 100;
    let mut server = bind(&options);
    let mut toy = Toy::idle();
    let client = udp_client(&server, "aegis-udp");
    (0..950).for_each(|_| assert_eq!(client.send(b"burst").expect("sent"), 5));
    let mut before = 0;
    turn_until(&mut server, &mut toy, |_, toy| {
        assert!(toy.datagrams.len() - before <= 100);
        before = toy.datagrams.len();
        before == 950
    });
}

/// A flood at an empty server wakes it no more than once per tick's time.
fn while_nobody_plays_a_flood_wakes_once_per_interval(backend: Backend) {
    let mut server = bind(&everything(backend, 1, 64));
    let mut toy = Toy::idle();
    toy.heartbeat = false;
    let client = udp_client(&server, "aegis-udp");
    let stop = server.stop_handle();
    let flood = thread::spawn(move || {
        for _ in 0..300 {
            client.send(b"flood").expect("sent");
            thread::sleep(time::Duration::from_millis(1));
        }
        stop.stop().expect("the loop is told");
    });
    let mut last = None;
    let mut drains = 0;
    loop {
        let before = server.stats().doors[0].datagrams_in;
        let turn = server.run_turn(&mut toy).expect("one turn");
        if server.stats().doors[0].datagrams_in > before {
            let since = last.replace(turn.now).map(|last| turn.now.since(last));
            assert!(since.is_none_or(|since| since >= IDLE_INTERVAL), "{since:?}");
            drains += 1;
        }
        if turn.stopped {
            break;
        }
    }
    flood.join().expect("the flood ends");
    assert!(drains > 1, "it was woken");
    // Each drain is a wake, and each return to the poll set another.
    assert!(server.stats().calls.waits() <= 2 * drains + 4, "{:?} {drains}", server.stats());
}

/// Nobody there, nothing due: one wait, for as long as it lasts.
fn an_empty_server_sleeps(backend: Backend) {
    let mut server = bind(&everything(backend, 1, 8));
    let mut toy = Toy::idle();
    toy.heartbeat = false;
    let stop = server.stop_handle();
    let stopper = thread::spawn(move || {
        thread::sleep(time::Duration::from_millis(300));
        stop.stop().expect("the loop is told");
    });
    server.run(&mut toy, |_, _| false).expect("stopped, not failed");
    stopper.join().expect("the stopper ends");
    let calls = server.stats().calls;
    assert!(calls.waits() <= 2, "{calls:?}");
    assert_eq!((calls.timerfd_settime, calls.recvmmsg, calls.sendmmsg, calls.uring_enter), (0, 0, 0, 0));
}

fn case_19_an_empty_datagram_is_a_datagram(backend: Backend) {
    let mut server = bind(&everything(backend, 1, 8));
    let mut toy = Toy::idle();
    let client = udp_client(&server, "aegis-udp");
    for bytes in [&b""[..], b"", b"after"] {
        client.send(bytes).expect("sent");
    }
    turn_until(&mut server, &mut toy, |server, _| server.stats().doors[0].datagrams_out == 3);
    assert_eq!(toy.datagrams.iter().map(|d| d.len).collect::<Vec<_>>(), [0, 0, 5]);
    assert_eq!(server.stats().doors[0].empty_in, 2);
    let echoed = [(); 3].map(|()| client.recv(&mut [0; 16]).expect("an echo"));
    assert_eq!(echoed, [0, 0, 5]);
}

/// A peer whose port is closed makes its host complain with every datagram that we send there.
fn case_52_a_closed_port_of_a_peer_stops_nobody(backend: Backend) {
    let mut server = bind(&everything(backend, 1, 8));
    let mut toy = Toy::idle();
    let honest = udp_client(&server, "aegis-udp");
    for n in 1..=50 {
        let gone = udp_client(&server, "aegis-udp");
        gone.send(b"gone").expect("sent");
        drop(gone);
        honest.send(b"here").expect("sent");
        turn_until(&mut server, &mut toy, |_, toy| toy.datagrams.len() == 2 * n);
        assert_eq!(honest.recv(&mut [0; 16]).expect("an echo"), 4);
    }
}

/// Addresses that the kernel refuses, first, last and in the middle of a batch: the others still go.
fn case_52_refused_addresses_lose_their_own_datagram_only(backend: Backend) {
    let mut server = bind(&everything(backend, 1, 8));
    let mut toy = Toy::idle();
    let client = udp_client(&server, "fignet-udp");
    let honest = client.local_addr().expect("its address");
    let refused: [SocketAddr; 3] = [
        "127.0.0.1:0".parse().expect("an address: no port"),
        "[::1]:9".parse().expect("an address: not of this socket's family"),
        "255.255.255.255:9".parse().expect("an address: broadcast, not asked for"),
    ];
    for to in [refused[0], honest, refused[1], refused[2], honest, honest, refused[0]] {
        toy.send(Door::Fignet, to, b"batch");
    }
    turn_until(&mut server, &mut toy, |server, _| server.stats().doors[2].datagrams_out == 3);
    (0..3).for_each(|_| assert_eq!(client.recv(&mut [0; 16]).expect("ours came"), 5));
    let stats = server.stats().doors[Door::Fignet as usize];
    assert_eq!(stats.send_errors_total(), 4, "{stats:?}");
    assert!(stats.send_errors[SendError::Invalid as usize] >= 3, "{stats:?}");
}

fn a_door_that_is_closed_swallows_and_counts(backend: Backend) {
    let mut options = IoOptions::new(1, 1);
    options.backend = backend;
    options.doors[0] = Some("127.0.0.1:0".parse().expect("an address"));
    let mut server = bind(&options);
    let mut toy = Toy::idle();
    toy.send(Door::Rtype, "127.0.0.1:9".parse().expect("an address"), b"nowhere");
    turn_until(&mut server, &mut toy, |server, _| server.stats().doors[1].no_socket == 1);
}

/// What is longer than any door takes is seen to be, however long it was.
fn case_56_a_long_datagram_stays_longer_than_the_limit(backend: Backend) {
    let mut server = bind(&everything(backend, 1, 8));
    let mut toy = Toy::idle();
    let client = udp_client(&server, "aegis-udp");
    for len in [549, 1200, 1201, 1280, 1281, 9000] {
        client.send(&vec![7; len]).expect("sent");
    }
    turn_until(&mut server, &mut toy, |_, toy| toy.datagrams.len() == 6);
    assert_eq!(toy.datagrams.iter().map(|d| d.len).collect::<Vec<_>>(), [549, 1200, 1201, 1280, 1280, 1280]);
}

/// One who sends far too much: each turn takes no more than its budget from that door, and all others are served in
/// the same turn.
fn case_59_a_spammer_does_not_starve_the_others(backend: Backend) {
    let mut options = everything(backend, 4, 256);
    options.datagrams_per_turn = 64;
    let mut server = bind(&options);
    let mut toy = Toy::playing(server.clock().now(), LONG_TICK);
    let spammer = udp_client(&server, "rtype-udp");
    let honest = udp_client(&server, "aegis-udp");
    (0..900).for_each(|_| assert_eq!(spammer.send(b"spam").expect("sent"), 4));
    honest.send(b"honest").expect("sent");

    let mut spam_before = 0;
    let mut turns_with_spam = 0;
    turn_until(&mut server, &mut toy, |_, toy| {
        let spam = toy.datagrams.iter().filter(|d| d.door == Door::Rtype).count();
        assert!(spam - spam_before <= 64);
        turns_with_spam += usize::from(spam > spam_before);
        if spam_before == 0 && spam > 0 {
            assert!(
                toy.datagrams.iter().any(|d| d.door == Door::Aegis),
                "served in the spammer's first turn"
            );
        }
        spam_before = spam;
        spam == 900
    });
    assert!(turns_with_spam >= 900 / 64);
}

/// More than the receive buffer holds: what the kernel dropped is counted once something comes after it.
fn what_the_kernel_drops_is_counted(backend: Backend) {
    let mut options = everything(backend, 1, 8);
    options.receive_buffer_bytes = Some(8192);
    let mut server = bind(&options);
    let mut toy = Toy::idle();
    let client = udp_client(&server, "aegis-udp");
    (0..500).for_each(|_| assert_eq!(client.send(b"too much").expect("sent"), 8));
    turn_until(&mut server, &mut toy, |_, toy| !toy.datagrams.is_empty());
    client.send(b"and another").expect("sent");
    turn_until(&mut server, &mut toy, |server, _| server.stats().doors[0].kernel_drops > 0);
    let stats = server.stats().doors[0];
    assert_eq!(stats.kernel_drops + stats.datagrams_in, 501);
}

/// The time of receipt is the kernel's, not that of the drain.
fn receive_times_do_not_include_the_wait_for_the_tick(backend: Backend) {
    let mut server = bind(&everything(backend, 1, 8));
    let mut toy = Toy::playing(server.clock().now(), LONG_TICK);
    let client = udp_client(&server, "aegis-udp");
    let before = server.clock().now();
    client.send(b"stamped").expect("sent");
    turn_until(&mut server, &mut toy, |_, toy| toy.datagrams.len() == 1);
    let datagram = toy.datagrams[0];
    // An adjustment of the wall clock while the datagram waits shifts its stamp a little; a second is no adjustment.
    assert!(datagram.at + Duration::from_millis(1) >= before, "{datagram:?}");
    assert!(datagram.at < datagram.now, "{datagram:?}");
}

/// An IPv4 peer of an IPv6 socket is an IPv4 peer, and is answered.
fn case_57_a_dual_stack_socket_has_ipv4_peers(backend: Backend) {
    let mut server = match Loop::bind(&everything_at(backend, "[::]:0", 4, 8)) {
        Ok(server) => server,
        Err(error) => return println!("skipped, no IPv6 here: {error}"),
    };
    let mut toy = Toy::idle();
    let port = address_of(&server, "aegis-udp").port();
    let v4 = UdpSocket::bind("127.0.0.1:0").expect("an IPv4 socket");
    v4.connect(("127.0.0.1", port)).expect("loopback");
    v4.send(b"four").expect("sent");
    let v6 = UdpSocket::bind("[::1]:0").and_then(|socket| socket.connect(("::1", port)).map(|()| socket));
    let clients: Vec<_> = std::iter::once(v4).chain(v6).collect();
    clients.iter().skip(1).for_each(|v6| assert_eq!(v6.send(b"sixsix").expect("sent"), 6));
    turn_until(&mut server, &mut toy, |server, _| {
        server.stats().doors[0].datagrams_out == clients.len() as u64
    });
    for (client, len) in clients.iter().zip([4, 6]) {
        let from = client.local_addr().expect("its address");
        assert!(
            toy.datagrams.iter().any(|d| d.from == from && d.len == len),
            "{from} in {:?}",
            toy.datagrams
        );
        assert_eq!(client.recv(&mut [0; 16]).expect("an echo"), len);
    }
    let tcp_port = address_of(&server, "aegis-tcp").port();
    let stream = std::net::TcpStream::connect(("127.0.0.1", tcp_port)).expect("loopback");
    turn_until(&mut server, &mut toy, |_, toy| !toy.streams.is_empty());
    let peer = stream.local_addr().expect("its address");
    assert_eq!(toy.streams[0], io_toy::StreamEvent::Opened(toy.opened()[0], peer));
}

fn a_taken_address_is_named(backend: Backend) {
    let server = bind(&everything(backend, 1, 1));
    for (name, is_tcp) in [("aegis-tcp", true), ("rtype-udp", false)] {
        let taken = address_of(&server, name);
        let mut options = IoOptions::new(1, 1);
        options.backend = backend;
        if is_tcp {
            options.aegis_tcp = Some(taken);
        } else {
            options.doors[Door::Rtype as usize] = Some(taken);
        }
        let error = Loop::bind(&options).expect_err("it is taken");
        assert!(
            matches!(error, BindError::Listen { listener, address, .. } if (listener, address) == (name, taken))
        );
        assert_eq!(error.to_string(), format!("cannot listen on {name} {taken}: address in use"));
    }
}
