//! What the kernel does for a process.

mod calls;
mod channel;
mod processes;
mod ring;
mod sockets;

use measure::Failure;

pub(crate) use calls::Call;
pub(crate) use channel::{Channel, Exchange, measure as exchange};
pub(crate) use processes::Birth;
pub(crate) use ring::{Ring, measure as context_switch};
pub(crate) use sockets::{Poll, Sockets, measure as poll};

/// The failure of a system call that has no remedy but to look at the environment.
fn call_failed<E: Into<std::io::Error>>(tried: impl Into<String>) -> impl FnOnce(E) -> Failure {
    move |error| {
        Failure::new(
            tried,
            error.into(),
            "allow the agent this call in this environment (seccomp, limits, memory)",
        )
    }
}
