//! Alignment of the clocks of two ends that share memory.
//!
//! One end repeatedly asks the other for its time through an [`Exchange`], and keeps the answer with the shortest
//! delay: an [`Alignment`]. Between two alignments the clocks are taken to drift evenly ([`Alignments`]). A
//! [`FarClock`] extrapolates at the same rate, for times that are needed at once. Afterwards it reports its error.
#![forbid(unsafe_code)]

mod alignment;
mod answering;
mod exchange;
mod far_clock;
mod now;

pub use alignment::{Alignment, Alignments};
pub use answering::Answering;
pub use exchange::{BYTES as EXCHANGE_BYTES, Exchange};
pub use far_clock::FarClock;
pub use now::{now_ns, sleep_until_ns};

#[cfg(test)]
mod tests;
