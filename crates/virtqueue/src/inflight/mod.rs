//! In-flight tracking (vhost-user, "Inflight I/O tracking"): which chains the device has popped and not
//! used, kept in memory that outlives the process, so that a successor can pop them again.
//!
//! The region is shared with the front-end, so what is read from it when a queue starts is checked like a
//! ring; afterwards it is only written, and the queue works from its own books.

mod packed;
mod region;
mod split;

pub use packed::PackedInFlight;
pub(crate) use packed::StoredBuffer;
pub use region::InFlightError;
pub use split::SplitInFlight;
