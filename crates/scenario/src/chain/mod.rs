//! A chain of members that pass frames on, each to the next, at every tick.
//!
//! Each member has a port of the same switch. At each tick the first sends data frames, then the end of the tick; the
//! others pass on what their work makes of it, then the end of the tick with the times at which it came and went.
//! Frames of one sender keep their order, so that the end of a tick says that nothing more comes.

mod frame;
mod instant;
mod link;
mod member;
mod outcome;

pub use frame::address;
pub use member::{Clock, Job, run};
pub use outcome::{Ended, Outcome, Stage};

#[cfg(test)]
mod tests;
