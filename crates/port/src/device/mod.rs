//! The device halves of a guest's queues as source and sink.
mod event_fd;
mod from_guest;
mod to_guest;

pub use event_fd::{EventFd, NotAnEventFd};
pub use from_guest::FromGuest;
pub use to_guest::{Filter, ToGuest, ToGuestOptions};
