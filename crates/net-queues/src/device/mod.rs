//! The device halves of a guest's queues as sources and sinks.

mod from_guest;
mod notify;
mod ring_queue;
mod to_guest;

pub use from_guest::FromGuest;
use notify::notify_if;
pub use to_guest::{ToGuest, ToGuestOptions};
pub use vhost_device::{EventFd, NotAnEventFd, StoppedAt};
