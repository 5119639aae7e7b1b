//! Host rules: probe, plan, apply, verify, undo; exporters to libvirt, Nova, KubeVirt, systemd.
//!
//! The first room is [`capability`]: what this machine can do, every line proved by doing it.
#![deny(unsafe_code)]

pub mod capability;
#[expect(unsafe_code, reason = "system calls that no library wraps")]
mod sys;
