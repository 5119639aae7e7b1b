//! For tests of devices, and of programs that run them.
pub mod guest_memory;
