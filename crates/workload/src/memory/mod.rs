//! Memory: bandwidth, and load latency against array size.

mod arena;
mod available;
mod bandwidth;
mod chains;
mod latency;
mod permutation;
mod sizes;
mod streams;

pub(crate) use arena::{Arenas, PageKind};
pub(crate) use bandwidth::measure as bandwidth;
pub(crate) use latency::{AccessPattern, measure as latency};
pub(crate) use sizes::{FULL_BYTES, QUICK_BYTES, size_text};
pub(crate) use streams::Traffic;
