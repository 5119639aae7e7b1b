//! One trial: frames are sent by a schedule, received frames are checked, and the generator itself is monitored.
mod clock;
mod pace;
mod run;

pub use run::{Lane, LaneOutcome, Load, Plan, TrialOutcome, is_late, run, warm_up};
