//! MLRsearch (RFC 9971): several goals in one search, each with its own loss ratio and trial duration, both
//! bounds and the conditional throughput reported.
//!
//! What makes results comparable with other implementations is the classification of a load
//! ([`classify`]) and the [`conditional_throughput`]; both are the RFC's, in exact integers. Which load is
//! tried next the RFC leaves free: coarser targets first (docs/decisions/mlrsearch.md), which a test holds
//! against FD.io's own package.

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
