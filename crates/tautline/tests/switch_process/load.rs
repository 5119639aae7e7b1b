//! Two guests, frames from one to the other, and what became of each.
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::guest::{Guest, RECEIVE, TRANSMIT, frame};

/// Frames that are sent and not yet received, at most: there is a buffer for each, so none is dropped.
const WINDOW: usize = 24;
const BUFFERS: usize = 60;
/// Frames in the sender's ring, at most.
const RING: usize = 60;

/// Both guests, and what became of each frame.
pub struct Load {
    pub sender: Guest,
    pub receiver: Guest,
    pub sent: u32,
    pub completed: BTreeSet<u32>,
    /// How often each was received.
    pub received: BTreeMap<u32, u32>,
    /// Frames that came behind one that was sent later, for the first time.
    pub out_of_order: Vec<u32>,
    /// Frames that are not waited for any more.
    pub given_up: usize,
    posted: usize,
    last: Option<Instant>,
    longest_gap: Duration,
}

impl Load {
    pub fn new(sender: Guest, receiver: Guest) -> Self {
        Load {
            sender,
            receiver,
            sent: 0,
            completed: BTreeSet::new(),
            received: BTreeMap::new(),
            out_of_order: Vec::new(),
            given_up: 0,
            posted: 0,
            last: None,
            longest_gap: Duration::ZERO,
        }
    }

    /// The longest time without a frame since this was last asked. The gap begins again with the next frame: the
    /// caller's time in between does not count.
    pub fn longest_gap(&mut self) -> Duration {
        self.last = None;
        std::mem::take(&mut self.longest_gap)
    }

    /// Completed and not received.
    pub fn lost(&self) -> Vec<u32> {
        self.completed.iter().filter(|number| !self.received.contains_key(number)).copied().collect()
    }

    /// Received more often than once.
    pub fn doubled(&self) -> Vec<u32> {
        self.received.iter().filter(|(_, times)| **times > 1).map(|(number, _)| *number).collect()
    }

    /// Moves what can be moved.
    pub fn step(&mut self, sends: bool) {
        self.take();
        self.receiver.post(BUFFERS - self.posted);
        self.posted = BUFFERS;
        let may_send = |load: &Self| {
            let sent = load.sent as usize;
            sent < load.received.len() + load.given_up + WINDOW && sent < load.completed.len() + RING
        };
        while sends && may_send(self) {
            self.sender.send(&frame(self.sent, 100));
            self.sent += 1;
        }
    }

    /// Takes what the switch has completed and delivered.
    pub fn take(&mut self) {
        // Cookies count frames: both from 0, one by one.
        self.completed.extend(self.sender.used(TRANSMIT).iter().map(|used| used.cookie));
        for used in self.receiver.used(RECEIVE) {
            let bytes = self.receiver.received(&used);
            let number = u32::from_be_bytes(bytes[14..18].try_into().unwrap());
            assert_eq!(bytes, frame(number, 100), "frame {number} arrives as it was sent");
            let now = Instant::now();
            if let Some(last) = self.last.replace(now) {
                self.longest_gap = self.longest_gap.max(now - last);
            }
            let is_late = self.received.last_key_value().is_some_and(|(newest, _)| number < *newest);
            if is_late && !self.received.contains_key(&number) {
                self.out_of_order.push(number);
            }
            *self.received.entry(number).or_default() += 1;
            self.posted -= 1;
        }
    }

    pub fn in_flight(&self) -> BTreeSet<u32> {
        (0..self.sent).filter(|number| !self.completed.contains(number)).collect()
    }
}
