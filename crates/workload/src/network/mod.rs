//! Network work between two ends: netperf's classes over UDP and TCP.
//!
//! The near end runs in the environment under test and sends the requests; the far end answers. Either end may send a
//! stream. One [`Flow`] describes the work of both ends: the far end opens the flow ([`FarEnd::open`]) and returns
//! its port, the near end runs it ([`near_end::run`]), then the far end is closed and returns its counts. Sent,
//! received and lost messages are three numbers, and each is counted where it occurs.

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
