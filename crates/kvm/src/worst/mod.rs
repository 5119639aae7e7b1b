//! Latencies of a guest's threads, and why the worst of them took longer than the median.

mod alignment;
mod blame;
mod budget;
mod cause;
mod guest;
mod kept;
mod latency;
mod latest;
mod recorder;
mod state;

pub use alignment::{Fit, Offsets};
pub use blame::{blame, longer, stretches};
pub use budget::{Budget, Checked};
pub use cause::{Blame, Cause};
pub use guest::{Arrival, joined};
pub use kept::{Frozen, GuestSide, Kept, Path};
pub use latency::{Follower, Latency, Watched, latencies};
pub use latest::Span;
pub use recorder::{GuestRecorder, News};

#[cfg(test)]
mod both_sides;
