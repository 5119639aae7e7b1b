//! Helpers for tests of devices and of programs that run devices.
pub mod front_end;
pub mod guest_memory;
