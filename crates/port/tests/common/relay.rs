//! The least that forwards: everything that one source lends goes to one sink.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use frame::{Sink, Source};
use port::testing::TestContext;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A thread for each direction of each queue pair, until it is dropped.
pub struct Relay {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    /// Joins two ports.
    pub fn between(a: TestContext, b: TestContext) -> Relay {
        let stop = Arc::new(AtomicBool::new(false));
        let ways = [(a.sources, b.sinks), (b.sources, a.sinks)];
        let queues = ways.into_iter().flat_map(|(from, to)| from.into_values().zip(to.into_values()));
        let start = |(source, sink)| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || forward(source, sink, &stop))
        };
        let threads = queues.map(start).collect();
        Relay { stop, threads }
    }
}

fn forward(mut source: Box<dyn Source>, mut sink: Box<dyn Sink>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let batch = source.rx_burst(64).unwrap();
        let all: Vec<u16> = (0..batch.len() as u16).collect();
        sink.accept(batch, &all).unwrap();
        if source.needs_release() {
            source.release();
        } else if !source.sleep() {
            let fd = PollFd::from_borrowed_fd(source.wake_fd().unwrap(), PollFlags::IN);
            // Only to look at `stop` now and then.
            poll(&mut [fd], Some(&Timespec { tv_sec: 0, tv_nsec: 20_000_000 })).unwrap();
        }
        source.wake();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join()
                && !std::thread::panicking()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }
}
