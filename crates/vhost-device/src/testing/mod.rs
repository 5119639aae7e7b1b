//! Helpers for tests of devices and of programs that run devices.
pub mod echo;
pub mod front_end;
pub mod guest_memory;
