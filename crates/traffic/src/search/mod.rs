//! Searches for what a device carries, as pure functions over `measure(load, duration)`.
//!
//! A search starts nothing, reads no clock and prints nothing: it asks the caller's closure for one trial
//! after another and draws its conclusion from the frame counts alone, in exact integer arithmetic. The same
//! answers of the closure give the same trials and the same result.
//!
//! A search is a plan, and [`run`] makes it; [`rfc2544::latency`] and [`rfc2544::back_to_back`] run by themselves.
//!
//! | search | question |
//! |---|---|
//! | [`rfc2544::ThroughputPlan`] | the highest load without a lost frame |
//! | [`rfc2544::FrameLossPlan`] | how much is lost at each load |
//! | [`rfc2544::latency`] | how long a frame takes at a given load |
//! | [`rfc2544::back_to_back`] | the longest burst without a lost frame (RFC 9004) |
//! | [`tst009::Plan`] | as throughput, a lossy trial being repeated before it counts (ETSI NFV-TST 009) |
//! | [`mlr::Plan`] | several goals of loss at once, both bounds of each (RFC 9971) |
//! | [`maximum::Plan`] | what comes through at the highest load, loss or no loss |
//! | [`kept`] | up to which load the generator itself can be believed |
//!
//! What they share: the closure answers with a result, with [`Measured::Invalid`] where the generator was
//! preempted or missed its rate (counted and repeated, never a result), or with an error, which ends the
//! search and passes through. A [`Budget`] bounds the trials; what it cut short says so as
//! [`Finding::Undecided`]. Every trial is shown to an observer when it is done, with the bounds known so far,
//! and is part of the result.
//!
//! The waits around a trial (2 s for residual frames, 5 s before the next, RFC 2544 section 23) are the
//! closure's. What else a caller wants to keep of a trial, such as a histogram, its closure puts aside; it is
//! called in the order of the records.
//!
//! ```
//! use std::convert::Infallible;
//! use std::time::Duration;
//!
//! use traffic::search::rfc2544::ThroughputPlan;
//! use traffic::search::{Budget, Finding, Load, Measured, SearchRange, Fraction, TrialResult, run};
//!
//! let fps = |rate| Load::new(rate).expect("not zero");
//! let plan = ThroughputPlan {
//!     range: SearchRange::new(fps(1_000), fps(14_880_952)).expect("smallest first"),
//!     width: Fraction::from_percent(0.5).expect("less than the whole"),
//!     final_trial: Duration::from_secs(60),
//!     search_trial: Some(Duration::from_secs(1)),
//! };
//! // A device that forwards five million frames per second and no more.
//! let measure = |load: Load, duration: Duration| {
//!     let received = load.min(fps(5_000_000)).frames_in(duration);
//!     let counts = TrialResult::new(load.frames_in(duration), received, duration);
//!     Ok::<_, Infallible>(Measured::Valid(counts.expect("possible counts")))
//! };
//! let Ok(found) = run(plan, &Budget::default(), measure, |progress| {
//!     println!("trial {}: {:?}", progress.trial.number, progress.bounds);
//! });
//! let Finding::Bracketed { lower, upper } = found.finding else { panic!("the limit is in the range") };
//! assert!(lower <= fps(5_000_000) && fps(5_000_000) < upper);
//! ```

mod bisection;
mod drive;
mod finding;
mod fraction;
mod kept;
mod load;
pub mod maximum;
pub mod mlr;
mod nanoseconds;
mod positive;
mod repeats;
pub mod rfc2544;
mod trial;
pub mod tst009;
mod verified;

pub use bisection::{SearchRange, Verification};
pub use drive::{Budget, Progress, invalid_trials, run};
pub use finding::{Bounds, Cut, Finding};
pub use fraction::Fraction;
pub use kept::kept;
pub use load::Load;
pub use trial::{CountError, Invalid, Measured, Record, TrialInput, TrialLength, TrialResult};
