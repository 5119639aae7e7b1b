//! Prepares a host for real-time guests: finds the settings to change, plans the changes, applies them, and restores
//! the old values; exporters to libvirt, Nova, KubeVirt, systemd.
//!
//! [`rules`] define the settings that a host should have. [`Audit`] is the result of the rules for one host; [`Plan`]
//! is the list of changes that would meet the rules; [`apply`] makes the changes that are possible at run time,
//! behind a [`journal`] from which [`undo`] restores the old values. All files are read through a [`HostTree`], so
//! that recorded hosts can be audited too.
//!
//! # Where to change what
//!
//! - To add a host rule: its group in `rules/`; a new kind of setting in `knob.rs`; the rule's results for the test
//!   hosts in `crates/host/tests/host/`.
//! - To add a form to `host export`: a module in `export/`, and an arm in
//!   `crates/tautline/src/host_command/`.
#![deny(unsafe_code)]

mod apply;
mod audit;
pub mod boot_line;
mod cgroups;
mod command_line;
mod counters;
mod cpu_events;
mod cpu_list;
mod drift;
mod edit;
pub mod export;
mod grub;
mod inside;
mod irqbalance;
pub mod journal;
mod knob;
mod pci_driver;
mod plan;
mod planning;
pub mod recorded;
mod render;
pub mod rules;
mod set_aside;
mod shell;
mod survey;
pub mod threads;
mod toggle;
mod tree;
mod tuned;
mod undo;

pub use apply::{Outcome, Picked, Summary, apply, note_what_holds};
pub use audit::{Audit, Finding};
pub use cgroups::partition_of;
pub use command_line::CommandLine;
pub use cpu_events::CpuEvents;
pub use cpu_list::{BadCpuList, CpuList, WrittenCpus};
pub use drift::{Broken, no_longer_holds};
pub use edit::Edit;
pub use knob::Knob;
pub use plan::{Plan, PlannedRule};
pub use render::isolated_in_words;
pub use set_aside::{Machine, SetAside};
pub use survey::{Profile, Survey, Wishes};
pub use threads::{Scheduling, Thread, ThreadId};
pub use toggle::{Toggle, ToggleFailure};
pub use tree::HostTree;
pub use undo::{PutBack, reboot_only, undo};
