//! Queues that several workers may fill.
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use frame::{FrameBatch, QueueError, Sink};
use port::in_memory::{InMemorySink, InMemorySource, QueueOptions, queue};

/// The end of a queue into which frames are put.
#[derive(Debug)]
pub(crate) struct Entrance(Mutex<InMemorySink>);

/// The outcome for frames that were put into a queue.
pub(crate) struct Put {
    /// The frames that were copied into the queue.
    pub frames: u64,
    /// The frames that were not: there was no room, or they are too long for a slot, or cannot be completed.
    pub dropped: u64,
}

/// A queue with these options.
///
/// # Errors
/// Its memory cannot be made or mapped, or `eventfd` is refused.
pub(crate) fn shared(options: QueueOptions) -> io::Result<(Arc<Entrance>, InMemorySource)> {
    let (sink, source) = queue(options)?;
    Ok((Arc::new(Entrance(Mutex::new(sink))), source))
}

impl Entrance {
    fn lock(&self) -> MutexGuard<'_, InMemorySink> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies frames into the queue, as far as there is room.
    ///
    /// # Errors
    /// The causes of [`Sink::accept`].
    pub fn put(&self, batch: &FrameBatch, which: &[u16]) -> Result<Put, QueueError> {
        let mut sink = self.lock();
        let before = sink.counters().frames();
        sink.accept(batch, which)?;
        let frames = sink.counters().frames() - before;
        Ok(Put { frames, dropped: (which.len() as u64).saturating_sub(frames) })
    }
}
