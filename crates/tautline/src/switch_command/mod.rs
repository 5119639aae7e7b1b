//! `tautline switch`: ports as written, signals, and what is printed.
mod non_blocking_writer;
mod operator;
mod ports;

use anyhow::Context;
use switch::{Options, Switch, TableOptions, WorkerOptions};

use crate::cli;
use crate::exit::{Done, Usage};
use operator::Signals;

/// Runs a switch until it is told to end.
pub fn run(arguments: &cli::Switch) -> anyhow::Result<Done> {
    // All of it is understood before anything is touched.
    let ports = ports::read(arguments)?;
    let wires = arguments.wire.iter().map(|text| ports::pair(text)).collect::<Result<Vec<_>, _>>()?;
    let workers = ports::workers(arguments.cpus.as_deref())?;
    let options = Options {
        workers,
        worker: WorkerOptions { spin: arguments.spin, ..WorkerOptions::default() },
        table: TableOptions {
            addresses: arguments.mac_table_size,
            ageing_seconds: arguments.ageing.as_secs() as u32,
            max_moves: arguments.max_moves,
            ..TableOptions::default()
        },
        worker_deadline: arguments.worker_deadline,
        ..Options::default()
    };
    let usage = |error: switch::SetupError| Usage(error.to_string());
    let mut switch = Switch::new(options).map_err(usage)?;
    for port in ports {
        let built = port.spec.build().map_err(|error| Usage(error.to_string()))?;
        switch.add_port(port.name, built, port.options).map_err(usage)?;
    }
    for (one, other) in wires {
        switch.add_wire(&one, &other).map_err(usage)?;
    }
    raise_open_files();
    // A guest that shortens its memory file must not end the switch.
    let _guard = memory::TruncationGuard::install().context("catching SIGBUS")?;
    let mut operator = Signals::catch(arguments.json).context("catching signals")?;
    let ended = switch.run(&mut operator);
    let shown = operator.finish(&ended.snapshot);
    ended.result?;
    shown?;
    Ok(Done::Whole)
}

/// Guests bring descriptors along, and the usual soft limit of 1024 is for programs that use `select`.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Refused or not, the switch goes on with what there is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
