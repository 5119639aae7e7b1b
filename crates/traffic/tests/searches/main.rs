//! Each search against simulated devices whose answers are known.

mod against_mlrsearch;
mod halving;
mod mlr;
mod plain;
mod simulated;
