//! Network work between two ends: netperf's classes over UDP and TCP.
//!
//! The near end is where the question is asked (the environment under test), the far end answers. Either may send a
//! stream. One [`Flow`] says to both what they do: the far end opens it ([`FarEnd::open`]) and says at which port, the
//! near end runs it ([`near_end::run`]), then the far end is closed and hands over its counts. What was sent, what was
//! received and what was lost are three numbers, each counted where it happens.

mod count;
mod far_end;
mod flow;
mod message;
pub mod near_end;
mod outgoing;
mod schedule;
mod tcp;
mod udp;
mod works;

pub use count::{Counts, NearOutcome, Took};
pub use far_end::FarEnd;
pub use flow::{Class, Flow, FlowError, Side};
pub use works::{MANY_CONNECTIONS, MESSAGE_BYTES, NamedWork, works};

#[cfg(test)]
mod tests;
