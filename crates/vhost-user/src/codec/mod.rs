//! Conversion between bytes and messages. Every byte string gives a message or a [`Violation`], never a panic.
//! Nothing is allocated beyond [`MAX_PAYLOAD_BYTES`].
//!
//! [`Violation`]: crate::Violation
pub mod backend_request;
mod bytes;
pub mod crypto;
pub mod frontend_request;
pub mod header;
mod message;
pub mod payload;
pub mod reply;
pub mod table;
mod whole;

pub use header::MAX_PAYLOAD_BYTES;
pub use message::{MAX_FDS, Message};
