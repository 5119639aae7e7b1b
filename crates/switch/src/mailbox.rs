//! Messages from the control thread to a worker, and reports from workers.
use std::collections::{BTreeSet, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::{io, mem};

use flow_tables::Tables;
use frame::{FrameBatch, QueueError, Side, Sink, Source};
use pipeline::{Injected, TablesId, WorkerFlows};

use crate::poller::Waker;
use crate::programs::Programs;
use crate::shared_queue::SharedQueue;
use crate::{PortId, QueueId};

/// Distinguishes an attached queue from an earlier one with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(pub u64);

/// A sink that workers share with the control thread.
pub(crate) type SharedSink = (QueueId, Generation, Arc<SharedQueue<dyn Sink>>);

/// A message for a worker.
pub(crate) enum Message {
    AddSource {
        id: QueueId,
        generation: Generation,
        queue: Arc<SharedQueue<dyn Source>>,
    },
    /// Answered when the worker no longer uses these sources.
    TakeSources {
        ids: Vec<QueueId>,
        reply: mpsc::Sender<()>,
    },
    /// Answered when the worker has these sinks: a frame sent after the start of a queue is reported finds it.
    AddSinks {
        sinks: Vec<SharedSink>,
        reply: mpsc::Sender<()>,
    },
    /// Answered when the worker no longer uses these sinks.
    TakeSinks {
        ids: BTreeSet<QueueId>,
        reply: mpsc::Sender<()>,
    },
    /// One frame of the switch itself, treated as if it came from a port.
    Flood {
        from: PortId,
        frame: Box<FrameBatch>,
    },
    /// A controller's frame, and the program that executes its actions. Answered when it was executed.
    Inject {
        program: Arc<Injected>,
        frame: Box<FrameBatch>,
        reply: mpsc::Sender<()>,
    },
    /// The programs that decide from now on, by port. Answered when the worker no longer uses the former programs.
    SetPrograms {
        programs: Programs,
        reply: mpsc::Sender<()>,
    },
    /// The worker uses these flow tables from now on; `None` removes the tables of this number. The worker answers with
    /// the tables that it no longer uses.
    SetFlows {
        id: TablesId,
        tables: Option<Arc<Tables>>,
        reply: mpsc::Sender<FormerFlows>,
    },
    /// Answered when the counters of flows have all frames of the worker's bursts.
    CountFlows {
        reply: mpsc::Sender<()>,
    },
    /// Answered after the worker has released what it does not need, and polls for frames.
    Begun {
        reply: mpsc::Sender<()>,
    },
    Stop,
}

/// Flow tables that a worker no longer uses, so that another thread frees their memory.
#[allow(dead_code, reason = "the receiver drops it")]
pub(crate) enum FormerFlows {
    None,
    Tables(Arc<Tables>),
    All(Box<WorkerFlows>),
}

/// A report from a worker.
pub(crate) enum Report {
    /// A queue stopped by itself and was removed.
    Stopped { id: QueueId, side: Side, generation: Generation, why: QueueError },
    /// The worker has ended, either as it was told to or by a panic with this message.
    Gone { worker: Incarnation, panic: Option<String> },
    /// The worker cannot continue.
    Failed { worker: Incarnation, action: &'static str, source: io::Error },
}

/// One thread of a worker. A worker whose thread is stuck gets another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Incarnation {
    pub worker: usize,
    pub number: u32,
}

/// One worker's messages.
///
/// # No lost wake-up
///
/// `post` puts the message in, then sets `any`, then wakes. The worker checks `any` before it sleeps. Only the worker
/// clears the waker, by [`take`](Mailbox::take) or [`clear_stale`](Mailbox::clear_stale), and it checks `any` again
/// before it sleeps. When a wake is cleared, the `any` that came with it is therefore still visible: `any` was set
/// before the write to the eventfd, and the worker reads the eventfd after that write (the kernel locks the counter for
/// both calls). If the worker takes a message between the last two steps of `post`, the waker stays set without a
/// message. `clear_stale` clears it; otherwise it would stay readable. `any` is set before the wake, because otherwise
/// a woken worker would spin while the poster is preempted between the two steps.
pub(crate) struct Mailbox {
    messages: Mutex<VecDeque<Message>>,
    any: AtomicBool,
    waker: Waker,
}

impl Mailbox {
    /// An empty mailbox.
    ///
    /// # Errors
    /// `eventfd` is refused, for example at the open-files limit.
    pub fn new() -> io::Result<Self> {
        Ok(Mailbox { messages: Mutex::default(), any: AtomicBool::new(false), waker: Waker::new()? })
    }

    pub fn post(&self, message: Message) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push_back(message);
        // Release pairs with the swap in `take`: a worker that sees the flag finds the message.
        self.any.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Whether there may be messages; costs one load.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// All messages, oldest first. A message that is posted meanwhile wakes the worker again.
    pub fn take(&self) -> VecDeque<Message> {
        // In this order: a message that comes after the swap sets `any` again, whether it is taken here or not.
        self.any.swap(false, Ordering::Acquire);
        self.waker.clear();
        mem::take(&mut self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Must be called after a wake-up by this mailbox and before `any` is checked again. Clears a wake whose
    /// message was taken already.
    pub fn clear_stale(&self) {
        if !self.any() {
            self.waker.clear();
        }
    }

    /// Readable when messages have come.
    pub fn waker(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}

/// The queue of the workers' reports.
#[derive(Clone)]
pub(crate) struct Reports {
    pub sender: mpsc::Sender<Report>,
    pub waker: Arc<Waker>,
}

impl Reports {
    pub fn send(&self, report: Report) {
        // The receiver is gone only when the switch has ended without this worker.
        let _ = self.sender.send(report);
        self.waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    /// A worker that sleeps whenever there is no message gets all of them, and wakes at most once for each in vain.
    #[test]
    fn a_sleeper_gets_every_message_and_wakes_no_more_often_than_it_is_woken() {
        let mailbox = Mailbox::new().unwrap();
        let limit = Instant::now() + Duration::from_secs(2);
        std::thread::scope(|scope| {
            let poster = scope.spawn(|| {
                let mut posted = 0;
                while Instant::now() < limit && posted < 50_000 {
                    mailbox.post(Message::Stop);
                    posted += 1;
                }
                posted
            });
            let (mut taken, mut wakes, mut stale) = (0, 0, 0);
            let posted = loop {
                if mailbox.any() {
                    taken += mailbox.take().len();
                    continue;
                }
                let is_over = poster.is_finished();
                let woken = |limit: Duration| {
                    let limit = Timespec::try_from(if is_over { Duration::ZERO } else { limit }).unwrap();
                    poll(&mut [PollFd::new(&mailbox.waker, PollFlags::IN)], Some(&limit)).unwrap() > 0
                };
                if !woken(Duration::from_millis(200)) {
                    if is_over {
                        break poster.join().unwrap();
                    }
                    // Slow, or just about to end; but a message that is there has its wake-up.
                    let lost = mailbox.any() && !woken(Duration::from_secs(60));
                    assert!(!lost, "{taken} messages taken, and no wake-up came for the next");
                    continue;
                }
                wakes += 1;
                stale += usize::from(!mailbox.any());
                mailbox.clear_stale();
            };
            println!("{posted} messages, {wakes} wake-ups, {stale} of them stale");
            assert_eq!(taken, posted);
            assert!(wakes <= posted, "{wakes} wake-ups by {posted} messages");
        });
    }

    /// The steps of both threads, one at a time. `any` and the waker are single words that both see in one order.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Model {
        poster: u8,
        worker: u8,
        messages: u8,
        any: bool,
        readable: bool,
        /// Wake-ups that found no message.
        stale: u8,
    }

    const POSTS: u8 = 3;

    impl Model {
        /// Executes the next step of `post`; `order` has its steps.
        fn post(mut self, order: &[fn(&mut Model); 3]) -> Option<Self> {
            order.get(usize::from(self.poster % 3)).filter(|_| self.poster < 3 * POSTS)?(&mut self);
            self.poster += 1;
            Some(self)
        }

        /// Executes the worker's next step: check, sleep, check, clear; or swap, clear, take. `None` if the worker
        /// sleeps.
        fn work(mut self) -> Option<Self> {
            match self.worker {
                0 => self.worker = if self.any { 4 } else { 1 },
                1 if self.readable => self.worker = 2,
                1 => return None,
                2 if self.any => self.worker = 0,
                2 => (self.worker, self.stale) = (3, self.stale + 1),
                3 => (self.worker, self.readable) = (0, false),
                4 => (self.worker, self.any) = (5, false),
                5 => (self.worker, self.readable) = (6, false),
                _ => (self.worker, self.messages) = (0, 0),
            }
            Some(self)
        }
    }

    /// The faults in all orders of steps: messages that a sleeping worker never gets, or more needless wake-ups than
    /// posts.
    fn faults(order: &[fn(&mut Model); 3]) -> Vec<Model> {
        let first = Model { poster: 0, worker: 0, messages: 0, any: false, readable: false, stale: 0 };
        let (mut seen, mut left, mut faults) = (BTreeSet::from([first]), vec![first], Vec::new());
        while let Some(model) = left.pop() {
            let (posted, worked) = (model.post(order), model.work());
            let is_lost = posted.is_none() && worked.is_none() && model.messages > 0;
            if is_lost || model.stale > POSTS {
                faults.push(model);
                continue;
            }
            left.extend([posted, worked].into_iter().flatten().filter(|next| seen.insert(*next)));
        }
        faults
    }

    #[test]
    fn no_order_of_steps_loses_a_message_or_spins() {
        let put = |model: &mut Model| model.messages += 1;
        let set = |model: &mut Model| model.any = true;
        let wake = |model: &mut Model| model.readable = true;
        assert_eq!(faults(&[put, set, wake]), []);
        // The model tells a wrong order from a right one.
        assert!(!faults(&[put, wake, set]).is_empty(), "woken before there is anything to be seen");
        assert!(!faults(&[set, wake, put]).is_empty(), "seen before it is there");
    }
}
