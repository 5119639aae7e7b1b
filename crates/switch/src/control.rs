//! The control thread: ports' descriptors and timers, workers' reports, the operator.
use std::fmt::Display;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use frame::{QueueError, Side};
use port::{Interest, Port, PortContext, PortError};
use virtio::net::MacAddress;

use crate::activity::Activity;
use crate::bonds::Bonds;
use crate::context::{Attachments, SwitchContext};
use crate::copies::{Copied, CopiesId};
use crate::error::ChangeError;
use crate::mirror::Mirrored;
use crate::panicked::Panicked;
use crate::poller::Poller;
use crate::port_entry::PortEntry;
use crate::port_event::PortEvent;
use crate::programs::{own_addresses, programs};
use crate::queue_plan::QueuePlan;
use crate::setup::Ended;
use crate::suspects::Suspects;
use crate::switch_state::{Inherited, SwitchState};
use crate::tables::Tables;
use crate::worker::panic_message;
use crate::worker_event::{Event, Replaced};
use crate::worker_options::Common;
use crate::worker_pool::{WorkerPool, system};
use crate::{PortId, PortOptions, PortSnapshot, RingReport, RunError, Snapshot, Switch, incident};

/// The program that controls a switch, for example by signals, a control socket or a terminal.
pub trait Operator {
    /// Readable when [`Operator::handle_wake`] has something to do. Stays the same while the switch runs.
    fn wake_fd(&self) -> BorrowedFd<'_>;

    /// Called when [`Operator::wake_fd`] is readable; must clear it. `Break` ends the switch.
    fn handle_wake(&mut self, switch: &mut View<'_>) -> ControlFlow<()>;

    /// Whether this switch takes over from a running one.
    fn takes_over(&self) -> bool {
        false
    }

    /// The state of the other switch, which stands still from now on. Called once the workers wait for frames.
    ///
    /// # Errors
    /// The other switch cannot be taken over; the text says why. This switch ends.
    fn inherit(&mut self) -> Result<Option<Inherited>, String> {
        Ok(None)
    }

    /// Called when this switch has all ports of the other one and no frame has moved yet. After success the other
    /// switch must not continue.
    ///
    /// # Errors
    /// The other switch has continued or cannot be reached; the text says why. This switch ends.
    fn take_charge(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Called when all ports have started.
    fn started(&mut self, _switch: &mut View<'_>) {}

    /// Logs an event of a port, or of a worker by its name.
    fn log(&mut self, port: &str, message: &dyn Display);

    /// Called when something has happened to a port.
    fn port_event(&mut self, _port: &str, _event: PortEvent) {}

    /// Called when frames wait for controllers, or flows are to be learned: [`View::take_raised`].
    fn raised(&mut self, switch: &mut View<'_>) {
        drop(switch.take_raised(usize::MAX));
    }
}

/// A running switch.
pub struct View<'a> {
    pub(crate) control: &'a mut Control,
}

impl View<'_> {
    /// Counters and states of the whole switch.
    pub fn snapshot(&self) -> Snapshot {
        self.control.snapshot(None)
    }

    /// The state of each queue. A worker is kept from a queue no longer than by another worker.
    pub fn rings(&self) -> Vec<RingReport> {
        self.control.rings()
    }

    /// Adds a port that learns addresses, and starts it.
    ///
    /// # Errors
    /// The name is taken, [`crate::MAX_PORTS`] ports or [`crate::MAX_NETWORKS`] networks are there, or the port cannot
    /// start; it is not there afterwards.
    pub fn add_port(
        &mut self,
        name: &str,
        port: Box<dyn Port>,
        options: PortOptions,
    ) -> Result<(), ChangeError> {
        self.control.add_port(name, port, options)
    }

    /// Ends a port and removes it.
    ///
    /// # Errors
    /// No port has this name, or the port is an end of a wire or of a mirror. Or the port panicked and was the
    /// last one; the switch ends.
    pub fn remove_port(&mut self, name: &str) -> Result<(), ChangeError> {
        self.control.remove_port(name)
    }

    /// Replaces the limits of a port.
    ///
    /// # Errors
    /// No port has this name, [`crate::MAX_NETWORKS`] networks are there and the port is to be in another one, or another
    /// port has the OpenFlow number.
    pub fn set_port_options(&mut self, name: &str, options: PortOptions) -> Result<(), ChangeError> {
        self.control.set_port_options(name, options)
    }

    /// Connects two ports by a wire: each frame from one goes to the other, whatever its addresses.
    ///
    /// # Errors
    /// No port has one of the names, both names are the same, or a port is an end of another wire or of a mirror.
    pub fn add_wire(&mut self, a: &str, b: &str) -> Result<(), ChangeError> {
        self.control.add_wire(a, b)
    }

    /// Removes the wire between two ports; both learn addresses from now on.
    ///
    /// # Errors
    /// No port has one of the names, or there is no wire between them.
    pub fn remove_wire(&mut self, a: &str, b: &str) -> Result<(), ChangeError> {
        self.control.remove_wire(a, b)
    }

    /// Stops all ports and returns the state from which another process continues. After this, only
    /// [`View::resume`] or ending the switch is allowed.
    ///
    /// # Errors
    /// A port cannot hand over its state; the switch has resumed then. Or no port is left after a panic, and the
    /// switch ends.
    pub fn stand_still(&mut self) -> Result<SwitchState, ChangeError> {
        self.control.stand_still()
    }

    /// Continues after [`View::stand_still`], because the other process did not.
    ///
    /// # Errors
    /// No port can continue, and the switch ends.
    pub fn resume(&mut self) -> Result<(), ChangeError> {
        self.control.resume()
    }

    /// Copies all frames that pass a port, in both directions, also of queues that are attached later.
    ///
    /// # Errors
    /// No port has this name, the memory for copies cannot be made, or a worker does not release a queue in time.
    pub fn copy_port(&mut self, name: &str) -> Result<(CopiesId, Receiver<Copied>), ChangeError> {
        self.control.copy_port(name)
    }

    /// Ends the copies `id` of [`View::copy_port`].
    pub fn end_copies(&mut self, id: CopiesId) {
        self.control.end_copies(id);
    }

    /// Copies the frames that port `from` sends and receives, or one direction of them, to port `to`, which carries no
    /// traffic but that of mirrors from now on.
    ///
    /// # Errors
    /// A name is unknown; `to` is an end of a wire; `from` and `to` are the same; another mirror observes `to`; or
    /// `from` has a mirror already or is the target of a mirror. Or the mirror's port cannot be added, or the memory
    /// for copies cannot be made.
    pub fn mirror(&mut self, from: &str, to: &str, only: Option<Side>) -> Result<(), ChangeError> {
        self.control.mirror(from, to, only)
    }
}

/// Keys of the control thread's own descriptors.
const OPERATOR: u64 = 0;
const WORKERS: u64 = 1;

/// Seconds between two sweeps of the table.
const SWEEP_SECONDS: u32 = 16;

pub(crate) struct Control {
    pub entries: Vec<PortEntry>,
    pub attachments: Attachments,
    pub mirrors: Vec<Mirrored>,
    pub bonds: Bonds,
    /// The value of [`Options::forward_link_local`](crate::Options::forward_link_local), and the number of
    /// workers.
    pub link_local: bool,
    pub workers: usize,
    /// Why the switch cannot continue, as a request of the operator found.
    pub fatal: Option<RunError>,
    /// Log lines, each with its port, that are not passed on yet.
    logged: Vec<(String, String)>,
    /// Events, each with its port, that are not passed on yet.
    pub events: Vec<(String, PortEvent)>,
    pub activity: Activity,
    suspects: Suspects,
    started: Instant,
    swept: u32,
    pub carriers_seen: u32,
    /// While the switch stands still: ports that another process cannot continue, and the port of each station.
    pub ended_for_now: Vec<usize>,
    pub stations: Vec<(u16, MacAddress, String)>,
}

impl Switch {
    /// Runs on this thread until the operator ends it or it cannot go on.
    pub fn run(self, operator: &mut dyn Operator) -> Ended {
        let mut control = match Control::new(self, operator) {
            Ok(control) => control,
            Err(error) => return Ended { snapshot: Snapshot::default(), result: Err(error) },
        };
        let result = control.run(operator);
        control.pass_on_logs(operator);
        let descriptions = control.descriptions();
        let ended = control.end();
        control.pass_on_logs(operator);
        let snapshot = control.snapshot(Some(&descriptions));
        Ended { snapshot, result: result.and(ended) }
    }
}

impl Control {
    fn new(switch: Switch, operator: &dyn Operator) -> Result<Self, RunError> {
        let Switch { options, ports } = switch;
        let forwarding: Vec<_> = ports.iter().map(|port| Some(&port.forwarding)).collect();
        let bonds = Bonds::new(&forwarding, |_| false, &Bonds::default());
        let tables = Tables::new(options.table, own_addresses(&forwarding, &bonds));
        let common = Arc::new(Common::new(tables, options.worker, options.flows));
        let link_local = options.forward_link_local;
        let programs = programs(&forwarding, &common.tables, link_local, &common.flows(), &bonds);
        let pairs: Vec<u16> = ports.iter().map(|port| port.port.queue_pairs()).collect();
        let plan = QueuePlan::new(options.workers.len(), &programs, &pairs);
        let poller = Poller::new().map_err(system("making an epoll set"))?;
        let pool =
            WorkerPool::start(&options.workers, &common, Arc::clone(&programs), options.worker_deadline)?;
        for (fd, key) in [(operator.wake_fd(), OPERATOR), (pool.waker().as_fd(), WORKERS)] {
            poller.add(fd, key, Interest::Readable).map_err(system("adding a waker to the epoll set"))?;
        }
        let entries = ports.into_iter().map(PortEntry::from);
        Ok(Control {
            entries: entries.collect(),
            attachments: Attachments::new(pool, common, programs, poller, plan),
            mirrors: Vec::new(),
            bonds,
            link_local,
            workers: options.workers.len(),
            fatal: None,
            logged: Vec::new(),
            events: Vec::new(),
            activity: Activity::new(options.watch_activity),
            suspects: Suspects::default(),
            started: Instant::now(),
            swept: 0,
            carriers_seen: 0,
            ended_for_now: Vec::new(),
            stations: Vec::new(),
        })
    }

    fn run(&mut self, operator: &mut dyn Operator) -> Result<(), RunError> {
        self.start_ports(operator)?;
        self.attachments.open();
        operator.started(&mut View { control: self });
        loop {
            self.attachments.pool.watch();
            self.read_reports()?;
            let now = self.tick();
            self.attachments.end_rests(now).map_err(system("watching a port's descriptors again"))?;
            while let Some((port, token)) = self.attachments.due(now) {
                self.ready(port, token)?;
            }
            self.pass_on_logs(operator);
            let keys = self.wait(operator)?;
            for key in keys {
                if key == OPERATOR {
                    let goes_on = operator.handle_wake(&mut View { control: self });
                    if let Some(fatal) = self.fatal.take() {
                        return Err(fatal);
                    }
                    if goes_on.is_break() {
                        return Ok(());
                    }
                } else if key == WORKERS {
                    self.attachments.pool.waker().clear();
                } else if let Some((port, token)) = self.attachments.watcher(key) {
                    self.ready(port, token)?;
                }
            }
        }
    }

    fn pass_on_logs(&mut self, operator: &mut dyn Operator) {
        for (who, message) in self.logged.drain(..) {
            operator.log(&who, &message);
        }
        for (port, event) in self.events.drain(..) {
            operator.port_event(&port, event);
        }
    }

    /// The ports that were not removed, with their ids.
    pub(crate) fn present(&self) -> impl Iterator<Item = (PortId, &PortEntry)> {
        (0..).map(PortId).zip(&self.entries).filter(|(_, entry)| !entry.removed)
    }

    /// Tells the table what time it is.
    fn tick(&mut self) -> Instant {
        let now = Instant::now();
        let seconds = (now - self.started).as_secs() as u32;
        let tables = &self.attachments.common.tables;
        tables.set_now(seconds);
        if seconds.wrapping_sub(self.swept) >= SWEEP_SECONDS {
            self.swept = seconds;
            tables.sweep();
        }
        self.activity.look(now, &self.entries);
        self.look_at_bonds(seconds);
        now
    }

    /// Until the next timer, the table's next second, or the next look at the workers.
    pub(crate) fn timeout(&self) -> Duration {
        let now = Instant::now();
        let second =
            Duration::from_secs(1) - Duration::from_nanos((now - self.started).subsec_nanos().into());
        let timer = self.attachments.next_timer().map(|at| at.saturating_duration_since(now));
        let next = timer.map_or(second, |timer| timer.min(second));
        next.min(self.attachments.pool.watch_interval())
    }

    /// Calls a port, and passes on its log lines and events. `None` if the port does not run. A port that panics
    /// is removed, and the switch continues if other ports are left.
    pub(crate) fn call<T>(
        &mut self,
        index: usize,
        what: impl FnOnce(&mut dyn Port, &mut dyn PortContext) -> T,
    ) -> Result<Option<T>, RunError> {
        self.try_call(index, what).or_else(|panicked| {
            let name = self.entries[index].name.clone();
            if self.entries.iter().all(|entry| !entry.runs) {
                return Err(panicked.port(name));
            }
            self.logged.push((name, panicked.to_string()));
            Ok(None)
        })
    }

    /// Calls a port, for callers whose own request fails if the port panics. A port that panics is removed.
    pub(crate) fn try_call<T>(
        &mut self,
        index: usize,
        what: impl FnOnce(&mut dyn Port, &mut dyn PortContext) -> T,
    ) -> Result<Option<T>, Panicked> {
        let entry = &mut self.entries[index];
        if !entry.runs {
            return Ok(None);
        }
        let Some(port) = entry.port.as_deref_mut() else { return Ok(None) };
        let mut context = SwitchContext { attachments: &mut self.attachments, port: PortId(index as u16) };
        // After a panic the port is not used any more. The port changes only whole entries of the switch's data.
        let since = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| what(port, &mut context)));
        self.attachments.called(PortId(index as u16), since.elapsed());
        for (port, message) in self.attachments.logged.drain(..) {
            self.logged.push((self.entries[usize::from(port.0)].name.clone(), message));
        }
        let result = result.map(Some).map_err(|panic| {
            let entry = &mut self.entries[index];
            entry.runs = false;
            let left = entry.port.take();
            self.attachments.clear(PortId(index as u16));
            // The rest of the port may panic again, or wait for its peer; the switch does not wait for it.
            let _ = std::thread::Builder::new().name("panicked port".to_owned()).spawn(move || drop(left));
            Panicked(panic_message(&*panic))
        });
        self.note_connection(index);
        if result.is_err() {
            self.events.push((self.entries[index].name.clone(), PortEvent::Stopped));
        }
        result
    }

    fn ready(&mut self, port: PortId, token: port::Token) -> Result<(), RunError> {
        let index = usize::from(port.0);
        if let Some(Err(error)) = self.call(index, |port, context| port.ready(token, context))? {
            self.end_port(index, error)?;
        }
        self.read_reports()
    }

    /// Ends a port that cannot continue. The switch continues if other ports are left.
    pub(crate) fn end_port(&mut self, index: usize, error: PortError) -> Result<(), RunError> {
        self.logged.push((self.entries[index].name.clone(), error.to_string()));
        self.call(index, |port, context| port.end(context))?;
        self.entries[index].runs = false;
        self.attachments.clear(PortId(index as u16));
        self.note_connection(index);
        self.events.push((self.entries[index].name.clone(), PortEvent::Stopped));
        if self.entries.iter().all(|entry| !entry.runs) {
            return Err(RunError::NoPortLeft { name: self.entries[index].name.clone(), error });
        }
        Ok(())
    }

    /// Informs ports of their stopped queues, and handles workers that are stuck or gone.
    pub(crate) fn read_reports(&mut self) -> Result<(), RunError> {
        while let Some(event) = self.attachments.pool.next_event() {
            match event {
                Event::Stopped { id, side, generation, why } => {
                    if self.attachments.stopped(id, side, generation) {
                        let index = usize::from(id.port.0);
                        self.call(index, |port, context| port.stopped(id.pair, side, why, context))?;
                    }
                }
                Event::Replaced(replaced) => self.isolate(&replaced)?,
            }
        }
        self.attachments.pool.take_trouble().map_or(Ok(()), Err)
    }

    /// A worker's thread was given up: tells the ports whose queues are lost with it, and ends the port that is to
    /// blame.
    fn isolate(&mut self, replaced: &Replaced) -> Result<(), RunError> {
        let what = incident::describe(replaced, |port| &self.entries[usize::from(port.0)].name);
        let position = replaced.position;
        let guilty = match (position.source, position.sink) {
            (Some(source), Some(sink)) => self.suspects.found(source.port, sink.port),
            (source, sink) => source.or(sink).map(|queue| queue.port).into_iter().collect(),
        };
        if position.source.is_none() && position.sink.is_none() {
            self.logged.push((format!("worker {}", replaced.worker), what.clone()));
        }
        for (id, side, generation) in &replaced.lost {
            // Reports about a port that was removed are discarded with it.
            if self.attachments.stopped(*id, *side, *generation) && !guilty.contains(&id.port) {
                let (pair, side, why) = (id.pair, *side, QueueError::Lost(what.clone()));
                let index = usize::from(id.port.0);
                self.call(index, |port, context| port.stopped(pair, side, why, context))?;
            }
        }
        for port in guilty {
            let index = usize::from(port.0);
            if self.entries[index].runs {
                let error = PortError::new("moving frames", &what, incident::REMEDY);
                self.end_port(index, error)?;
            }
        }
        Ok(())
    }

    /// Ends all ports and workers.
    fn end(&mut self) -> Result<(), RunError> {
        let mut result = Ok(());
        for index in 0..self.entries.len() {
            let elsewhere = self.entries[index].elsewhere;
            let ended = self
                .try_call(index, |port, context| if elsewhere { port.leave() } else { port.end(context) });
            self.entries[index].runs = false;
            self.attachments.clear(PortId(index as u16));
            let ended = ended.map_err(|panicked| panicked.port(self.entries[index].name.clone()));
            result = result.and(ended.map(drop));
        }
        self.attachments.pool.stop();
        while self.attachments.pool.next_event().is_some() {}
        result.and(self.attachments.pool.take_trouble().map_or(Ok(()), Err))
    }

    pub(crate) fn snapshot(&self, descriptions: Option<&[String]>) -> Snapshot {
        let descriptions = descriptions.map_or_else(|| self.descriptions(), <[String]>::to_vec);
        let ports = self.present().map(|(id, entry)| {
            let addresses = self.attachments.common.tables.behind(id);
            let description = descriptions[usize::from(id.0)].clone();
            let port = entry.port.as_deref();
            let port = crate::snapshot::port(&entry.name, description, addresses, entry.link, port);
            PortSnapshot { bond: self.bonds.snapshot(id), ..port }
        });
        Snapshot {
            seconds: self.started.elapsed().as_secs_f64(),
            ports: ports.collect(),
            table: self.attachments.common.tables.counts(),
            networks: self.attachments.common.tables.networks(),
            workers: self.attachments.pool.counts().collect(),
        }
    }
}
