//! Making processes.

use measure::Failure;
use rustix::io;
use rustix::process::WaitStatus;

use super::failure::call_failed;
use crate::batch::{self, Measured, Pace, Scale, timed};
use crate::sys;
use crate::trial::Trial;

/// The argument with which the binary returns at once: the program that the fork and exec workload starts.
pub const NOOP: &str = "agent-noop";

/// The way in which a process is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Birth {
    Fork,
    ForkExec,
}

impl Birth {
    pub(crate) const ALL: [Birth; 2] = [Birth::Fork, Birth::ForkExec];

    /// The rest of the metric's name and the title.
    pub(crate) fn names(self) -> (&'static str, &'static str) {
        match self {
            Birth::Fork => ("fork", "fork, exit, wait"),
            Birth::ForkExec => ("fork_exec", "fork, exec of a static program, exit, wait"),
        }
    }

    /// Measures it. The large areas of memory are hidden from children, and the caller has closed the
    /// sockets that other trials keep. A fork therefore costs the same whatever was measured before.
    pub(crate) fn measure(self, trial: &Trial, pace: &mut Pace) -> Result<Measured, Failure> {
        let argument = std::ffi::CString::new(NOOP).expect("no zero byte in a constant");
        batch::measure(trial.budget, Scale::nanos(1.0), pace, |units| {
            timed(|| {
                (0..units).try_for_each(|_| match self {
                    Birth::Fork => ended_well("fork", sys::fork_and_exit()),
                    Birth::ForkExec => ended_well(
                        "fork and exec of /proc/self/exe",
                        sys::fork_and_exec(c"/proc/self/exe", &argument),
                    ),
                })
            })
        })
    }
}

fn ended_well(tried: &str, status: io::Result<WaitStatus>) -> Result<(), Failure> {
    let status = status.map_err(call_failed(tried))?;
    match status.exit_status() {
        Some(0) => Ok(()),
        _ => Err(Failure::new(
            tried,
            format!("the child ended with {status:?}"),
            "mount /proc in this environment and let the agent's file be executed",
        )),
    }
}
