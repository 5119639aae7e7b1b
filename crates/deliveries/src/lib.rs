//! Which frames were delivered and not yet completed. A switch that is started after a crash needs this information, so
//! that it delivers no frame again.
//!
//! A worker takes a burst from a transmitq, publishes it to receiveqs, one after the other, and gives it back to its
//! sender at the end. If the switch is killed in between, the burst is still in the sender's ring, and no ring tells
//! which receivers have it. Each port therefore keeps a small file in memory that outlives the process:
//!
//! - the worker of its transmitq notes, before each publication, the position of the receiveq and the frames that
//!   come next (`sender`);
//! - its receiveqs note their positions when this process started them (`receiver`).
//!
//! If a receiveq's position after a restart differs from the one in the sender's note, the receiveq has got the
//! frames of that note. The first burst from the sender's ring comes with these notes (`past`), and each receiveq
//! leaves out the frames that it has.
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
