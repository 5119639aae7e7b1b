//! One trial: frames are sent by a schedule, what comes back is checked, and the generator is watched too.
mod clock;
mod pace;
mod run;

pub use run::{Lane, LaneOutcome, Load, Plan, TrialOutcome, is_late, run, warm_up};
