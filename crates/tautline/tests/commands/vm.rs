//! `tautline vm` as a user calls it, on QEMU's emulated CPU; what it says it set is read back from `/proc`.

mod attached;
mod compared;
mod guest;
mod libvirt;
mod pv_sched;
mod refused;
mod started;
mod threads;
