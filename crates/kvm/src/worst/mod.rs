//! Latencies of a guest's threads as they come, and what made the worst of them longer than the median.

mod blame;
mod budget;
mod cause;
mod kept;
mod latency;
mod state;

pub use blame::{blame, longer, stretches};
pub use budget::{Budget, Checked};
pub use cause::{Blame, Cause};
pub use kept::{Kept, Path};
pub use latency::{Follower, Latency, Watched, latencies};
