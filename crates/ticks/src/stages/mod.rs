//! From a tick's instant to its work being done, stage by stage: which of them was long, and who had its time.
//!
//! [`merge`] puts the source's stamps, the host's trace and the receiver's stamps of each tick in one row, on the
//! source's clock. [`Summary`] says how long each stage took, and [`blame`] what made the worst tick longer than
//! others. All three are pure functions.

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
