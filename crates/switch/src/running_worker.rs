//! What a running worker does: it moves frames from its sources to sinks, and sleeps when there are none.
//!
//! # The loop
//!
//! A *pass* polls every source once. While passes find frames, the worker does little else: one load checks the
//! mailbox, and a clock is read around one pass of 16. After [`QUIET_PASSES`] empty passes in a row the worker is
//! *idle*; it spins on, reading the clock every [`QUIET_PASSES`] passes, until its spin budget is used up. Then it
//! asks every source to wake it and sleeps. After a wake-up it makes a pass at once, unless a message woke it. The
//! frame has waited long enough; what sources do to resume polling can wait.
//!
//! # No lost wake-up
//!
//! [`Source::sleep`] arms the notification and then checks again, so a frame is either seen by that check or makes
//! the descriptor readable. A source that another thread holds at that moment was not armed, so the worker does
//! not sleep. For messages see [`Mailbox`].
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use frame::{FrameBatch, QueueCounters, QueueError, Side, Source};
use pipeline::Program;
use port::Interest;

use crate::forward::Forwarder;
use crate::mailbox::{Generation, Mailbox, Message, Report, Reports};
use crate::poller::Poller;
use crate::programs::Programs;
use crate::shared_queue::{SharedQueue, Unclaimed};
use crate::spin::SpinBudget;
use crate::tx_queues::TxQueues;
use crate::worker_counters::{WorkerCounters, WorkerState};
use crate::worker_options::Common;
use crate::{MAX_PORTS, PortId, QueueId};

/// The number of empty passes after which a worker is idle, and between two readings of the clock while it is idle.
const QUIET_PASSES: u32 = 32;

/// Keys of what a sleeping worker waits for.
const MAILBOX: u64 = 0;
const SOURCE: u64 = 1;

/// What was tried, and what the system answered.
pub(crate) type Failure = (&'static str, io::Error);

struct RxQueue {
    id: QueueId,
    generation: Generation,
    queue: Arc<SharedQueue<dyn Source>>,
    /// The source has no descriptor that wakes the worker.
    silent: bool,
    counters: Arc<QueueCounters>,
    program: Arc<dyn Program>,
    /// The number of passes in which the source is left out, so that a source with costly bursts gets no larger
    /// share of the worker than others.
    debt: u32,
}

/// Work of a burst that is paid for with one pass, in bytes copied ([`FrameBatch::work`]): about a burst of short
/// frames. Debts end with the first pass in which no other source had anything. A worker does not sleep meanwhile:
/// [`Source::sleep`] says that something is there.
const WORK_OF_A_PASS: u32 = 16 << 10;

/// The result of a visit to one source.
enum Visit {
    /// Whether there were frames.
    Done { moved: bool },
    /// The source has stopped.
    Stopped { moved: bool, why: QueueError },
    /// The queue was removed. The thread that removed it knows.
    Gone,
    /// Another thread has taken this worker's place.
    Abandoned,
}

/// A running worker.
pub(crate) struct RunningWorker {
    common: Arc<Common>,
    /// The program of each port.
    programs: Programs,
    mailbox: Arc<Mailbox>,
    reports: Reports,
    counters: Arc<WorkerCounters>,
    rx_queues: Vec<RxQueue>,
    tx_queues: TxQueues,
    /// The ids and generations of the sinks in `tx_queues`.
    generations: Vec<(QueueId, Generation)>,
    poller: Poller,
    spin: SpinBudget,
    /// The counters of the switch's own frames.
    own: QueueCounters,
}

/// Outcome of a sleep attempt.
enum Slept {
    /// The worker did not sleep, because there were frames or messages.
    NotAtAll,
    /// The worker is awake again. `moved`: whether the first pass found anything.
    Woken { moved: bool },
}

impl RunningWorker {
    /// A worker without queues.
    ///
    /// # Errors
    /// `epoll_create` or `epoll_ctl` for the mailbox is refused.
    pub fn new(
        common: Arc<Common>,
        programs: Programs,
        mailbox: Arc<Mailbox>,
        reports: Reports,
        counters: Arc<WorkerCounters>,
        has_cpu: bool,
    ) -> Result<Self, Failure> {
        let mut poller = Poller::new().map_err(|error| ("epoll_create", error))?;
        let added = poller.add(mailbox.waker(), MAILBOX, Interest::Readable);
        added.map_err(|error| ("adding the mailbox to epoll", error))?;
        // The first call makes room for events.
        let _ = poller.wait(Some(Duration::ZERO)).map(drop);
        let tx_queues = TxQueues::new(MAX_PORTS, common.options.burst, Arc::clone(&counters));
        let mut tx_queues = tx_queues.map_err(|error| ("memory for edited frames", error))?;
        for (id, tables) in common.flows().all() {
            tx_queues.set_flows(id, Some(Arc::clone(tables)));
        }
        Ok(RunningWorker {
            tx_queues,
            spin: SpinBudget::new(common.options.spin, has_cpu),
            common,
            programs,
            mailbox,
            reports,
            counters,
            rx_queues: Vec::new(),
            generations: Vec::new(),
            poller,
            own: QueueCounters::default(),
        })
    }

    /// Forwards frames until a message ends the worker.
    ///
    /// # Errors
    /// `epoll_ctl` or `epoll_wait` is refused.
    pub fn run(mut self) -> Result<(), Failure> {
        let mut empty_passes = 0u32;
        // When the worker became idle.
        let mut idle: Option<Instant> = None;
        self.counters.enter(WorkerState::Busy);
        loop {
            if self.mailbox.any() && !self.read_mail()? {
                return Ok(());
            }
            let pass = self.counters.begin_pass();
            let moved = self.pass();
            self.counters.end_pass(pass, moved);
            if moved {
                empty_passes = 0;
                if idle.take().is_some() {
                    self.counters.enter(WorkerState::Busy);
                }
                continue;
            }
            std::hint::spin_loop();
            empty_passes += 1;
            if empty_passes < QUIET_PASSES {
                continue;
            }
            empty_passes = 0;
            match idle {
                None => {
                    self.flush_flows();
                    idle = Some(self.counters.enter(WorkerState::Spinning));
                }
                Some(since) if since.elapsed() < self.spin.now() => {}
                Some(_) => match self.sleep()? {
                    // A wake-up for nothing: the worker is as idle as before.
                    Slept::Woken { moved: false } => empty_passes = QUIET_PASSES - 1,
                    Slept::Woken { moved: true } => {
                        self.counters.enter(WorkerState::Busy);
                        idle = None;
                    }
                    Slept::NotAtAll => idle = Some(Instant::now()),
                },
            }
        }
    }

    /// Asks every source once that has no debt. Whether there was anything.
    #[inline]
    fn pass(&mut self) -> bool {
        let (mut moved, mut in_debt) = (false, false);
        let mut i = 0;
        while i < self.rx_queues.len() {
            if self.rx_queues[i].debt > 0 {
                self.rx_queues[i].debt -= 1;
                in_debt = true;
                i += 1;
                continue;
            }
            let visit = self.visit(i);
            self.report_stopped_sinks();
            match visit {
                Visit::Done { moved: more } => {
                    moved |= more;
                    i += 1;
                }
                Visit::Stopped { moved: more, why } => {
                    moved |= more;
                    self.stop_source(i, why);
                }
                Visit::Gone => drop(self.rx_queues.remove(i)),
                // Its mailbox says so too.
                Visit::Abandoned => break,
            }
        }
        if in_debt && !moved {
            self.rx_queues.iter_mut().for_each(|queue| queue.debt = 0);
        }
        moved
    }

    /// Moves one burst from one source, if it has any.
    #[inline(always)]
    fn visit(&mut self, at: usize) -> Visit {
        let rx_queue = &mut self.rx_queues[at];
        let heartbeat = &self.counters.heartbeat;
        // Another thread has claimed the queue or has panicked in it; the next pass tries again.
        let Ok(mut claimed) = rx_queue.queue.try_claim() else { return Visit::Done { moved: false } };
        if heartbeat.is_abandoned() {
            return Visit::Abandoned;
        }
        let Some(source) = claimed.as_deref_mut() else { return Visit::Gone };
        heartbeat.enter_source(rx_queue.id);
        let mut stopped = None;
        match source.rx_burst(self.common.options.burst) {
            Ok(batch) if batch.is_empty() => rx_queue.debt = batch.work() / WORK_OF_A_PASS,
            Ok(batch) => {
                let outcome = Forwarder {
                    key: &self.common.key,
                    program: &*rx_queue.program,
                    tx_queues: &mut self.tx_queues,
                    counters: &rx_queue.counters,
                }
                .forward(batch);
                self.counters.burst(batch.len() as u64, &outcome);
                rx_queue.debt = batch.work() / WORK_OF_A_PASS;
            }
            Err(why) => stopped = Some(why),
        }
        if rx_queue.queue.is_retired() {
            // Its port may have set up the same ring again: borrowed frames stay borrowed.
            *claimed = None;
            return Visit::Abandoned;
        }
        let moved = source.needs_release();
        if moved {
            source.release();
        }
        match stopped {
            None => Visit::Done { moved },
            Some(why) => Visit::Stopped { moved, why },
        }
    }

    #[inline(always)]
    fn report_stopped_sinks(&mut self) {
        for (id, why) in self.tx_queues.stopped() {
            if let Some(at) = self.generations.iter().position(|(of, _)| *of == id) {
                let (id, generation) = self.generations.swap_remove(at);
                self.reports.send(Report::Stopped { id, side: Side::ToGuest, generation, why });
            }
        }
    }

    #[cold]
    fn stop_source(&mut self, at: usize, why: QueueError) {
        let RxQueue { id, generation, queue, .. } = self.rx_queues.remove(at);
        if let Some(mut claimed) = queue.claim()
            && let Some(source) = claimed.take()
        {
            self.unwatch(&*source);
        }
        self.reports.send(Report::Stopped { id, side: Side::FromGuest, generation, why });
    }

    fn unwatch(&self, source: &dyn Source) {
        if let Some(fd) = source.wake_fd() {
            // A descriptor that is not in the set needs no removal.
            let _ = self.poller.remove(fd);
        }
    }

    /// Whether to go on.
    #[cold]
    fn read_mail(&mut self) -> Result<bool, Failure> {
        self.counters.heartbeat.leave_source();
        for message in self.mailbox.take() {
            if self.counters.heartbeat.is_abandoned() {
                return Ok(false);
            }
            match message {
                Message::AddSource { id, generation, queue } => self.add_source(id, generation, queue),
                Message::TakeSources { ids, reply } => {
                    ids.into_iter().for_each(|id| self.take_source(id));
                    // The receiver is gone only if the control thread has abandoned this worker.
                    let _ = reply.send(());
                }
                Message::AddSinks { sinks, reply } => {
                    self.remove_sinks(&sinks.iter().map(|(id, ..)| *id).collect());
                    self.generations.extend(sinks.iter().map(|(id, generation, _)| (*id, *generation)));
                    self.tx_queues.add(sinks.into_iter().map(|(id, _, queue)| (id, queue)));
                    let _ = reply.send(());
                }
                Message::TakeSinks { ids, reply } => {
                    self.remove_sinks(&ids);
                    let _ = reply.send(());
                }
                Message::Flood { from, frame } => self.flood(from, &frame),
                Message::Inject { program, frame, reply } => {
                    self.run_own(&*program, &frame);
                    let _ = reply.send(());
                }
                Message::SetPrograms { programs, reply } => {
                    self.set_programs(programs);
                    let _ = reply.send(());
                }
                Message::SetFlows { id, tables, reply } => {
                    let _ = reply.send(self.tx_queues.set_flows(id, tables));
                }
                Message::CountFlows { reply } => {
                    self.flush_flows();
                    let _ = reply.send(());
                }
                Message::Begun { reply } => {
                    let _ = reply.send(());
                }
                Message::Stop => {
                    self.flush_flows();
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Adds frames that were counted beside the flows to the counters of the flows.
    #[cold]
    fn flush_flows(&mut self) {
        let now = Instant::now();
        self.tx_queues.flows.iter_mut().flatten().for_each(|flows| flows.flush(now));
    }

    fn take_source(&mut self, id: QueueId) {
        if let Some(at) = self.rx_queues.iter().position(|rx_queue| rx_queue.id == id)
            && let queue = self.rx_queues.remove(at).queue
            && let Some(claimed) = queue.claim()
            && let Some(source) = claimed.as_deref()
        {
            self.unwatch(source);
        }
    }

    fn remove_sinks(&mut self, ids: &BTreeSet<QueueId>) {
        self.generations.retain(|(of, _)| !ids.contains(of));
        ids.iter().for_each(|id| self.tx_queues.remove(*id));
    }

    fn add_source(&mut self, id: QueueId, generation: Generation, queue: Arc<SharedQueue<dyn Source>>) {
        let Some(program) = self.programs.get(usize::from(id.port.0)).cloned() else { return };
        let Some(mut claimed) = queue.claim() else {
            let why = QueueError::Lost("another thread does not give it back".to_owned());
            return self.reports.send(Report::Stopped { id, side: Side::FromGuest, generation, why });
        };
        // The source stopped while the former worker had it, and this was reported.
        let Some(source) = claimed.as_deref_mut() else { return };
        self.counters.heartbeat.enter_source(id);
        // The former worker may have been about to sleep, or may have ended while it gave a burst to a sink.
        if source.needs_release() {
            source.release();
        }
        source.wake();
        self.counters.heartbeat.leave_source();
        let counters = Arc::clone(source.counters());
        let silent = source.wake_fd().is_none();
        if let Some(fd) = source.wake_fd()
            && let Err(source) = self.poller.add(fd, SOURCE, Interest::Readable)
        {
            let why = QueueError::System { action: "adding the queue's descriptor to epoll", source };
            *claimed = None;
            return self.reports.send(Report::Stopped { id, side: Side::FromGuest, generation, why });
        }
        drop(claimed);
        self.rx_queues.push(RxQueue { id, generation, queue, silent, counters, program, debt: 0 });
    }

    fn set_programs(&mut self, programs: Programs) {
        for rx_queue in &mut self.rx_queues {
            if let Some(program) = programs.get(usize::from(rx_queue.id.port.0)) {
                rx_queue.program = Arc::clone(program);
            }
        }
        self.programs = programs;
        self.tx_queues.flows.iter_mut().flatten().for_each(|flows| flows.forget());
    }

    fn flood(&mut self, from: PortId, frame: &FrameBatch) {
        let Some(program) = self.programs.get(usize::from(from.0)).cloned() else { return };
        self.run_own(&*program, frame);
    }

    /// Runs a program on a frame that came from no port.
    fn run_own(&mut self, program: &dyn Program, frame: &FrameBatch) {
        let outcome =
            Forwarder { key: &self.common.key, program, tx_queues: &mut self.tx_queues, counters: &self.own }
                .forward(frame);
        self.counters.burst(frame.len() as u64, &outcome);
        self.report_stopped_sinks();
    }

    /// Sleeps until something comes, unless it is there already.
    #[cold]
    fn sleep(&mut self) -> Result<Slept, Failure> {
        let mut armed = 0;
        let mut there = false;
        for rx_queue in &self.rx_queues {
            armed += 1;
            // A source that another thread holds at this moment was not armed, so the worker must not sleep.
            there = self.with(rx_queue, |source| source.sleep()).unwrap_or_else(|why| why == Unclaimed::Held);
            if there {
                break;
            }
        }
        if there || self.mailbox.any() {
            self.wake(armed);
            return Ok(Slept::NotAtAll);
        }
        self.counters.heartbeat.leave_source();
        let silent = self.rx_queues.iter().any(|rx_queue| rx_queue.silent);
        let timeout = silent.then_some(self.common.options.poll_interval);
        let since = self.counters.enter(WorkerState::Asleep);
        let (mut ready, mut by_mailbox) = (false, false);
        for key in self.poller.wait(timeout).map_err(|error| ("epoll_wait", error))? {
            ready = true;
            by_mailbox |= key == MAILBOX;
        }
        self.spin.slept(self.counters.woken(ready) - since);
        if by_mailbox {
            self.mailbox.clear_stale();
        }
        // Messages first: a frame may have come after the sink it is for.
        let pass = self.counters.begin_pass();
        let moved = !self.mailbox.any() && self.pass();
        self.counters.end_pass(pass, moved);
        // The pass may have dropped some of these sources; they need no more notifications.
        self.wake(self.rx_queues.len());
        Ok(Slept::Woken { moved })
    }

    /// Resumes polling at the first `count` sources.
    fn wake(&self, count: usize) {
        self.rx_queues[..count].iter().for_each(|rx_queue| _ = self.with(rx_queue, |source| source.wake()));
    }

    /// Calls a source outside of a pass, unless it is another's, or gone.
    fn with<T>(&self, rx_queue: &RxQueue, what: impl FnOnce(&mut dyn Source) -> T) -> Result<T, Unclaimed> {
        let heartbeat = &self.counters.heartbeat;
        let mut claimed = rx_queue.queue.try_claim()?;
        if heartbeat.is_abandoned() {
            return Err(Unclaimed::Lost);
        }
        let source = claimed.as_deref_mut().ok_or(Unclaimed::Lost)?;
        heartbeat.enter_source(rx_queue.id);
        let result = what(source);
        if rx_queue.queue.is_retired() {
            *claimed = None;
        }
        Ok(result)
    }
}
