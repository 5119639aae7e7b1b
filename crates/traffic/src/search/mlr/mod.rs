//! MLRsearch (RFC 9971): several goals in one search, each with its own loss ratio and trial duration. Both bounds
//! and the conditional throughput are reported.
//!
//! The classification of a load ([`classify`]) and the [`conditional_throughput`] make results comparable with other
//! implementations. Both follow the RFC, in exact integers. The RFC leaves open which load is tried next. This search
//! begins with coarser targets (docs/decisions/mlrsearch.md); a test compares it with FD.io's own package.

mod classify;
mod conditional;
mod controller;
mod goal;
mod loads;
mod selector;
mod target;

pub use classify::{Class, LoadTrial, classify};
pub use conditional::conditional_throughput;
pub use controller::{GoalResult, LowerBound, Outcome, Plan};
pub use goal::{Goal, GoalError};
