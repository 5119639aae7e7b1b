//! What a person reads of each command's results, but for `compare`: tables for the terminal, and what stands on pages.
//!
//! Everything here is derived from a document of results, so that each file can be redrawn. Nothing measures, and
//! nothing fails: what a document lacks is named. [`report`] draws pages, plots and gates of any command, and all of
//! `compare`.
//!
//! # Where to change what
//!
//! - To change a table of a running switch: `ctl.rs`.
//! - To change a table or page of a command: the module of its name.
#![forbid(unsafe_code)]

pub mod crypto;
pub mod ctl;
pub mod host_interrupts;
pub mod host_verify;
pub mod kvm;
pub mod rfc2544;
pub mod scenario;
pub mod torture;
pub mod tti;
