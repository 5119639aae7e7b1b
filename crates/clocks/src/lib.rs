//! Clocks of two ends that share memory, set against each other.
//!
//! One end asks the other for its time through an [`Exchange`], often, and keeps the answer that was the quickest: an
//! [`Alignment`]. Between two of them clocks run apart evenly ([`Alignments`]). A [`FarClock`] goes on at their rate for
//! times that are needed at once, and says afterwards by how much it was wrong.
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
