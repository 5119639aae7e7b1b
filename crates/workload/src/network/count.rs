use measure::Histogram;
use serde::{Deserialize, Serialize};

/// What one end did and saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Messages that this end sent.
    pub sent: u64,
    /// Messages that this end received, whole and right.
    pub received: u64,
    /// Bytes of payload that it sent.
    pub sent_bytes: u64,
    /// Bytes of payload that it received.
    pub received_bytes: u64,
    /// Messages that were not as they were sent.
    pub corrupt: u64,
    /// Messages that came after a later one.
    pub reordered: u64,
    /// Messages that the system refused to take for now (ENOBUFS and the like): not sent, not lost.
    pub refused: u64,
    /// Messages that were sent more than a millisecond after they were due.
    pub late: u64,
    /// System calls that this end made to send and receive.
    #[serde(default)]
    pub calls: u64,
    /// Nanoseconds from the first message to the last, by this end's clock.
    pub elapsed_ns: u64,
}

impl Counts {
    /// Bytes of payload received a second; 0 where nothing came.
    pub fn received_per_second(&self) -> f64 {
        per_second(self.received_bytes, self.elapsed_ns)
    }

    /// Bytes of payload sent a second.
    pub fn sent_per_second(&self) -> f64 {
        per_second(self.sent_bytes, self.elapsed_ns)
    }
}

fn per_second(amount: u64, elapsed_ns: u64) -> f64 {
    if elapsed_ns == 0 { 0.0 } else { amount as f64 * 1e9 / elapsed_ns as f64 }
}

/// What the near end hands back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NearOutcome {
    /// Its counts.
    pub counts: Counts,
    /// Of requests and responses: times from request to response, from the instant at which the request was due
    /// where the flow is paced (coordinated omission).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Histogram>,
    /// Requests that were never answered.
    #[serde(default)]
    pub unanswered: u64,
}
