//! The process that started this probe.

use linux::child::end_with;
use rustix::process::{Pid, Signal};

/// The environment variable that holds the process id of a probe's parent.
pub const VARIABLE: &str = "TAUTLINE_PROBE_PARENT";

/// Lets the kernel kill this process when its parent ends. Must be called again after every change of credentials,
/// such as a new user namespace, which clears the setting.
pub fn end_with_parent() {
    let parent = std::env::var(VARIABLE).ok().and_then(|text| Pid::from_raw(text.parse().ok()?));
    // Without the variable the probe was started by hand.
    if let Some(parent) = parent
        && end_with(parent, Signal::KILL).is_err()
    {
        std::process::exit(1);
    }
}
