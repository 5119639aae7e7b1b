//! `tautline vm` as a user calls it, on QEMU's emulated CPU; what it says it set is read back from `/proc`.

mod attached;
#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod common;
mod compared;
mod guest;
mod libvirt;
mod pv_sched;
mod refused;
mod started;
mod threads;
