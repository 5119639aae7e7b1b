//! All workers, as the control thread sees them: it tells, waits for answers, and notices who is stuck.
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use port::{Sink, Source};

use crate::exits::{Claim, Outlet};
use crate::mailbox::{Generation, Mailbox, Message, Report, Reports};
use crate::plan::Place;
use crate::poller::Bell;
use crate::worker::{Common, Worker};
use crate::worker_counters::WorkerCounters;
use crate::{QueueId, RunError};

struct Member {
    mailbox: Arc<Mailbox>,
    counters: Arc<WorkerCounters>,
    thread: Option<JoinHandle<()>>,
    /// It does not answer, or is gone: nothing is asked of it any more.
    lost: bool,
}

/// The workers. Stops them when dropped.
pub(crate) struct Crew {
    members: Vec<Member>,
    reports: Receiver<Report>,
    bell: Arc<Bell>,
    deadline: Duration,
    /// Workers were told to stop.
    stopping: bool,
    /// The first thing that went wrong with a worker.
    trouble: Option<RunError>,
}

/// A sink in the hands of workers.
pub(crate) struct PlacedSink {
    pub generation: Generation,
    pub place: Place,
    /// If several have it.
    claim: Option<Arc<Claim>>,
}

impl Crew {
    /// Starts one worker for each entry, on that CPU if there is one.
    pub fn start(cpus: &[Option<usize>], common: &Arc<Common>, deadline: Duration) -> Result<Self, RunError> {
        let system = |action| move |source| RunError::System { action, source };
        let bell = Arc::new(Bell::new().map_err(system("making an eventfd"))?);
        let (sender, reports) = channel();
        let mut crew = Crew {
            members: Vec::new(),
            reports,
            bell: Arc::clone(&bell),
            deadline,
            stopping: false,
            trouble: None,
        };
        for (index, cpu) in cpus.iter().enumerate() {
            let mailbox = Arc::new(Mailbox::new().map_err(system("making an eventfd"))?);
            let counters = Arc::new(WorkerCounters::new());
            let worker = Worker {
                index,
                cpu: *cpu,
                common: Arc::clone(common),
                mailbox: Arc::clone(&mailbox),
                reports: Reports { sender: Sender::clone(&sender), bell: Arc::clone(&bell) },
                counters: Arc::clone(&counters),
            };
            let thread = std::thread::Builder::new().name(format!("worker-{index}"));
            let thread = thread.spawn(move || worker.run()).map_err(system("starting a thread"))?;
            crew.members.push(Member { mailbox, counters, thread: Some(thread), lost: false });
        }
        Ok(crew)
    }

    /// Rings when a worker reports.
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    pub fn counters(&self) -> impl Iterator<Item = &WorkerCounters> {
        self.members.iter().map(|member| &*member.counters)
    }

    /// What went wrong with a worker, once.
    pub fn take_trouble(&mut self) -> Option<RunError> {
        self.trouble.take()
    }

    /// The next queue that stopped by itself; what concerns workers themselves becomes trouble.
    pub fn next_stopped(&mut self) -> Option<Report> {
        loop {
            match self.reports.try_recv().ok()? {
                Report::Gone { panic: None, .. } if self.stopping => {}
                Report::Gone { worker, panic } => {
                    let message = panic.unwrap_or_else(|| "it ended without being told to".to_owned());
                    self.lose(worker, RunError::WorkerPanicked { worker, message });
                }
                Report::Failed { worker, action, source } => {
                    self.lose(worker, RunError::Worker { worker, action, source });
                }
                stopped @ Report::Stopped { .. } => return Some(stopped),
            }
        }
    }

    fn lose(&mut self, worker: usize, why: RunError) {
        self.members[worker].lost = true;
        self.trouble.get_or_insert(why);
    }

    /// Asks one worker and waits for its answer. `None` if there is none.
    fn ask<T>(
        &mut self,
        worker: usize,
        what: &'static str,
        message: impl FnOnce(Sender<T>) -> Message,
    ) -> Option<T> {
        if self.members[worker].lost {
            return None;
        }
        let (reply, answer) = channel();
        self.members[worker].mailbox.post(message(reply));
        let since = Instant::now();
        loop {
            match answer.recv_timeout(Duration::from_millis(100)) {
                Ok(answer) => return Some(answer),
                // The letter was thrown away unread: the worker is gone, and has reported why.
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let gone = self.members[worker].thread.as_ref().is_none_or(JoinHandle::is_finished);
            if gone {
                return None;
            }
            if since.elapsed() >= self.deadline {
                let deadline = self.deadline;
                self.lose(worker, RunError::WorkerStuck { worker, what, deadline });
                return None;
            }
        }
    }

    fn tell(&self, worker: usize, message: Message) {
        self.members[worker].mailbox.post(message);
    }

    pub fn add_source(&self, worker: usize, id: QueueId, generation: Generation, source: Box<dyn Source>) {
        self.tell(worker, Message::AddSource { id, generation, source });
    }

    pub fn take_source(&mut self, worker: usize, id: QueueId) -> Option<Box<dyn Source>> {
        self.ask(worker, "let go of a source", |reply| Message::TakeSource { id, reply })?
    }

    pub fn flood(&self, worker: usize, from: crate::PortId, frame: port::Lending) {
        self.tell(worker, Message::Flood { from, frame: Box::new(frame) });
    }

    /// Returns once the workers have it.
    pub fn add_sink(
        &mut self,
        place: Place,
        id: QueueId,
        generation: Generation,
        sink: Box<dyn Sink>,
    ) -> PlacedSink {
        let claim = match &place {
            Place::Own(worker) => {
                let outlet = Outlet::Own(sink);
                let add = |reply| Message::AddSink { id, generation, outlet, reply };
                self.ask(*worker, "take a sink", add);
                None
            }
            Place::Shared(workers) => {
                let claim = Arc::new(Claim::new(sink));
                for worker in workers {
                    let outlet = Outlet::Shared(Arc::clone(&claim));
                    let add = |reply| Message::AddSink { id, generation, outlet, reply };
                    self.ask(*worker, "take a sink", add);
                }
                Some(claim)
            }
        };
        PlacedSink { generation, place, claim }
    }

    /// Takes a sink from all workers that have it; `None` if it has stopped by itself.
    pub fn take_sink(&mut self, id: QueueId, placed: PlacedSink) -> Option<Box<dyn Sink>> {
        let take = |reply| Message::TakeSink { id, reply };
        match (placed.place, placed.claim) {
            (Place::Shared(workers), Some(claim)) => {
                for worker in workers {
                    self.ask(worker, "let go of a sink", take);
                }
                claim.take()
            }
            (Place::Own(worker), _) => match self.ask(worker, "let go of a sink", take)?? {
                Outlet::Own(sink) => Some(sink),
                Outlet::Shared(claim) => claim.take(),
            },
            (Place::Shared(_), None) => None,
        }
    }

    /// Tells all workers to stop and waits for them, those that are stuck excepted.
    pub fn stop(&mut self) {
        self.stopping = true;
        for member in &self.members {
            member.mailbox.post(Message::Stop);
        }
        let since = Instant::now();
        for index in 0..self.members.len() {
            let member = &mut self.members[index];
            let Some(thread) = member.thread.take() else { continue };
            while !thread.is_finished() && !member.lost && since.elapsed() < self.deadline {
                std::thread::sleep(Duration::from_micros(200));
            }
            if thread.is_finished() {
                // Its panic, if any, was reported.
                let _ = thread.join();
            } else if !member.lost {
                let deadline = self.deadline;
                self.lose(index, RunError::WorkerStuck { worker: index, what: "stop", deadline });
            }
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.stop();
    }
}

/// For messages about a system call of the control thread.
pub(crate) fn system(action: &'static str) -> impl FnOnce(io::Error) -> RunError {
    move |source| RunError::System { action, source }
}
