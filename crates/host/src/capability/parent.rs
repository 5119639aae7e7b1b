//! The process that started this probe.

use linux::child::end_with;
use rustix::process::{Pid, Signal};

/// Tells a probe who started it.
pub const VARIABLE: &str = "TAUTLINE_PROBE_PARENT";

/// Lets this process be killed when the one that started it ends. Called again after every change of
/// credentials, and a new user namespace is one.
pub fn end_with_parent() {
    let parent = std::env::var(VARIABLE).ok().and_then(|text| Pid::from_raw(text.parse().ok()?));
    // Without the variable somebody runs the probe by hand.
    if let Some(parent) = parent
        && end_with(parent, Signal::KILL).is_err()
    {
        std::process::exit(1);
    }
}
