//! What the control thread tells a worker, and what a worker reports.
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::{io, mem};

use port::{FrameBatch, QueueError, Side, Sink, Source};

use crate::poller::Waker;
use crate::shared_queue::SharedQueue;
use crate::{PortId, QueueId};

/// Tells one attached-in queue from an earlier one in the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(pub u64);

/// For a worker.
pub(crate) enum Message {
    AddSource {
        id: QueueId,
        generation: Generation,
        queue: Arc<SharedQueue<dyn Source>>,
    },
    /// Answered when the worker has nothing to do with it any more.
    TakeSource {
        id: QueueId,
        reply: mpsc::Sender<()>,
    },
    /// Answered, so that whoever is told that a queue has started is told the truth: a frame that is sent
    /// after that finds it.
    AddSink {
        id: QueueId,
        generation: Generation,
        queue: Arc<SharedQueue<dyn Sink>>,
        reply: mpsc::Sender<()>,
    },
    TakeSink {
        id: QueueId,
        reply: mpsc::Sender<()>,
    },
    /// One frame from the switch itself, as if it came from a port.
    Flood {
        from: PortId,
        frame: Box<FrameBatch>,
    },
    Stop,
}

/// From a worker.
pub(crate) enum Report {
    /// A queue stopped by itself and is out.
    Stopped { id: QueueId, side: Side, generation: Generation, why: QueueError },
    /// The worker is gone; it was told to, or it panicked with this message.
    Gone { worker: Incarnation, panic: Option<String> },
    /// The worker cannot go on.
    Failed { worker: Incarnation, action: &'static str, source: io::Error },
}

/// One thread of a worker, which has another when that one is stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Incarnation {
    pub worker: usize,
    pub number: u32,
}

/// One worker's messages. The worker asks by one load whether there are any.
pub(crate) struct Mailbox {
    messages: Mutex<VecDeque<Message>>,
    any: AtomicBool,
    waker: Waker,
}

impl Mailbox {
    pub fn new() -> io::Result<Self> {
        Ok(Mailbox { messages: Mutex::default(), any: AtomicBool::new(false), waker: Waker::new()? })
    }

    pub fn post(&self, message: Message) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push_back(message);
        // In this order: who sees that there are messages finds the message, and has the ringing behind it. A waker
        // that rang after its message was taken would ring on, and its worker never sleep again.
        self.waker.wake();
        self.any.store(true, Ordering::Release);
    }

    /// Whether there may be messages.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// All messages, oldest first. What is posted meanwhile rings again.
    pub fn take(&self) -> VecDeque<Message> {
        self.any.swap(false, Ordering::Acquire);
        self.waker.clear();
        mem::take(&mut self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Readable while there are messages.
    pub fn waker(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}

/// Where workers report.
#[derive(Clone)]
pub(crate) struct Reports {
    pub sender: mpsc::Sender<Report>,
    pub waker: Arc<Waker>,
}

impl Reports {
    pub fn send(&self, report: Report) {
        // Nobody listens any more only when the switch has ended without this worker.
        let _ = self.sender.send(report);
        self.waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    /// Letters are taken the moment they are seen, as by a worker that is awake.
    #[test]
    fn the_bell_is_silent_when_all_letters_are_taken() {
        let mailbox = Mailbox::new().unwrap();
        // Letters asked for, and messages whose posting is over.
        let (asked, posted) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for message in 1.. {
                    wait_for(&asked, message);
                    if asked.load(Ordering::Acquire) == END {
                        break;
                    }
                    mailbox.post(Message::Stop);
                    posted.store(message, Ordering::Release);
                }
            });
            let (mut messages, mut taken, mut ringing) = (0, 0, 0);
            // Each message can take a time slice where others want the CPUs.
            let enough = Instant::now() + Duration::from_secs(2);
            while messages < 20_000 && Instant::now() < enough {
                messages += 1;
                asked.store(messages, Ordering::Release);
                while !mailbox.any() {
                    std::thread::yield_now();
                }
                taken += mailbox.take().len();
                wait_for(&posted, messages);
                let mut waker = [PollFd::new(&mailbox.waker, PollFlags::IN)];
                ringing += poll(&mut waker, Some(&Timespec::default())).unwrap();
                mailbox.waker.clear();
            }
            asked.store(END, Ordering::Release);
            assert_eq!((taken, ringing), (messages, 0), "messages, and times that it rang on for nobody");
        });
    }

    const END: usize = usize::MAX;

    fn wait_for(count: &AtomicUsize, value: usize) {
        while count.load(Ordering::Acquire) < value {
            std::thread::yield_now();
        }
    }
}
