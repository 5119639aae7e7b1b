//! Scenarios: chains of programs that pass frames on at each tick, connected by a switch. They measure how many users
//! such a chain serves in time.
//!
//! A [`description`] names the chain, its tick and its parameters. It is a file that users edit. Each member of the
//! [`chain`] is a separate process with its own port. Its processing of frames is one of the works in [`radio`] (a
//! base station) or [`control`] (a control loop).
//!
//! # Where to change what
//!
//! - To change where a scenario's members run, or how a guest's clock is aligned with the host's:
//!   `crates/lab/src/chains/chain.rs`, `crates/workload/src/chain/join.rs`; `crates/clocks/`.
#![forbid(unsafe_code)]

pub mod chain;
mod control;
pub mod description;
mod radio;
pub mod search;
mod work;

pub use description::Description;
