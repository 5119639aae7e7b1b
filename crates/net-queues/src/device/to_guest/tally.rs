//! The deliveries of one call, and their notes for the next process.
use std::borrow::Cow;

use virtqueue::Position;

use deliveries::{Past, ReceiverLog, SenderLog};
use frame::{DropReason, QueueCounters};

/// The deliveries of one call.
#[derive(Default)]
pub(super) struct Tally<'a> {
    pub frames: u64,
    pub bytes: u64,
    /// The frames of the call, and how many of them are processed.
    which: &'a [u16],
    pub done: usize,
    /// The log in which frames are noted before the driver can see them, and how many are noted.
    log: Option<&'a SenderLog>,
    noted: usize,
}

impl<'a> Tally<'a> {
    /// A tally for a call with these frames.
    #[inline(always)]
    pub fn new(log: Option<&'a SenderLog>, which: &'a [u16]) -> Self {
        Tally { log, which, ..Tally::default() }
    }

    /// Notes that the processed frames are about to be published to this receiveq, which is at position `at`.
    #[inline(always)]
    pub fn publish(&mut self, to: Option<&ReceiverLog>, at: impl FnOnce() -> Position) {
        if let (Some(sender), Some(receiver)) = (self.log, to) {
            let from = std::mem::replace(&mut self.noted, self.done);
            sender.note(receiver, at(), &self.which[from..self.done]);
        }
    }
}

/// The frames that an earlier process had not delivered before it crashed. Frames that it had delivered are counted.
#[inline(always)]
pub(super) fn undelivered<'a>(
    log: Option<&SenderLog>,
    to: Option<&ReceiverLog>,
    which: &'a [u16],
    counters: &QueueCounters,
) -> Cow<'a, [u16]> {
    match log.and_then(SenderLog::past) {
        None => Cow::Borrowed(which),
        Some(past) => Cow::Owned(left_of(past, to, which, counters)),
    }
}

#[cold]
fn left_of(past: &Past, to: Option<&ReceiverLog>, which: &[u16], counters: &QueueCounters) -> Vec<u16> {
    let left = past.left_for(to, which);
    counters.dropped(DropReason::AlreadyDelivered, (which.len() - left.len()) as u64);
    left
}
