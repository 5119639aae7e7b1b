//! Searches for the limits of a device, as pure functions over `measure(load, duration)`.
//!
//! A search starts nothing, reads no clock and prints nothing. It calls the caller's closure for one trial after
//! another and derives its result from the frame counts alone, in exact integer arithmetic. The same results of the
//! closure give the same trials and the same final result.
//!
//! A search is a plan, which [`run`] carries out; [`rfc2544::latency`] and [`rfc2544::back_to_back`] are separate
//! functions.
//!
//! | search | question |
//! |---|---|
//! | [`rfc2544::ThroughputPlan`] | the highest load without a lost frame |
//! | [`rfc2544::FrameLossPlan`] | the loss at each load |
//! | [`rfc2544::latency`] | the latency at a given load |
//! | [`rfc2544::back_to_back`] | the longest burst without a lost frame (RFC 9004) |
//! | [`tst009::Plan`] | as throughput, but a lossy trial is repeated before it counts (ETSI NFV-TST 009) |
//! | [`mlr::Plan`] | several loss goals at once, with both bounds of each (RFC 9971) |
//! | [`maximum::Plan`] | the received rate at the highest load, at any loss |
//! | [`kept`] | the highest load that the generator itself sustains |
//!
//! All of them share the closure. It returns a result, or [`Measured::Invalid`] if the generator was preempted or
//! missed its rate (such a trial is counted and repeated, and is never a result), or an error, which ends the search
//! and is passed on. A [`Budget`] limits the trials. A search that it cuts short returns [`Finding::Undecided`].
//! Every trial is passed to an observer with the bounds so far, and is part of the result.
//!
//! The closure also does the waits around a trial (2 s for residual frames, 5 s before the next, RFC 2544 section
//! 23). The closure can store further results of a trial, such as a histogram. It is called in the order of the
//! records.
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
