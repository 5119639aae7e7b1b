//! The control thread: ports' descriptors and timers, workers' reports, the operator.
use std::fmt::Display;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use port::{Interest, Port, PortContext, PortError, QueueError};
use virtio::net::MacAddress;

use crate::context::{Attachments, SwitchContext};
use crate::forward::{Route, Rules};
use crate::keyed::Key;
use crate::poller::Poller;
use crate::queue_plan::QueuePlan;
use crate::suspects::Suspects;
use crate::table::MacTable;
use crate::worker::{Common, panic_message};
use crate::worker_pool::{Event, Replaced, WorkerPool, system};
use crate::{PortId, RunError, Snapshot, Switch, incident};

/// Addresses that only the ports which list them may use.
fn own_addresses(rules: &[Rules]) -> Vec<(MacAddress, PortId)> {
    let learning = rules.iter().filter(|rules| matches!(rules.route, Route::Learn(_)));
    let own = |rules: &Rules| {
        let port = rules.port;
        rules.addresses.iter().flatten().map(move |address| (*address, port)).collect::<Vec<_>>()
    };
    learning.flat_map(own).collect()
}

/// Whoever runs a switch: signals, a control socket, a terminal.
pub trait Operator {
    /// Readable when [`Operator::handle_wake`] has something to do. Stays the same while the switch runs.
    fn wake_fd(&self) -> BorrowedFd<'_>;

    /// The waker has rung; it is to be silenced here. `Break` ends the switch.
    fn handle_wake(&mut self, switch: &View<'_>) -> ControlFlow<()>;

    /// Hears what happened at a port, for people; or at a worker, by its name.
    fn log(&mut self, port: &str, message: &dyn Display);
}

/// A running switch, to look at.
pub struct View<'a> {
    control: &'a Control,
}

impl View<'_> {
    /// How it stands.
    pub fn snapshot(&self) -> Snapshot {
        self.control.snapshot(None)
    }
}

/// How a switch ended.
#[derive(Debug)]
pub struct Ended {
    /// How it stood.
    pub snapshot: Snapshot,
    /// Why it ended, if not by its operator.
    pub result: Result<(), RunError>,
}

/// Keys of the control thread's own descriptors.
const OPERATOR: u64 = 0;
const WORKERS: u64 = 1;

/// Seconds between two sweeps of the table.
const SWEEP_SECONDS: u32 = 16;

struct Slot {
    name: String,
    /// `None` after it panicked.
    port: Option<Box<dyn Port>>,
    /// Started, and not ended.
    runs: bool,
}

struct Control {
    slots: Vec<Slot>,
    attachments: Attachments,
    suspects: Suspects,
    started: Instant,
    swept: u32,
}

impl Switch {
    /// Runs on this thread until the operator ends it or it cannot go on.
    pub fn run(self, operator: &mut dyn Operator) -> Ended {
        let mut control = match Control::new(self, operator) {
            Ok(control) => control,
            Err(error) => return Ended { snapshot: Snapshot::default(), result: Err(error) },
        };
        let result = control.run(operator);
        let descriptions = control.descriptions();
        let ended = control.end(operator);
        let snapshot = control.snapshot(Some(&descriptions));
        Ended { snapshot, result: result.and(ended) }
    }
}

impl Control {
    fn new(switch: Switch, operator: &dyn Operator) -> Result<Self, RunError> {
        let rules = switch.rules();
        let Switch { options, ports } = switch;
        let pairs = ports.iter().map(|port| port.port.queue_pairs());
        let plan = QueuePlan::new(options.workers.len(), &rules.iter().zip(pairs).collect::<Vec<_>>());
        let common = Arc::new(Common {
            table: MacTable::new(options.table, ports.len(), own_addresses(&rules)),
            rules: rules.into_iter().map(Arc::new).collect(),
            key: Key::random(),
            options: options.worker,
        });
        let poller = Poller::new().map_err(system("making an epoll set"))?;
        let pool = WorkerPool::start(&options.workers, &common, options.worker_deadline)?;
        for (fd, key) in [(operator.wake_fd(), OPERATOR), (pool.waker().as_fd(), WORKERS)] {
            poller.add(fd, key, Interest::Readable).map_err(system("adding a waker to the epoll set"))?;
        }
        let slots =
            ports.into_iter().map(|port| Slot { name: port.name, port: Some(port.port), runs: false });
        Ok(Control {
            slots: slots.collect(),
            attachments: Attachments::new(pool, common, poller, plan),
            suspects: Suspects::default(),
            started: Instant::now(),
            swept: 0,
        })
    }

    fn run(&mut self, operator: &mut dyn Operator) -> Result<(), RunError> {
        for index in 0..self.slots.len() {
            self.slots[index].runs = true;
            let started = self.call(index, operator, |port, context| port.start(context))?;
            if let Some(Err(error)) = started {
                self.slots[index].runs = false;
                self.attachments.clear(PortId(index as u16));
                return Err(RunError::Start { name: self.slots[index].name.clone(), error });
            }
            self.read_reports(operator)?;
        }
        self.attachments.open();
        loop {
            self.attachments.pool.watch();
            self.read_reports(operator)?;
            let now = self.tick();
            while let Some((port, token)) = self.attachments.due(now) {
                self.ready(port, token, operator)?;
            }
            let keys: Vec<u64> = {
                let timeout = self.timeout();
                self.attachments.poller.wait(Some(timeout)).map_err(system("epoll_wait"))?.collect()
            };
            for key in keys {
                if key == OPERATOR {
                    if operator.handle_wake(&View { control: self }).is_break() {
                        return Ok(());
                    }
                } else if key == WORKERS {
                    self.attachments.pool.waker().clear();
                } else if let Some((port, token)) = self.attachments.watcher(key) {
                    self.ready(port, token, operator)?;
                }
            }
        }
    }

    /// Tells the table what time it is.
    fn tick(&mut self) -> Instant {
        let now = Instant::now();
        let seconds = (now - self.started).as_secs() as u32;
        let table = &self.attachments.common.table;
        table.set_now(seconds);
        if seconds.wrapping_sub(self.swept) >= SWEEP_SECONDS {
            self.swept = seconds;
            table.sweep();
        }
        now
    }

    /// Until the next timer, the table's next second, or the next look at the workers.
    fn timeout(&self) -> Duration {
        let now = Instant::now();
        let second =
            Duration::from_secs(1) - Duration::from_nanos((now - self.started).subsec_nanos().into());
        let timer = self.attachments.next_timer().map(|at| at.saturating_duration_since(now));
        let next = timer.map_or(second, |timer| timer.min(second));
        next.min(self.attachments.pool.watch_interval())
    }

    /// Calls a port, and passes on what it said. `None` if it does not run.
    fn call<T>(
        &mut self,
        index: usize,
        operator: &mut dyn Operator,
        what: impl FnOnce(&mut dyn Port, &mut dyn PortContext) -> T,
    ) -> Result<Option<T>, RunError> {
        let slot = &mut self.slots[index];
        if !slot.runs {
            return Ok(None);
        }
        let Some(port) = slot.port.as_deref_mut() else { return Ok(None) };
        let mut context = SwitchContext { attachments: &mut self.attachments, port: PortId(index as u16) };
        // After a panic the port is not used any more, and the switch ends.
        let result = catch_unwind(AssertUnwindSafe(|| what(port, &mut context)));
        for (port, message) in self.attachments.logged.drain(..) {
            operator.log(&self.slots[usize::from(port.0)].name, &message);
        }
        result.map(Some).map_err(|panic| {
            let slot = &mut self.slots[index];
            slot.port = None;
            RunError::PortPanicked { name: slot.name.clone(), message: panic_message(&*panic) }
        })
    }

    fn ready(
        &mut self,
        port: PortId,
        token: port::Token,
        operator: &mut dyn Operator,
    ) -> Result<(), RunError> {
        let index = usize::from(port.0);
        if let Some(Err(error)) = self.call(index, operator, |port, context| port.ready(token, context))? {
            self.end_port(index, error, operator)?;
        }
        self.read_reports(operator)
    }

    /// A port cannot go on; the others do, if there are any.
    fn end_port(
        &mut self,
        index: usize,
        error: PortError,
        operator: &mut dyn Operator,
    ) -> Result<(), RunError> {
        operator.log(&self.slots[index].name, &error);
        self.call(index, operator, |port, context| port.end(context))?;
        self.slots[index].runs = false;
        self.attachments.clear(PortId(index as u16));
        if self.slots.iter().all(|slot| !slot.runs) {
            return Err(RunError::NoPortLeft { name: self.slots[index].name.clone(), error });
        }
        Ok(())
    }

    /// Tells ports of their stopped queues, and finds out about workers.
    fn read_reports(&mut self, operator: &mut dyn Operator) -> Result<(), RunError> {
        while let Some(event) = self.attachments.pool.next_event() {
            match event {
                Event::Stopped { id, side, generation, why } => {
                    if self.attachments.stopped(id, side, generation) {
                        let index = usize::from(id.port.0);
                        self.call(index, operator, |port, context| {
                            port.stopped(id.pair, side, why, context)
                        })?;
                    }
                }
                Event::Replaced(replaced) => self.isolate(&replaced, operator)?,
            }
        }
        self.attachments.pool.take_trouble().map_or(Ok(()), Err)
    }

    /// A worker's thread was given up: tells the ports whose queues are lost with it, and ends the port that is to
    /// blame.
    fn isolate(&mut self, replaced: &Replaced, operator: &mut dyn Operator) -> Result<(), RunError> {
        let what = incident::describe(replaced, |port| &self.slots[usize::from(port.0)].name);
        let position = replaced.position;
        let guilty = match (position.source, position.sink) {
            (Some(source), Some(sink)) => self.suspects.found(source.port, sink.port),
            (source, sink) => source.or(sink).map(|queue| queue.port).into_iter().collect(),
        };
        if position.source.is_none() && position.sink.is_none() {
            operator.log(&format!("worker {}", replaced.worker), &what);
        }
        for (id, side, generation) in &replaced.lost {
            // Those of a port that goes are cleared away with it.
            if self.attachments.stopped(*id, *side, *generation) && !guilty.contains(&id.port) {
                let (pair, side, why) = (id.pair, *side, QueueError::Lost(what.clone()));
                let index = usize::from(id.port.0);
                self.call(index, operator, |port, context| port.stopped(pair, side, why, context))?;
            }
        }
        for port in guilty {
            let index = usize::from(port.0);
            if self.slots[index].runs {
                let error = PortError::new("moving frames", &what, incident::REMEDY);
                self.end_port(index, error, operator)?;
            }
        }
        Ok(())
    }

    fn descriptions(&self) -> Vec<String> {
        self.slots.iter().map(Slot::describe).collect()
    }

    /// Ends all ports and workers.
    fn end(&mut self, operator: &mut dyn Operator) -> Result<(), RunError> {
        let mut result = Ok(());
        for index in 0..self.slots.len() {
            let ended = self.call(index, operator, |port, context| port.end(context));
            self.slots[index].runs = false;
            self.attachments.clear(PortId(index as u16));
            result = result.and(ended.map(drop));
        }
        self.attachments.pool.stop();
        while self.attachments.pool.next_event().is_some() {}
        result.and(self.attachments.pool.take_trouble().map_or(Ok(()), Err))
    }

    fn snapshot(&self, descriptions: Option<&[String]>) -> Snapshot {
        let descriptions = descriptions.map_or_else(|| self.descriptions(), <[String]>::to_vec);
        let ports = self.slots.iter().zip(descriptions).zip(0..);
        let ports = ports.map(|((slot, description), index)| {
            let addresses = self.attachments.common.table.behind(PortId(index));
            crate::snapshot::port(&slot.name, description, addresses, slot.port.as_deref())
        });
        Snapshot {
            seconds: self.started.elapsed().as_secs_f64(),
            ports: ports.collect(),
            table: self.attachments.common.table.counts(),
            workers: self.attachments.pool.counts().collect(),
        }
    }
}

impl Slot {
    fn describe(&self) -> String {
        self.port.as_ref().map_or_else(|| "panicked".to_owned(), |port| port.describe())
    }
}
