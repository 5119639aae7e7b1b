//! Host rules: probe, plan, apply, verify, undo; exporters to libvirt, Nova, KubeVirt, systemd.
//!
//! [`capability`] is what this machine can do, every line proved by doing it; [`tuning`] makes it ready for
//! real-time guests.
#![deny(unsafe_code)]

pub mod capability;
#[expect(unsafe_code, reason = "system calls that no library wraps")]
mod sys;
pub mod tuning;
