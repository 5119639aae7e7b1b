//! Tables for the terminal, one self-contained HTML page with plots, gates, and runs side by side.
//!
//! Input is [`measure::Results`] and what [`measure::compare::analyse`] derives from it. Nothing here
//! measures, and nothing here fails: whatever a results file holds, it is drawn, and what it lacks is named.
//!
//! Two rules hold for every output. A figure of an emulated CPU carries [`EMULATED_MARK`], and
//! every text from a results file is data: control characters never reach the terminal, and markup never
//! reaches the page.
//!
//! # Where to change what
//!
//! - To change a table or plot: `terminal/`, `plot/`; the answer that a run ends with: `screen.rs`.
//! - To add a field to a document: its JSON Schema in `crates/report/schema/`, and `docs/results-schema.md`: tests
//!   hold documents against it by `peers::schema`.
#![forbid(unsafe_code)]

mod canvas;
pub mod coverage;
pub mod diff;
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

/// Stands at every figure of an emulated CPU.
pub const EMULATED_MARK: &str = "†";

/// What the mark means, wherever it is used.
pub const EMULATED_MEANING: &str = "emulated CPU: shows that the path works, not how fast it is";
