//! Tests the capabilities of this machine: every capability is proved by using it, in a process of its own, within a
//! time limit, and nothing is left behind.
//!
//! [`run_all`] starts the binary again for every probe, as `BINARY probe NAME`; that process calls
//! [`serve_probe`]. A probe may therefore enter namespaces, change its scheduling class, hang or crash.
//!
//! # Where to change what
//!
//! - To add a line to `tautline doctor`: a module in `probes/`, and its name in `probes/mod.rs`.
#![deny(unsafe_code)]

mod files;
mod finding;
mod leftover;
mod parent;
mod probes;
mod render;
mod run;
mod serve;
#[expect(unsafe_code, reason = "system calls that no library wraps")]
mod sys;

pub use finding::{Capability, State};
pub use probes::NAMES;
pub use render::render;
pub use run::{ARGUMENT, run_all, run_one};
pub use serve::{probe, serve_probe};
