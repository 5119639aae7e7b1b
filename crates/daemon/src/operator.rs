//! The switch's operator: signals, the control socket, the configuration file.
use std::fmt::Display;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use control::protocol::FlowsChange;
use rustix::event::{Timespec, epoll};
use switch::{Operator, PortEvent, Snapshot, View};

use crate::bridges::{Bridges, FlowsRequest, OWN, What};
use crate::configured::Configured;
use crate::control_socket::{ControlSocket, KnownPorts};
use crate::flows::PolicyFile;
use crate::metrics::Metrics;
use crate::readiness;
use crate::signals::{Signals, Told};
use crate::take_over::{Inherited, TakeOver};
use crate::watch::watch;

/// Keys in the epoll set: of signals, and of the configuration file after it was read again. The control socket and
/// metrics have the other keys.
const SIGNALS: u64 = 0;
const CONFIGURATION: u64 = u64::MAX;

/// The most events that are handled before the ports get their turn again.
const EVENTS: usize = 16;

pub struct Management {
    epoll: OwnedFd,
    signals: Signals,
    socket: Option<ControlSocket>,
    metrics: Option<Metrics>,
    configured: Option<Configured>,
    policy: Option<PolicyFile>,
    bridges: Bridges,
    /// The path at which controllers are served once this switch has taken over.
    openflow: Option<PathBuf>,
    /// The running switch to take over from, and the ports of its control socket if that is taken over too.
    take_over: Option<(TakeOver, Option<KnownPorts>)>,
    /// How long no frame moved during the take-over.
    stood_still: Option<Duration>,
}

impl Management {
    /// An operator by signals, and by the configuration file and the policy if there are some.
    ///
    /// # Errors
    /// The kernel refuses an epoll set, or to watch a descriptor in it.
    pub fn new(
        signals: Signals,
        configured: Option<Configured>,
        policy: Option<PolicyFile>,
        bridges: Bridges,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        watch(&epoll, signals.wake_fd(), SIGNALS, epoll::EventFlags::IN)?;
        if let Some(configured) = &configured {
            watch(&epoll, configured.wake_fd(), CONFIGURATION, epoll::EventFlags::IN)?;
        }
        let mut bridges = bridges;
        bridges.watch(&epoll)?;
        Ok(Management {
            epoll,
            signals,
            socket: None,
            metrics: None,
            configured,
            policy,
            bridges,
            openflow: None,
            take_over: None,
            stood_still: None,
        })
    }

    /// Serves a control socket too.
    ///
    /// # Errors
    /// `open` returns an error, as [`ControlSocket::open`] does.
    pub fn serve(&mut self, open: impl FnOnce(&OwnedFd) -> io::Result<ControlSocket>) -> io::Result<()> {
        self.socket = Some(open(&self.epoll)?);
        Ok(())
    }

    /// Serves metrics too.
    ///
    /// # Errors
    /// `open` returns an error, as [`Metrics::open`] does.
    pub fn show_metrics(&mut self, open: impl FnOnce(&OwnedFd) -> io::Result<Metrics>) -> io::Result<()> {
        self.metrics = Some(open(&self.epoll)?);
        Ok(())
    }

    /// Serves controllers of the switch's bridge at this path. A switch that takes over listens there only after it has
    /// taken over.
    ///
    /// # Errors
    /// The causes of [`Bridges::listen`].
    pub fn serve_controllers(&mut self, path: PathBuf, takes_over: bool) -> io::Result<()> {
        if takes_over {
            self.openflow = Some(path);
            return Ok(());
        }
        self.bridges.listen(OWN, &path, &self.epoll)
    }

    /// Takes over from a running switch; with `control`, its control socket too.
    pub fn take_over(&mut self, take_over: TakeOver, control: Option<KnownPorts>) {
        self.take_over = Some((take_over, control));
    }

    /// Logs a line.
    pub fn log_line(&self, line: &str) {
        self.signals.log(&format!("tautline: {line}"));
    }

    /// Returns a function that logs a line from any thread.
    pub fn logger(&self) -> impl Fn(&str) + Send + 'static {
        let log = self.signals.logger();
        move |line| log(&format!("tautline: {line}"))
    }

    pub fn is_interrupted(&self) -> bool {
        self.signals.is_interrupted()
    }

    /// Ends captures, writes the last snapshot, and waits until all output is written, as long as a reader reads it.
    ///
    /// # Errors
    /// A counter or snapshot could not be written to the standard output or the file of `--output`.
    pub fn finish(&self, last: &Snapshot) -> io::Result<()> {
        self.socket.iter().for_each(ControlSocket::finish);
        self.signals.finish(last)
    }

    /// Reads the policy again. A wrong one changes nothing.
    fn reload_policy(&mut self, switch: &mut View<'_>) {
        let Some(policy) = &self.policy else { return };
        let changed = policy.flows().and_then(|text| {
            let what = What::Change(FlowsChange::Replace, text);
            self.bridges
                .request(FlowsRequest { bridge: None, what }, switch)
                .map_err(|why| policy.wrong(&why))
        });
        match changed {
            Ok(_) => self.log_line("the policy was read again"),
            Err(why) => self.log_line(&format!("{why}; nothing is changed")),
        }
    }

    fn begin_reload(&mut self) {
        let Some(configured) = &mut self.configured else { return };
        readiness::reloading();
        if let Some(line) = configured.begin_reload() {
            self.signals.log(&line);
            readiness::ready();
        }
    }

    fn reload(&mut self, switch: &mut View<'_>) {
        let Some(lines) = self.configured.as_mut().and_then(|configured| configured.reload(switch)) else {
            return;
        };
        lines.iter().for_each(|line| self.signals.log(line));
        readiness::ready();
    }
}

impl Operator for Management {
    fn wake_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn handle_wake(&mut self, switch: &mut View<'_>) -> ControlFlow<()> {
        let mut events = Vec::with_capacity(EVENTS);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // The set is level-triggered: events that are not read now come again.
        let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&now));
        for key in events.iter().map(|event| event.data.u64()) {
            if key == CONFIGURATION {
                self.reload(switch);
                continue;
            }
            if Bridges::has(key) {
                self.bridges.ready(key, &self.epoll, switch);
                continue;
            }
            if Metrics::has(key) {
                if let Some(metrics) = &mut self.metrics {
                    metrics.ready(key, &self.epoll, switch);
                }
                continue;
            }
            match &mut self.socket {
                Some(socket) if ControlSocket::has(key) => {
                    socket.ready(key, &self.epoll, &mut self.bridges, switch);
                    if let Some(configured) = &mut self.configured {
                        socket.removed().iter().for_each(|name| configured.forget(name));
                    }
                    if let Some(why) = socket.has_not_handed_over() {
                        self.signals.log(&format!("tautline: another process was to take over: {why}"));
                    }
                    if socket.has_handed_over() {
                        self.log_line("another process has taken over; its front-ends notice nothing");
                        return ControlFlow::Break(());
                    }
                }
                _ => match self.signals.take(switch) {
                    Told::Nothing => {}
                    Told::Reload => {
                        self.reload_policy(switch);
                        self.begin_reload();
                    }
                    Told::End => {
                        readiness::stopping();
                        return ControlFlow::Break(());
                    }
                },
            }
        }
        ControlFlow::Continue(())
    }

    fn takes_over(&self) -> bool {
        self.take_over.is_some()
    }

    fn inherit(&mut self) -> Result<Option<switch::Inherited>, String> {
        let Some((take_over, control)) = &mut self.take_over else { return Ok(None) };
        let Inherited { state, control: socket, owned } = take_over.ask()?;
        if let (Some(socket), Some(ports)) = (socket, control.take()) {
            let opened = ControlSocket::take_over(socket, take_over.path(), &self.epoll, ports);
            self.socket = Some(opened.map_err(|error| format!("the control socket: {error}"))?);
        }
        let tables = self.bridges.inherit(owned.bridges)?;
        let added = match &mut self.socket {
            Some(socket) => socket.inherit(owned.ports)?,
            None => Vec::new(),
        };
        Ok(Some(switch::Inherited { state, added, tables }))
    }

    fn take_charge(&mut self) -> Result<(), String> {
        let Some((mut take_over, _)) = self.take_over.take() else { return Ok(()) };
        self.stood_still = Some(take_over.take_charge()?);
        if let Some(socket) = &mut self.socket {
            socket.keep_path();
        }
        Ok(())
    }

    fn started(&mut self, switch: &mut View<'_>) {
        self.bridges.serve_inherited(&self.epoll, switch);
        if let Some(path) = self.openflow.take()
            && let Err(error) = self.bridges.listen_in_place(OWN, &path, &self.epoll)
        {
            self.log_line(&format!("listening for controllers at {}: {error}", path.display()));
        }
        if let Some(time) = self.stood_still.take() {
            // The previous switch reports this too, unless it is of a former version.
            readiness::main_process(rustix::process::getpid());
            self.log_line(&format!("taken over; no frame moved for {:.3} ms", time.as_secs_f64() * 1e3));
        }
        readiness::ready();
    }

    fn port_event(&mut self, port: &str, event: PortEvent) {
        self.bridges.ports_changed();
        if let Some(socket) = &mut self.socket {
            socket.publish(port, event, &self.epoll);
        }
    }

    fn raised(&mut self, switch: &mut View<'_>) {
        self.bridges.raised(&self.epoll, switch);
    }

    fn log(&mut self, port: &str, message: &dyn Display) {
        self.signals.log(&format!("{port}: {message}"));
    }
}
