//! The stages from a tick's instant to the end of its work: how long each took, and what used the time.
//!
//! [`merge`] combines the source's stamps, the host's trace and the receiver's stamps of each tick into one row, on
//! the source's clock. [`Summary`] computes how long each stage took, and [`blame`] explains why the worst tick took
//! longer than others. All three are pure functions.

mod blame;
mod merge;
mod point;
mod summary;

pub use blame::{Blamed, blame};
pub use merge::{Host, merge};
pub use point::{Points, Stage};
pub use summary::{StageTimes, Summary};

#[cfg(test)]
mod tests;
