#![forbid(unsafe_code)]
//! The vhost-user protocol.
pub mod bits;
pub mod codec;
mod violation;
pub mod vring;
pub use violation::Violation;
