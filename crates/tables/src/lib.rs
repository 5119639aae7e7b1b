//! Text and pages for each command's results, except those of `compare`: tables for the terminal, and the content
//! of pages.
//!
//! Everything here is derived from a document of results, so that each file can be redrawn. Nothing here measures,
//! and no function fails: missing parts of a document are named in the output. The crate [`report`] draws pages,
//! plots and gates for all commands, and everything of `compare`.
//!
//! # Where to change what
//!
//! - To change a table of a running switch: `ctl.rs`.
//! - To change a table or page of a command: the module of its name.
#![forbid(unsafe_code)]

#[cfg(feature = "all-commands")]
pub mod crypto;
pub mod ctl;
pub mod host_interrupts;
pub mod host_verify;
pub mod kvm;
mod noise;
#[cfg(feature = "all-commands")]
pub mod rfc2544;
#[cfg(feature = "all-commands")]
pub mod scenario;
#[cfg(feature = "all-commands")]
pub mod torture;
pub mod tti;
