use measure::Histogram;
use serde::{Deserialize, Serialize};

/// The counts of one end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Messages that this end sent.
    pub sent: u64,
    /// Messages that this end received complete and without an error.
    pub received: u64,
    /// Bytes of payload that this end sent.
    pub sent_bytes: u64,
    /// Bytes of payload that this end received.
    pub received_bytes: u64,
    /// Messages whose contents changed on the way.
    pub corrupt: u64,
    /// Messages that arrived after a later one.
    pub reordered: u64,
    /// Messages that the system refused to take at that time (ENOBUFS and the like): these were not sent, and do not
    /// count as lost.
    pub refused: u64,
    /// Messages that were sent more than 1 ms after they were due.
    pub late: u64,
    /// System calls that this end made to send and receive.
    #[serde(default)]
    pub calls: u64,
    /// The CPU time and switches of this end's thread, from opening its sockets to its end.
    #[serde(default)]
    pub took: Took,
    /// All interrupts of this end's machine during the flow; in a guest, the interrupts of the guest. Only the near
    /// end counts them.
    #[serde(default)]
    pub interrupts: u64,
    /// The time from the first message to the last, by this end's clock, in ns.
    pub elapsed_ns: u64,
}

/// The CPU time and the context switches of a thread. An end in a guest counts the guest's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Took {
    /// The time on a CPU, in ns.
    pub cpu_ns: u64,
    /// The number of times that the thread went to sleep.
    pub voluntary_switches: u64,
    /// The number of times that the thread was preempted.
    pub involuntary_switches: u64,
}

impl Took {
    /// The usage of the calling thread until now.
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

    /// The usage of the calling thread since `before`.
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
    /// Bytes of payload received in a second; 0 if nothing arrived.
    pub fn received_per_second(&self) -> f64 {
        per_second(self.received_bytes, self.elapsed_ns)
    }

    /// Bytes of payload sent in a second.
    pub fn sent_per_second(&self) -> f64 {
        per_second(self.sent_bytes, self.elapsed_ns)
    }
}

fn per_second(amount: u64, elapsed_ns: u64) -> f64 {
    if elapsed_ns == 0 { 0.0 } else { amount as f64 * 1e9 / elapsed_ns as f64 }
}

/// The result of the near end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NearOutcome {
    /// Its counts.
    pub counts: Counts,
    /// For requests and responses: the times from request to response. If the flow is paced, a time starts at the
    /// instant when the request was due (coordinated omission).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Histogram>,
    /// Requests that were never answered.
    #[serde(default)]
    pub unanswered: u64,
}
