//! Operating-system services for a process.

mod calls;
mod channel;
mod failure;
mod processes;
mod ring;
mod sockets;

pub(crate) use calls::Call;
pub(crate) use channel::{Channel, Exchange, measure as exchange};
pub(crate) use processes::Birth;
pub use processes::NOOP;
pub(crate) use ring::{Ring, measure as context_switch};
pub(crate) use sockets::{Poll, Sockets, measure as poll};
