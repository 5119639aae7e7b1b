//! The device halves of a guest's queues as source and sink.

mod from_guest;
mod stopped_at;
mod to_guest;

pub use crate::event_fd::{EventFd, NotAnEventFd};
pub use from_guest::FromGuest;
pub use stopped_at::StoppedAt;
pub use to_guest::{ToGuest, ToGuestOptions};
