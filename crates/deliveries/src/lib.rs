//! Which frames were delivered and not yet completed: what a switch needs that is started after a crash, so that it
//! delivers none of them again.
//!
//! A worker takes a burst from a transmitq, publishes it to receiveqs, one after the other, and gives it back to its
//! sender at the end. A kill in between leaves the burst in the sender's ring, and no ring tells which receivers have
//! it. So each port keeps a small file in memory that outlives the process:
//!
//! - its transmitq's worker notes, before each publication, where the receiveq stands and which frames come next
//!   (`sender`);
//! - its receiveqs note where they stood when this process started them (`receiver`).
//!
//! After a restart a receiveq that does not stand where the sender's note says has got the frames of that note. The
//! first burst from the sender's ring comes with these notes (`past`), and each receiveq leaves out what it has.
//!
//! See `docs/decisions/frames-once-after-a-crash.md`.
#![deny(unsafe_code)]

mod area;
mod file;
mod past;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use area::Area;
pub use file::{DeliveryFile, SharedFile};
pub use past::Past;
pub use receiver::ReceiverLog;
pub use sender::SenderLog;
