#![forbid(unsafe_code)]
//! The vhost-user protocol.
pub mod bits;
pub mod codec;
pub mod inflight;
pub mod session;
pub mod socket;
mod violation;
pub mod vring;
pub use violation::Violation;
