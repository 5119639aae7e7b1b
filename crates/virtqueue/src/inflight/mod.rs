//! In-flight tracking (vhost-user, "Inflight I/O tracking") records which chains the device has popped and not used,
//! in memory that outlives the process, so that the next process can pop them again.
//!
//! The region is shared with the front-end. What is read from it when a queue starts is therefore checked like a
//! ring. Afterwards it is only written, and the queue works from its own memory.

mod packed;
mod region;
mod split;

pub use packed::PackedInFlight;
pub(crate) use packed::StoredBuffer;
pub use region::InFlightError;
pub use split::SplitInFlight;
