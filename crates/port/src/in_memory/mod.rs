//! Two ports joined inside one process, and the queue between them.
//!
//! A queue is a bounded ring of frame slots with one producer and one consumer, and takes no lock. If no slot is
//! free, the frame is dropped and counted as [`frame::DropReason::ReceiverFull`]. The producer makes a system call
//! only if the consumer sleeps.
mod pair;
mod queue;
mod ring;
#[cfg(feature = "testing")]
pub mod testing;

pub use pair::InMemory;
pub use queue::{InMemorySink, InMemorySource, QueueOptions, queue};

#[cfg(test)]
mod tests;
