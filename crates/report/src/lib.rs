//! Tables for the terminal, one self-contained HTML page with plots, gates, and runs side by side.
//!
//! Input is [`measure::Results`] and what [`measure::compare::analyse`] derives from it. Nothing here
//! measures, and no function fails: any results file is drawn, and missing parts are named in the output.
//!
//! Two rules hold for every output. A figure of an emulated CPU carries [`EMULATED_MARK`], and
//! every text from a results file is data: control characters never reach the terminal, and markup never
//! reaches the page.
//!
//! # Where to change what
//!
//! - To change a table or plot: `terminal/`, `plot/`. To change the summary at the end of a run: `screen.rs`.
//! - To add a field to a document: its JSON Schema in `crates/report/schema/`, and `docs/results-schema.md`. Tests
//!   check documents against the schema by `peers::schema`.
#![forbid(unsafe_code)]

mod canvas;
pub mod coverage;
pub mod diff;
mod gaps;
pub mod gate;
pub mod html;
mod in_short;
pub mod markdown;
mod network;
mod plot;
mod published;
pub mod screen;
pub mod several;
pub mod share;
pub mod terminal;
pub mod units;
mod view;

/// Marks every figure of an emulated CPU.
pub const EMULATED_MARK: &str = "†";

/// The explanation of the mark, below every table that uses it.
pub const EMULATED_MEANING: &str = "emulated CPU: shows that the path works, not how fast it is";
