//! Samples, histograms, paired ratios with confidence, noise checks, host facts, the results file.
//!
//! The data flow: a [`MetricSpec`] describes a metric; a [`Trial`] is one measurement of the metric in one
//! environment, with the [`Noise`] around it; [`Results`] keeps all raw data; [`compare::analyse`] derives every
//! printed figure from it, so that a results file can be printed again at any time.
//!
//! # Where to change what
//!
//! - To change how ratios are judged: `bootstrap.rs` and `median_interval.rs`, with their coverage tests.
#![forbid(unsafe_code)]

pub mod bootstrap;
pub mod classes;
pub mod compare;
pub mod difference;
#[cfg(any(test, feature = "example"))]
pub mod example;
mod failure;
mod histogram;
pub mod host_facts;
pub mod label_exchange;
pub mod load;
pub mod median_interval;
mod metric;
pub mod network;
pub mod noise;
pub mod quota;
mod resampled;
mod results;
pub mod siblings;
pub mod statistics;
mod trial;
pub mod window;

pub use failure::Failure;
pub use histogram::{Histogram, HistogramError};
pub use load::LoadError;
pub use metric::{CurvePoint, Direction, Group, MetricId, MetricSpec, Unit};
pub use noise::{Noise, NoiseProbe, Preemption};
pub use results::{
    Absence, EnvironmentKind, EnvironmentRecord, Plan, QuotaRecord, Results, SCHEMA, SaveError, save_json,
};
pub use trial::{Outcome, Trial, Verdict};
