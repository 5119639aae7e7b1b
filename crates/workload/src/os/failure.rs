//! The common form of these workloads' failures.

use measure::Failure;

/// The failure of a system call whose only remedy is to check the environment.
pub(super) fn call_failed<E: Into<std::io::Error>>(tried: impl Into<String>) -> impl FnOnce(E) -> Failure {
    move |error| {
        Failure::new(
            tried,
            error.into(),
            "allow the agent this call in this environment (seccomp, limits, memory)",
        )
    }
}
