//! What the control thread tells a worker, and what a worker reports.
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};
use std::{io, mem};

use port::{Lending, QueueError, Side, Source};

use crate::exits::Outlet;
use crate::poller::Bell;
use crate::{PortId, QueueId};

/// Tells one plugged-in queue from an earlier one in the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(pub u64);

/// For a worker.
pub(crate) enum Message {
    AddSource {
        id: QueueId,
        generation: Generation,
        source: Box<dyn Source>,
    },
    TakeSource {
        id: QueueId,
        reply: mpsc::Sender<Option<Box<dyn Source>>>,
    },
    /// Answered, so that whoever is told that a queue has started is told the truth: a frame that is sent
    /// after that finds it.
    AddSink {
        id: QueueId,
        generation: Generation,
        outlet: Outlet,
        reply: mpsc::Sender<()>,
    },
    TakeSink {
        id: QueueId,
        reply: mpsc::Sender<Option<Outlet>>,
    },
    /// One frame from the switch itself, as if it came from a port.
    Flood {
        from: PortId,
        frame: Box<Lending>,
    },
    Stop,
}

/// From a worker.
pub(crate) enum Report {
    /// A queue stopped by itself and is out.
    Stopped { id: QueueId, side: Side, generation: Generation, why: QueueError },
    /// The worker is gone; it was told to, or it panicked with this message.
    Gone { worker: usize, panic: Option<String> },
    /// The worker cannot go on.
    Failed { worker: usize, action: &'static str, source: io::Error },
}

/// One worker's letters. The worker asks by one load whether there are any.
pub(crate) struct Mailbox {
    letters: Mutex<VecDeque<Message>>,
    any: AtomicBool,
    bell: Bell,
}

impl Mailbox {
    pub fn new() -> io::Result<Self> {
        Ok(Mailbox { letters: Mutex::default(), any: AtomicBool::new(false), bell: Bell::new()? })
    }

    pub fn post(&self, message: Message) {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).push_back(message);
        // After the letter: who sees it finds the letter. The bell is for who sleeps.
        self.any.store(true, Ordering::Release);
        self.bell.ring();
    }

    /// Whether there may be letters.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// All letters, oldest first. What is posted meanwhile rings again.
    pub fn take(&self) -> VecDeque<Message> {
        self.any.swap(false, Ordering::Acquire);
        self.bell.silence();
        mem::take(&mut self.letters.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Readable while there are letters.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// Where workers report.
#[derive(Clone)]
pub(crate) struct Reports {
    pub sender: mpsc::Sender<Report>,
    pub bell: std::sync::Arc<Bell>,
}

impl Reports {
    pub fn send(&self, report: Report) {
        // Nobody listens any more only when the switch has ended without this worker.
        let _ = self.sender.send(report);
        self.bell.ring();
    }
}
