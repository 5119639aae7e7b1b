//! Helpers for tests of ports and of programs that run ports.
mod context;
pub use vhost_device::testing::front_end;
pub mod guest_memory;

pub use context::{BURST, TestContext};
