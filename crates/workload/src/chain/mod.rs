//! Runs one member of a scenario's chain, in a process of its own.

mod job;
mod join;

pub use job::{ChainJob, MemberPort};
pub(crate) use join::run;
