//! Runs the receiver of ticks, with load at the same time, in a process of its own.

mod job;
mod receive;

pub use job::{Doorbell, Load, TicksJob};
pub(crate) use receive::run;
