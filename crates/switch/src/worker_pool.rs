//! All workers, as the control thread knows them. It sends them messages, waits for answers, detects stuck
//! workers, and gives their queues to others.
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flow_tables::Tables;
use frame::{FrameBatch, Sink, Source};
use pipeline::{Injected, TablesId};

use crate::heartbeat::WorkerPosition;
use crate::mailbox::{Generation, Incarnation, Mailbox, Message, Report, Reports, SharedSink};
use crate::poller::Waker;
use crate::programs::Programs;
use crate::queue_plan::QueueAssignment;
use crate::shared_queue::SharedQueue;
use crate::watchdog::Watchdog;
use crate::worker::Worker;
use crate::worker_counters::{WorkerCounters, WorkerCounts};
use crate::worker_event::{Cause, Event, Replaced};
use crate::worker_handle::WorkerHandle;
use crate::worker_options::Common;
use crate::{QueueId, RunError};

/// The most abandoned threads that still exist: each keeps its resources.
const MOST_ABANDONED: usize = 16;

/// The pool of workers. Dropping it stops them.
pub(crate) struct WorkerPool {
    workers: Vec<WorkerHandle>,
    common: Arc<Common>,
    /// By port.
    programs: Programs,
    sender: Sender<Report>,
    reports: Receiver<Report>,
    waker: Arc<Waker>,
    deadline: Duration,
    /// Whether the workers were told to stop.
    stopping: bool,
    /// Events that are not passed on yet.
    events: VecDeque<Event>,
    abandoned: Vec<JoinHandle<()>>,
    /// The first failure of a worker that cannot be repaired.
    trouble: Option<RunError>,
}

/// A sink, with the workers that use it.
pub(crate) struct AssignedSink {
    pub generation: Generation,
    pub assignment: QueueAssignment,
    pub queue: Arc<SharedQueue<dyn Sink>>,
}

impl QueueAssignment {
    fn workers(&self) -> &[usize] {
        match self {
            QueueAssignment::Own(worker) => std::slice::from_ref(worker),
            QueueAssignment::Shared(workers) => workers,
        }
    }
}

/// Sinks that workers get and give back. Each worker gets one message for all its new sinks, and one for all
/// others.
#[derive(Default)]
pub(crate) struct SinkMoves {
    to: BTreeMap<usize, Vec<SharedSink>>,
    from: BTreeMap<usize, BTreeSet<QueueId>>,
}

impl SinkMoves {
    /// `before` has the workers that use the sink now, if any.
    pub fn give(&mut self, id: QueueId, sink: &AssignedSink, before: Option<&QueueAssignment>) {
        let before = before.map_or(&[][..], QueueAssignment::workers);
        let after = sink.assignment.workers();
        for worker in after.iter().filter(|worker| !before.contains(worker)) {
            let shared = (id, sink.generation, Arc::clone(&sink.queue));
            self.to.entry(*worker).or_default().push(shared);
        }
        for worker in before.iter().filter(|worker| !after.contains(worker)) {
            self.from.entry(*worker).or_default().insert(id);
        }
    }

    pub fn take(&mut self, id: QueueId, sink: &AssignedSink) {
        for worker in sink.assignment.workers() {
            self.from.entry(*worker).or_default().insert(id);
        }
    }
}

impl WorkerPool {
    /// Starts one worker for each entry of `cpus`, pinned to that CPU if there is one. A worker that makes no
    /// progress for `deadline` counts as stuck.
    ///
    /// # Errors
    /// `eventfd` is refused, or the system refuses to start a thread.
    pub fn start(
        cpus: &[Option<usize>],
        common: &Arc<Common>,
        programs: Programs,
        deadline: Duration,
    ) -> Result<Self, RunError> {
        let waker = Arc::new(Waker::new().map_err(system("making an eventfd"))?);
        let woken = Arc::clone(&waker);
        common.upcalls.set_wake(move || woken.wake());
        let (sender, reports) = channel();
        let mut pool = WorkerPool {
            workers: Vec::new(),
            common: Arc::clone(common),
            programs,
            sender,
            reports,
            waker: Arc::clone(&waker),
            deadline,
            stopping: false,
            events: VecDeque::new(),
            abandoned: Vec::new(),
            trouble: None,
        };
        for (worker, cpu) in cpus.iter().enumerate() {
            let handle = pool.spawn(Incarnation { worker, number: 0 }, *cpu)?;
            pool.workers.push(handle);
        }
        Ok(pool)
    }

    /// A worker with nothing to do yet.
    fn spawn(&self, incarnation: Incarnation, cpu: Option<usize>) -> Result<WorkerHandle, RunError> {
        let mailbox = Arc::new(Mailbox::new().map_err(system("making an eventfd"))?);
        let counters = Arc::new(WorkerCounters::new());
        let worker = Worker {
            incarnation,
            cpu,
            common: Arc::clone(&self.common),
            programs: Arc::clone(&self.programs),
            mailbox: Arc::clone(&mailbox),
            reports: Reports { sender: Sender::clone(&self.sender), waker: Arc::clone(&self.waker) },
            counters: Arc::clone(&counters),
        };
        let thread = std::thread::Builder::new().name(format!("worker-{}", incarnation.worker));
        let thread = thread.spawn(move || worker.run()).map_err(system("starting a thread"))?;
        Ok(WorkerHandle {
            cpu,
            incarnation,
            mailbox,
            counters,
            before: WorkerCounts::default(),
            watchdog: Watchdog::new(self.deadline),
            thread: Some(thread),
            failed: false,
            sources: BTreeMap::new(),
            sinks: BTreeMap::new(),
        })
    }

    /// Waits until all workers poll for frames.
    pub fn begun(&mut self) {
        for worker in 0..self.workers.len() {
            self.ask(worker, |reply| Message::Begun { reply });
        }
    }

    /// The waker that is set when a worker reports.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    pub fn counts(&self) -> impl Iterator<Item = WorkerCounts> {
        self.workers.iter().map(|handle| handle.before.plus(handle.counters.counts()))
    }

    /// The first unrepairable failure of a worker, once.
    pub fn take_trouble(&mut self) -> Option<RunError> {
        self.trouble.take()
    }

    /// The next event for a port. A failure that cannot be repaired is kept for `take_trouble`.
    pub fn next_event(&mut self) -> Option<Event> {
        self.read_reports();
        self.events.pop_front()
    }

    fn read_reports(&mut self) {
        while let Ok(report) = self.reports.try_recv() {
            match report {
                Report::Stopped { id, side, generation, why } => {
                    self.events.push_back(Event::Stopped { id, side, generation, why });
                }
                // The fate of an abandoned thread does not matter.
                Report::Gone { worker, .. } | Report::Failed { worker, .. }
                    if self.workers[worker.worker].incarnation != worker => {}
                Report::Gone { panic: None, .. } if self.stopping => {}
                Report::Gone { worker, panic } => {
                    let message = panic.unwrap_or_else(|| "it ended without being told to".to_owned());
                    self.replace(worker.worker, Cause::Panic(message));
                }
                Report::Failed { worker, action, source } => {
                    let worker = worker.worker;
                    self.mark_failed(worker, RunError::Worker { worker, action, source });
                }
            }
        }
    }

    fn mark_failed(&mut self, worker: usize, why: RunError) {
        self.workers[worker].failed = true;
        self.trouble.get_or_insert(why);
    }

    /// The longest time between two checks of the workers.
    pub fn watch_interval(&self) -> Duration {
        Watchdog::interval(self.deadline)
    }

    /// Checks whether a worker is stuck, and replaces it.
    pub fn watch(&mut self) {
        for worker in 0..self.workers.len() {
            self.watch_one(worker);
        }
    }

    fn watch_one(&mut self, worker: usize) {
        let handle = &mut self.workers[worker];
        if handle.failed || handle.thread.is_none() {
            return;
        }
        let counters = &handle.counters;
        let state = || counters.heartbeat.state();
        let stuck = handle.watchdog.observe(Instant::now(), counters.passes(), counters.is_asleep(), state);
        if let Some(time) = stuck {
            let thread = handle.counters.heartbeat.thread();
            self.replace(worker, Cause::Stuck(time, thread));
        }
    }

    /// Gives a worker's queues to a new thread, all but those in which the old one is.
    fn replace(&mut self, worker: usize, cause: Cause) {
        self.abandoned.retain(|thread| !thread.is_finished());
        let old = &mut self.workers[worker];
        let is_stuck = matches!(cause, Cause::Stuck(..));
        if is_stuck && self.abandoned.len() >= MOST_ABANDONED {
            let deadline = self.deadline;
            return self
                .mark_failed(worker, RunError::WorkersStuck { threads: MOST_ABANDONED + 1, deadline });
        }
        let position = old.counters.heartbeat.position();
        if let Cause::Panic(message) = &cause
            && position == (WorkerPosition { source: None, sink: None })
        {
            let message = message.clone();
            return self.mark_failed(worker, RunError::WorkerPanicked { worker, message });
        }
        // In this order: whatever it claims from now on it gives back untouched.
        old.counters.heartbeat.abandon();
        old.mailbox.post(Message::Stop);
        let (mut position, lost) = old.abandon(is_stuck);
        if is_stuck && lost.is_empty() {
            // The worker has continued, or is stuck outside of all queues.
            position = WorkerPosition { source: None, sink: None };
        }
        let next = Incarnation { worker, number: old.incarnation.number.wrapping_add(1) };
        let cpu = old.cpu;
        let mut new = match self.spawn(next, cpu) {
            Ok(new) => new,
            Err(error) => return self.mark_failed(worker, error),
        };
        let old = &mut self.workers[worker];
        new.before = old.before.plus(old.counters.counts());
        new.take_over(std::mem::take(&mut old.sources), std::mem::take(&mut old.sinks));
        let old = std::mem::replace(old, new);
        self.abandoned.extend(old.thread);
        self.events.push_back(Event::Replaced(Replaced { worker, cause, position, lost }));
        // The thread that waits for reports finds this one.
        self.waker.wake();
    }

    /// Asks one worker and waits for its answer. `None` if there is none.
    fn ask<T>(&mut self, worker: usize, message: impl Fn(Sender<T>) -> Message) -> Option<T> {
        'again: loop {
            let handle = &self.workers[worker];
            let incarnation = handle.incarnation;
            // A worker that ended with the message unread has reported why.
            let interval = self.watch_interval().min(Duration::from_millis(20));
            if handle.failed {
                return None;
            }
            let (reply, answer) = channel();
            handle.mailbox.post(message(reply));
            loop {
                match answer.recv_timeout(interval) {
                    Ok(answer) => return Some(answer),
                    Err(RecvTimeoutError::Timeout) => self.watch_one(worker),
                    // The message was thrown away: the worker is about to report why.
                    Err(RecvTimeoutError::Disconnected) => std::thread::sleep(Duration::from_micros(200)),
                }
                self.read_reports();
                let handle = &self.workers[worker];
                if handle.failed || handle.thread.is_none() {
                    return None;
                }
                if handle.incarnation != incarnation {
                    continue 'again;
                }
            }
        }
    }

    fn tell(&self, worker: usize, message: Message) {
        self.workers[worker].mailbox.post(message);
    }

    pub fn add_source(
        &mut self,
        worker: usize,
        id: QueueId,
        generation: Generation,
        source: Box<dyn Source>,
    ) {
        let queue = SharedQueue::new(source);
        self.workers[worker].sources.insert(id, (generation, Arc::clone(&queue)));
        self.tell(worker, Message::AddSource { id, generation, queue });
    }

    /// Removes sources, each from its worker, in this order. `None` for each that has stopped by itself or is
    /// lost.
    pub fn take_sources(&mut self, which: &[(usize, QueueId)]) -> Vec<Option<Box<dyn Source>>> {
        let mut taken = BTreeMap::<usize, Vec<QueueId>>::new();
        for (worker, id) in which.iter().filter(|(worker, id)| self.source(*worker, *id).is_some()) {
            taken.entry(*worker).or_default().push(*id);
        }
        for (worker, ids) in taken {
            self.ask(worker, |reply| Message::TakeSources { ids: ids.clone(), reply });
        }
        // The sources are looked up only now: a worker that has panicked in a sink meanwhile has its source at another
        // place.
        let take = |(worker, id): &(usize, QueueId)| self.workers[*worker].sources.remove(id)?.1.take();
        which.iter().map(take).collect()
    }

    pub fn flood(&self, worker: usize, from: crate::PortId, frame: frame::FrameBatch) {
        self.tell(worker, Message::Flood { from, frame: Box::new(frame) });
    }

    /// Lets a worker execute a controller's frame. A worker itself has no right to make the memory of a frame.
    pub fn inject(&mut self, worker: usize, program: Arc<Injected>) {
        // A frame for which there is no memory is lost.
        let Ok(frame) = FrameBatch::of_frame(&program.frame.bytes) else { return };
        let frame = RefCell::new(Some(Box::new(frame)));
        self.ask(worker, |reply| match frame.take() {
            Some(frame) => Message::Inject { program: Arc::clone(&program), frame, reply },
            // The worker was replaced, and either has the frame or has lost it.
            None => Message::Begun { reply },
        });
    }

    /// Moves sinks between workers. Returns once each worker has its new sinks and no longer uses the ones that it
    /// gave back. A sink that moves is always reachable: for a moment the old worker and the new one both have it.
    pub fn move_sinks(&mut self, moves: SinkMoves) {
        for (worker, sinks) in moves.to {
            // First, so that a thread that takes this worker's place while it is asked has them too.
            let own = sinks.iter().map(|(id, generation, queue)| (*id, (*generation, Arc::clone(queue))));
            self.workers[worker].sinks.extend(own);
            self.ask(worker, |reply| Message::AddSinks { sinks: sinks.clone(), reply });
        }
        for (worker, ids) in moves.from {
            self.ask(worker, |reply| Message::TakeSinks { ids: ids.clone(), reply });
            self.workers[worker].sinks.retain(|id, _| !ids.contains(id));
        }
    }

    /// Replaces the programs. The new ones decide once this returns.
    pub fn set_programs(&mut self, programs: Programs) {
        // First, so that a thread that replaces a worker while it is asked has the new programs too.
        self.programs = Arc::clone(&programs);
        for worker in 0..self.workers.len() {
            self.ask(worker, |reply| Message::SetPrograms { programs: Arc::clone(&programs), reply });
        }
    }

    /// Replaces or removes the flow tables of this number. After the function returns, no worker uses the former tables.
    /// A thread that replaces a worker meanwhile has the new tables from the state that workers share.
    pub fn set_flows(&mut self, id: TablesId, tables: Option<&Arc<Tables>>) {
        for worker in 0..self.workers.len() {
            // The memory of the former tables is freed here, and not by a worker.
            drop(self.ask(worker, |reply| Message::SetFlows { id, tables: tables.cloned(), reply }));
        }
    }

    /// Lets all workers add what they have counted to the counters of flows.
    pub fn count_flows(&mut self) {
        for worker in 0..self.workers.len() {
            self.ask(worker, |reply| Message::CountFlows { reply });
        }
    }

    /// A source in the hands of a worker.
    pub fn source(&self, worker: usize, id: QueueId) -> Option<&SharedQueue<dyn Source>> {
        self.workers[worker].sources.get(&id).map(|(_, queue)| &**queue)
    }

    /// Whether a worker sleeps.
    pub fn is_asleep(&self, worker: usize) -> bool {
        self.workers[worker].counters.is_asleep()
    }

    /// Tells all workers to stop, and waits for all that are not stuck.
    pub fn stop(&mut self) {
        self.stopping = true;
        for handle in &self.workers {
            handle.mailbox.post(Message::Stop);
        }
        let since = Instant::now();
        for index in 0..self.workers.len() {
            let handle = &mut self.workers[index];
            let Some(thread) = handle.thread.take() else { continue };
            while !thread.is_finished() && !handle.failed && since.elapsed() < self.deadline {
                std::thread::sleep(Duration::from_micros(200));
            }
            if thread.is_finished() {
                // Its panic, if any, was reported.
                let _ = thread.join();
            } else if !handle.failed {
                let deadline = self.deadline;
                self.mark_failed(index, RunError::WorkersStuck { threads: 1, deadline });
            }
        }
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.stop();
    }
}

/// An error of a system call of the control thread, for `map_err`.
pub(crate) fn system(action: &'static str) -> impl FnOnce(io::Error) -> RunError {
    move |source| RunError::System { action, source }
}
