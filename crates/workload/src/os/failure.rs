//! What all of these have in common when they fail.

use measure::Failure;

/// The failure of a system call that has no remedy but to look at the environment.
pub(super) fn call_failed<E: Into<std::io::Error>>(tried: impl Into<String>) -> impl FnOnce(E) -> Failure {
    move |error| {
        Failure::new(
            tried,
            error.into(),
            "allow the agent this call in this environment (seccomp, limits, memory)",
        )
    }
}
