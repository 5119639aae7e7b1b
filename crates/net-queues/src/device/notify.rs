//! A notification, counted.
use frame::QueueCounters;
use vhost_device::EventFd;

/// Notifies if the peer wants it, and counts the notification as sent or suppressed.
#[inline(always)]
pub(crate) fn notify_if(call: &EventFd, wanted: bool, counters: &QueueCounters) {
    match wanted {
        true => {
            call.notify();
            counters.notified();
        }
        false => counters.suppressed(),
    }
}
