//! For tests of ports, and of whoever runs them.
mod context;
pub mod guest_memory;

pub use context::{BURST, TestContext};
