//! Who answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use measure::Failure;

use crate::exchange::Exchange;
use crate::now::now_ns;

/// After a question more will come: so long it does not sleep.
const AWAKE: Duration = Duration::from_millis(20);
/// How often it looks for the first one.
const LOOK: Duration = Duration::from_millis(2);

/// A thread that answers questions about the time, until this is dropped. The thread is idle while no question comes.
#[derive(Debug)]
pub struct Answering {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Answering {
    /// Begins.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(exchange: Exchange) -> Result<Self, Failure> {
        let end = Arc::<AtomicBool>::default();
        let its_end = Arc::clone(&end);
        let thread = thread::Builder::new().name("clock".into()).spawn(move || answer(&exchange, &its_end));
        let thread = thread.map_err(|error| {
            Failure::new("starting a thread that tells the time", error, "end other programs")
        })?;
        Ok(Answering { end, thread: Some(thread) })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(exchange: &Exchange, end: &AtomicBool) {
    let mut awake_until_ns = 0;
    while !end.load(Ordering::Relaxed) {
        if exchange.answer() {
            awake_until_ns = now_ns() + AWAKE.as_nanos() as u64;
        } else if now_ns() < awake_until_ns {
            thread::yield_now();
        } else {
            thread::sleep(LOOK);
        }
    }
}
