//! Helpers for tests of devices and of programs that run devices.
pub mod guest_memory;
