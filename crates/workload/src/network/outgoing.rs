//! Outgoing messages: the time when each is due, its bytes, and the counts.

use super::count::Counts;
use super::flow::Flow;
use super::message;
use super::schedule::{LATE_NS, Schedule};
use crate::clock::now_ns;

/// The state of a flow's sender.
pub(super) struct Outgoing {
    /// The counts of the sent messages.
    pub counts: Counts,
    bytes: Vec<u8>,
    schedule: Schedule,
    start_ns: u64,
    last_ns: u64,
    verify: bool,
}

impl Outgoing {
    /// Starts the flow now.
    pub fn start(flow: &Flow) -> Self {
        let mut bytes = vec![0; flow.message_bytes];
        message::write(&mut bytes, 0);
        let schedule = Schedule::start(flow.duration, flow.per_second);
        let start_ns = now_ns();
        Outgoing {
            counts: Counts::default(),
            bytes,
            schedule,
            start_ns,
            last_ns: start_ns,
            verify: flow.verify,
        }
    }

    /// Waits until the message at this place is due, and returns that time; `None` at the end of the flow.
    pub fn wait(&self, place: u64) -> Option<u64> {
        self.schedule.wait(place)
    }

    /// The bytes of a message.
    pub fn message(&mut self, number: u64) -> &[u8] {
        if self.verify {
            message::write(&mut self.bytes, number)
        } else {
            message::write_header(&mut self.bytes, number)
        }
        &self.bytes
    }

    /// Counts a sent message that was due at `due_ns`.
    pub fn sent(&mut self, due_ns: u64) {
        self.last_ns = now_ns();
        self.counts.sent += 1;
        self.counts.sent_bytes += self.bytes.len() as u64;
        self.counts.late += u64::from(self.last_ns.saturating_sub(due_ns) > LATE_NS);
    }

    /// The counts of all sent messages, and the time that sending took.
    pub fn finish(self) -> Counts {
        Counts { elapsed_ns: self.last_ns - self.start_ns, ..self.counts }
    }
}
