//! A chain of members that pass frames on, each to the next, at every tick.
//!
//! Each member has a port of the same switch. At each tick the first member sends data frames, then the end of the
//! tick. The others pass on the results of their work, then the end of the tick with the times at which it arrived
//! and left. Frames of one sender keep their order, so that after the end of a tick no more frames of it come.

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
