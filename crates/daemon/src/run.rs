//! A switch from its settings to its end.
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use flow_tables::Tables;
use port::PortError;
use port::spec::Kind;
use switch::{Options, SetupError, Switch, TableOptions, WorkerOptions};

use crate::bridges::{Bridges, OWN, SwitchBridge};
use crate::companion::{Companion, Ending};
use crate::configured::{self, Configured};
use crate::control_socket::{ControlSocket, KnownPorts};
use crate::error::{Error, Invalid};
use crate::flows;
use crate::metrics::Metrics;
use crate::operator::Management;
use crate::ports::{self, NamedSpec, PortDefaults};
use crate::sandbox;
use crate::settings::Settings;
use crate::signals::{Counters, Signals};
use crate::take_over::TakeOver;

/// A switch as a service.
#[derive(Clone, Debug, Default)]
pub struct Service {
    /// The switch and its ports.
    pub settings: Settings,
    /// The file that the settings were read from, which SIGHUP has read again.
    pub config: Option<PathBuf>,
    /// The path of the control socket, in place of what the settings say.
    pub control: Option<PathBuf>,
    /// The address of the metrics, in place of what the settings say.
    pub metrics: Option<SocketAddr>,
    /// The control socket of a running switch to take over from.
    pub take_over: Option<PathBuf>,
    /// The destinations of the counters.
    pub counters: Counters,
    /// Kinds of port beside those of the crate `port`.
    pub kinds: &'static [Kind],
}

impl Service {
    /// The error for a port's mistake, with the option or file that contains it.
    fn wrong_port(&self, name: &str, why: &dyn Display) -> Invalid {
        match &self.config {
            Some(path) => configured::wrong_port(path, name, why),
            None => Invalid(format!("--port {name}: {why}")),
        }
    }
}

/// Runs a switch until a signal, or a process that takes over, ends it; the companions beside it.
///
/// # Errors
/// The settings are wrong, the system refused something at the start, or the switch could not go on.
pub fn run(service: &Service, companions: Vec<Companion>) -> Result<(), Error> {
    // Every setting is parsed before anything on the host is changed.
    let settings = &service.settings;
    let take_over = service.take_over.clone();
    let control = service.control.clone().or_else(|| settings.control.clone()).or(take_over.clone());
    let read = || ports::read_all(settings, service.kinds, |name, why| service.wrong_port(name, why));
    let configured = match &service.config {
        Some(path) => Some(Configured::new(path.clone(), settings.clone(), service.kinds, read()?)?),
        None => None,
    };
    let policy = match &settings.policy {
        Some(path) => Some(flows::of_policy(path, settings, &read()?)?),
        None => None,
    };
    let mut bridge = match (&settings.flows, &policy) {
        (_, Some(policy)) => policy.bridge()?,
        (Some(path), None) => flows::read(path)?,
        (None, None) => SwitchBridge::of_switch(OWN),
    };
    let has_flows = settings.flows.is_some() || policy.is_some();
    let tables = has_flows.then(|| bridge.tables());
    let switch = build(service, read()?, tables, control.is_some())?;
    raise_open_files();
    // A guest that shortens its memory file must not end the switch.
    let _guard = memory::TruncationGuard::install()
        .map_err(Error::system("catching SIGBUS", "see that the system lets this process handle signals"))?;
    let signals = Signals::catch(&service.counters, configured.is_some() || policy.is_some()).map_err(
        Error::system(
            "catching signals",
            "raise the open-files limit (ulimit -n), and name a file that may be written with --output",
        ),
    )?;
    let mut operator = Management::new(signals, configured, policy, Bridges::of_switch(bridge))
        .map_err(Error::system("watching signals", "raise the open-files limit (ulimit -n)"))?;
    // The ports of a configuration file belong to the file.
    let (known, wires) = match &service.config {
        Some(_) => (Vec::new(), &[][..]),
        None => (read()?, &settings.wires[..]),
    };
    let known = KnownPorts::new(PortDefaults::of(settings, service.kinds), known, wires);
    let (inherits, opens) = match control {
        same if take_over.is_some() && same == take_over => (Some(known), None),
        other => (None, other.map(|path| (path, known))),
    };
    if let Some(path) = take_over {
        operator.take_over(TakeOver::new(path), inherits);
    }
    if let Some((path, known)) = opens {
        let opened = operator.serve(|epoll| ControlSocket::open(&path, epoll, known));
        let remedy = "give --control a path that you may create and that no other process listens on";
        opened.map_err(Error::system(format!("listening for tautline ctl at {}", path.display()), remedy))?;
    }
    if let Some(path) = &settings.openflow {
        let takes_over = service.take_over.is_some();
        let opened = operator.serve_controllers(path.clone(), takes_over);
        let remedy = "give --openflow a path that you may create and that no other process listens on";
        opened.map_err(Error::system(format!("listening for controllers at {}", path.display()), remedy))?;
    }
    if let Some(address) = service.metrics.or(settings.metrics) {
        let opened = operator.show_metrics(|epoll| Metrics::open(address, epoll));
        let remedy = "give --metrics an address of this machine and a free port";
        opened.map_err(Error::system(format!("listening for Prometheus at {address}"), remedy))?;
    }
    if let Some(missing) = sandbox::prepare() {
        operator.log_line(&missing);
    }
    let started = companions.into_iter().map(|companion| companion.start(operator.logger()));
    let _endings: Vec<Ending> = started
        .collect::<Result<_, _>>()
        .map_err(Error::system("starting a thread", "raise the limit of threads (ulimit -u)"))?;
    let ended = switch.run(&mut operator);
    let shown = operator.finish(&ended.snapshot);
    ended.result?;
    shown.map_err(Error::Counters)?;
    match operator.is_interrupted() {
        true => Err(linux::interrupt::Interrupted.into()),
        false => Ok(()),
    }
}

/// The switch as the settings describe it.
fn build(
    service: &Service,
    ports: Vec<NamedSpec>,
    flows: Option<Arc<Tables>>,
    watch_activity: bool,
) -> Result<Switch, Invalid> {
    let settings = &service.settings;
    let options = Options {
        workers: settings.cpus.as_ref().map_or(vec![None], |cpus| cpus.iter().copied().map(Some).collect()),
        worker: WorkerOptions {
            spin: settings.spin,
            confine: sandbox::confine_worker,
            ..WorkerOptions::default()
        },
        table: TableOptions {
            addresses: settings.mac_table_size,
            ageing_seconds: settings.ageing.as_secs() as u32,
            max_moves: settings.max_moves,
            ..TableOptions::default()
        },
        worker_deadline: settings.worker_deadline,
        watch_activity,
        flows,
        ..Options::default()
    };
    let invalid = |error: SetupError| Invalid(error.to_string());
    let mut switch = Switch::new(options).map_err(invalid)?;
    for port in ports {
        let wrong = |error: PortError| service.wrong_port(&port.name, &error);
        let built = port.spec.build().map_err(wrong)?;
        switch.add_port(port.name, built, port.options).map_err(invalid)?;
    }
    for (one, other) in &settings.wires {
        switch.add_wire(one, other).map_err(invalid)?;
    }
    Ok(switch)
}

/// Guests bring descriptors along, and the usual soft limit of 1024 is for programs that use `select`.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // If the limit is refused, the switch continues with the present one.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
