//! The loop allocates nothing after `bind`: its thread is sealed while clients on another thread connect, send, get
//! refused, and go. An allocation would abort this test's process.

#[macro_use]
mod io_toy;

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::thread;

use io_toy::{Toy, address_of, bind, everything, udp_client};
use tickwire::heap::{self, Heap, OnAlloc};
use tickwire::io::{Backend, Wake};
use tickwire::time::Duration;

#[global_allocator]
static HEAP: Heap = Heap;

const ROUNDS: usize = 20;

over_each_backend! {
    the_loop_allocates_nothing,
}

fn the_loop_allocates_nothing(backend: Backend) {
    heap::install_panic_hook();
    for (wake, is_played) in [(Wake::Tick, true), (Wake::Tick, false), (Wake::Event, true)] {
        let mut options = everything(backend, 2, 64);
        options.wake = wake;
        options.signals = true;
        let mut server = bind(&options);
        let mut toy = Toy::idle();
        if is_played {
            toy.play(server.clock().now(), Duration::from_millis(5));
        }
        let udp = ["aegis-udp", "rtype-udp", "fignet-udp"].map(|name| udp_client(&server, name));
        let tcp = address_of(&server, "aegis-tcp");
        let stop = server.stop_handle();
        let clients = thread::spawn(move || {
            for _ in 0..ROUNDS {
                play(&udp, || TcpStream::connect(tcp).expect("loopback"));
            }
            stop.stop().expect("the loop is told");
        });

        let before = heap::thread_allocations();
        heap::seal(OnAlloc::Abort);
        let result = server.run(&mut toy, |_, _| false);
        heap::unseal();
        assert_eq!(heap::thread_allocations(), before);
        result.expect("stopped, not failed");
        clients.join().expect("the clients are done");

        let stats = server.stats();
        assert_eq!(stats.doors.map(|door| door.datagrams_out), [20 * ROUNDS as u64; 3], "{stats:?}");
        assert!(stats.streams.bytes_in > 0 && stats.streams.bytes_out > 0, "{stats:?}");
    }
}

/// A round of everything: datagrams to each door and back, and more streams than there are slots.
fn play(udp: &[UdpSocket], connect: impl Fn() -> TcpStream) {
    for socket in udp {
        (0..20).for_each(|_| assert_eq!(socket.send(b"datagram").expect("sent"), 8));
        (0..20).for_each(|_| assert_eq!(socket.recv(&mut [0; 16]).expect("an echo"), 8));
    }
    let mut streams = [(); 4].map(|()| connect());
    for (stream, words) in streams.iter_mut().zip([b"echo", b"xyzw", b"cloz", b"echo"]) {
        stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).expect("a timeout");
        // The ones that found no slot fail at either step; `xyzw` gets no answer but to its close.
        if stream.write_all(words).is_ok() {
            if words == b"xyzw" {
                stream.shutdown(std::net::Shutdown::Write).ok();
            }
            let answered = stream.read(&mut [0; 16]);
            assert!(answered.is_err() || answered.is_ok_and(|len| len <= 4), "no more than was sent");
        }
    }
}
