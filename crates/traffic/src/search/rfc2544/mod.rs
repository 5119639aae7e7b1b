//! The benchmarks of RFC 2544 section 26, with back-to-back as updated by RFC 9004.

mod back_to_back;
mod frame_loss;
mod latency;
mod throughput;

pub use back_to_back::{
    BackToBack, BackToBackPlan, Burst, BurstInput, BurstSearch, BurstStatistics, BurstTrials, back_to_back,
};
pub use frame_loss::{FrameLoss, FrameLossPlan, LossPoint, Step};
pub use latency::{Latency, LatencyPlan, latency};
pub use throughput::{Throughput, ThroughputPlan};
