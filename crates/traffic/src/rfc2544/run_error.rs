//! Why a run ended early.
use linux::interrupt::Interrupted;
use measure::SaveError;

use super::job::LEAST_FPS;
use crate::rig::RigError;
use crate::search::mlr::GoalError;

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The user interrupted.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// A port failed, or its peer did not connect.
    #[error(transparent)]
    Rig(#[from] RigError),
    /// The trial's length is invalid for a search.
    #[error(transparent)]
    Goal(#[from] GoalError),
    /// The results could not be saved.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// No frames are forwarded between the ports.
    #[error(
        "no frame of {mix} bytes came back within {waited_s} s; see that the switch forwards between the ports \
         (both must be up, and take frames of this length)"
    )]
    NothingCameBack {
        /// The size or mix.
        mix: String,
        /// How long frames were waited for, in seconds.
        waited_s: u64,
    },
    /// The device forwards too little to search.
    #[error("no rate between {LEAST_FPS} and {most} frames/s to search in")]
    NoRange {
        /// The highest rate that may be offered.
        most: u64,
    },
    /// There was no trial for the maximum.
    #[error("no trial for the maximum")]
    NoTrial,
    /// A share of the throughput is below one frame a second.
    #[error("no latency at 0 frames/s")]
    NoLoad,
}
