//! `tautline switch`: ports as written, signals, and what is printed.
mod configuration;
mod configuration_file;
mod control_socket;
mod hand_over_format;
mod metrics;
mod non_blocking_writer;
mod operator;
mod policing;
mod ports;
mod readiness;
mod sandbox;
mod signals;
mod take_over;
mod watch;

use anyhow::Context;
use switch::{Options, Switch, TableOptions, WorkerOptions};

use crate::cli;
use crate::exit::{Done, Usage};
use crate::output::Sink;
use configuration::Configured;
use control_socket::ControlSocket;
use metrics::Metrics;
use operator::Management;
use ports::PortDefaults;
use signals::Signals;
use take_over::TakeOver;

/// Runs a switch until it is told to end.
pub fn run(arguments: &cli::Switch) -> anyhow::Result<Done> {
    // All of it is understood before anything is touched.
    let sink = Sink::open(&arguments.results_to)?;
    let written = arguments.config.as_deref().map(configuration::read).transpose()?;
    let take_over = arguments.take_over.clone();
    let control =
        arguments.control.clone().or_else(|| written.as_ref()?.control.clone()).or(take_over.clone());
    let metrics = arguments.metrics.or_else(|| written.as_ref()?.metrics);
    let configured = arguments.config.clone().zip(written.clone());
    let configured = configured.map(|(path, written)| Configured::new(path, written)).transpose()?;
    let arguments = written.as_ref().unwrap_or(arguments);
    let switch = build(arguments, control.is_some())?;
    raise_open_files();
    // A guest that shortens its memory file must not end the switch.
    let _guard = memory::TruncationGuard::install().context("catching SIGBUS")?;
    let signals = Signals::catch(&sink, configured.is_some()).context("catching signals")?;
    let mut operator = Management::new(signals, configured).context("watching signals")?;
    let defaults = PortDefaults { cache_policy: arguments.cache_policy, max_frame: arguments.max_frame };
    if let Some(path) = &take_over {
        let same = control.as_ref() == Some(path);
        operator.take_over(TakeOver::new(path.clone()), same.then_some(defaults));
    }
    if let Some(path) = control.filter(|path| Some(path) != take_over.as_ref()) {
        let opened = operator.serve(|epoll| ControlSocket::open(&path, epoll, defaults));
        let what = "listening for tautline ctl at";
        let remedy = "give --control a path that you may create and that nobody else listens on";
        opened.with_context(|| format!("{what} {}; {remedy}", path.display()))?;
    }
    if let Some(address) = metrics {
        let opened = operator.show_metrics(|epoll| Metrics::open(address, epoll));
        let remedy = "give --metrics an address of this machine and a free port";
        opened.with_context(|| format!("listening for Prometheus at {address}; {remedy}"))?;
    }
    if let Some(missing) = sandbox::prepare() {
        operator.log_line(&missing);
    }
    let ended = switch.run(&mut operator);
    let shown = operator.finish(&ended.snapshot);
    ended.result?;
    shown?;
    if operator.is_interrupted() {
        return Err(linux::interrupt::Interrupted.into());
    }
    Ok(Done::Whole)
}

/// The switch as it is written.
fn build(arguments: &cli::Switch, watch_activity: bool) -> anyhow::Result<Switch> {
    let ports = ports::read(arguments)?;
    let wires = arguments.wire.iter().map(|text| ports::pair(text)).collect::<Result<Vec<_>, _>>()?;
    let workers = ports::workers(arguments.cpus.as_deref())?;
    let options = Options {
        workers,
        worker: WorkerOptions {
            spin: arguments.spin,
            confine: sandbox::confine_worker,
            ..WorkerOptions::default()
        },
        table: TableOptions {
            addresses: arguments.mac_table_size,
            ageing_seconds: arguments.ageing.as_secs() as u32,
            max_moves: arguments.max_moves,
            ..TableOptions::default()
        },
        worker_deadline: arguments.worker_deadline,
        watch_activity,
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
    Ok(switch)
}

/// Guests bring descriptors along, and the usual soft limit of 1024 is for programs that use `select`.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Refused or not, the switch goes on with what there is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
