//! `tickwire serve`.

use std::io::Write as _;
use std::process::ExitCode;

use log::{info, warn};

use tickwire::config::{Effective, Options};
use tickwire::wire::fignet::PROTOCOL_ID_DEFAULT;
use tickwire::{heap, io, logger};

use crate::assemble::{Assembled, assemble};
use crate::report;

/// Serves as `effective` says, until a signal.
pub fn run(effective: &Effective) -> ExitCode {
    let options = &effective.options;
    if let Err(error) = logger::init(options.log) {
        report(error);
        return ExitCode::FAILURE;
    }
    warn_unserved(options);
    // Before any thread and any socket: a signal during start is told by the first turn.
    if let Err(error) = io::block_signals() {
        report(format_args!("cannot take signals: {error}"));
        return ExitCode::FAILURE;
    }
    // Before memory is taken: it comes from near the processor that first writes to it.
    if let Some(cpu) = options.pin
        && let Err(error) = io::pin_thread(cpu)
    {
        report(format_args!("--pin: cannot stay on processor {cpu}: {error}"));
        return ExitCode::FAILURE;
    }
    if options.priority > 0
        && let Err(error) = io::raise_priority(options.priority)
    {
        report(format_args!("--priority: cannot raise it by {}: {error}", options.priority));
        return ExitCode::FAILURE;
    }
    let mut assembled = match assemble(options) {
        Ok(assembled) => assembled,
        Err(what) => {
            report(what);
            return ExitCode::FAILURE;
        }
    };
    info!(
        "{} rooms of level {}, a snapshot every {} ticks, over {}",
        options.rooms,
        options.level.word(),
        options.snapshot_interval,
        assembled.io.backend()
    );
    announce(&assembled);
    if options.verify {
        heap::install_panic_hook();
        heap::seal(heap::OnAlloc::Abort);
    }
    let end = serve(&mut assembled);
    heap::unseal();
    match end {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(format_args!("the loop failed: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Says which doors were asked for in vain, and which should not be left as they are.
fn warn_unserved(options: &Options) {
    if options.admin.is_some() {
        eprintln!("warning: --admin: administration is not yet served");
    }
    if let Some(address) = options.fignet_udp
        && options.fignet_protocol_id == PROTOCOL_ID_DEFAULT
        && !address.ip().to_canonical().is_loopback()
    {
        warn!("--fignet-protocol-id is the one that everybody knows: choose your own for a public address");
    }
}

/// Tells standard output where it listens, for people and for scripts that wait for `ready`.
fn announce(assembled: &Assembled) {
    let mut stdout = std::io::stdout().lock();
    for (name, address) in assembled.io.local_addrs() {
        let _ = writeln!(stdout, "listening {name} {address}");
    }
    let _ = writeln!(stdout, "ready");
    let _ = stdout.flush();
}

/// Runs the loop until the first signal, then says goodbye to everyone. A second signal ends that at once.
fn serve(assembled: &mut Assembled) -> std::io::Result<()> {
    let Assembled { io, server, .. } = assembled;
    let mut signals = 0;
    while signals == 0 {
        signals += io.run_turn(server)?.signals;
    }
    info!("stopping: {} sessions", server.pools().sessions);
    server.shut_down(io.clock().now());
    // Everything is said once nothing waits to be sent and no stream is open: each is closed when its peer took the
    // last bytes, or when it lingers too long.
    while signals < 2 && (server.pools().ready > 0 || io.streams_len() > 0) {
        signals += io.run_turn(server)?.signals;
    }
    if signals > 1 {
        info!("a second signal: not waiting any more, connections open: {}", io.streams_len());
    }
    let stats = server.stats();
    info!(
        "stopped after {} ticks ({} late, {} dropped), {} datagrams in, {} out",
        stats.ticks, stats.late_ticks, stats.dropped_ticks, stats.datagrams_in, stats.datagrams_out
    );
    // For programs: tools/swarm reads this line (docs/operations.md).
    info!(
        "ticks {} late {} dropped {} work_p999_us {}",
        stats.ticks,
        stats.late_ticks,
        stats.dropped_ticks,
        io.tick_work().quantile_us(999)
    );
    Ok(())
}
