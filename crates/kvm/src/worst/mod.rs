//! Latencies of a guest's threads in a trace, and what made the worst of them longer than the median.

mod blame;
mod budget;
mod latency;

pub use blame::{Blame, Cause, blame, longer};
pub use budget::{Budget, Checked};
pub use latency::{Latency, Watched, latencies};
