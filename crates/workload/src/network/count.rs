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
    /// What this end's thread took, from opening its sockets to its end.
    #[serde(default)]
    pub took: Took,
    /// All interrupts of this end's machine meanwhile; in a guest, those that the guest took. Counted by the near end
    /// only.
    #[serde(default)]
    pub interrupts: u64,
    /// Nanoseconds from the first message to the last, by this end's clock.
    pub elapsed_ns: u64,
}

/// What a thread took. An end that is in a guest counts the guest's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Took {
    /// On a CPU, ns.
    pub cpu_ns: u64,
    /// Times that it went to sleep.
    pub voluntary_switches: u64,
    /// Times that it was preempted.
    pub involuntary_switches: u64,
}

impl Took {
    /// By the calling thread until now.
    pub(super) fn until_now() -> Self {
        let usage = linux::usage::usage(linux::usage::Of::Thread).unwrap_or_default();
        // The clock counts what the thread is running for now too, which getrusage leaves out up to a tick.
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Took {
            cpu_ns: time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64,
            voluntary_switches: usage.voluntary_switches,
            involuntary_switches: usage.involuntary_switches,
        }
    }

    /// By the calling thread since then.
    pub(super) fn since(before: Self) -> Self {
        let now = Self::until_now();
        Took {
            cpu_ns: now.cpu_ns.saturating_sub(before.cpu_ns),
            voluntary_switches: now.voluntary_switches.saturating_sub(before.voluntary_switches),
            involuntary_switches: now.involuntary_switches.saturating_sub(before.involuntary_switches),
        }
    }
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
