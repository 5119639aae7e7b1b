//! Each search against simulated devices whose answers are known.

mod halving;
mod mlr;
mod plain;
mod simulated;
