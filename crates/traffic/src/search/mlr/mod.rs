//! MLRsearch (RFC 9971): several goals in one search, each with its own loss ratio and trial duration, both
//! bounds and the conditional throughput reported.
//!
//! What makes results comparable with other implementations is the classification of a load
//! ([`classify`]) and the [`conditional_throughput`]; both are the RFC's, in exact integers. Which load is
//! tried next is this project's own choice, which the RFC leaves free.

mod classify;
mod conditional;
mod controller;
mod goal;

pub use classify::{Class, LoadTrial, classify};
pub use conditional::conditional_throughput;
pub use controller::{GoalResult, LowerBound, Outcome, Plan, search};
pub use goal::{Goal, GoalError};
