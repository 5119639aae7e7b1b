//! Host rules: probe, plan, apply, verify, undo; exporters to libvirt, Nova, KubeVirt, systemd.
//!
//! [`capability`] is what this machine can do, every line proved by doing it; [`tuning`] makes it ready for
//! real-time guests.
//!
//! # Where to change what
//!
//! - To add a host rule: its group in `tuning/rules/`; a new kind of thing to set in `knob.rs`; what it says of the
//!   hosts in `crates/host/tests/tuning/`.
//! - To add a form to `host export`: a module in `tuning/export/`, and an arm in
//!   `crates/tautline/src/host_command/`.
//! - To add a line to doctor: `capability/`.
#![deny(unsafe_code)]

pub mod capability;
#[expect(unsafe_code, reason = "system calls that no library wraps")]
mod sys;
pub mod tuning;
