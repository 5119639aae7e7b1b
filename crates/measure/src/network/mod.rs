//! The group `net`: paths, the flows over them, and what each packet cost.
//!
//! Rates, latencies and costs are metrics as all others are, with trials of their own. What stands here is what the
//! others have not: of which pieces a path consists, and for each trial what was sent, received and lost, and where
//! the CPU time went.

#[cfg(any(test, feature = "example"))]
pub mod example;
mod ladder;
mod line_rate;

use linux::cpu_time::CpuTime;
use serde::{Deserialize, Serialize};

use crate::{Failure, MetricId};

pub use ladder::{Figures, Rung, figures, rungs};
pub use line_rate::{LINE_RATES_GBPS, cores, datagrams_per_second};

/// The part of a results file that the group fills.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// Every path that was asked for, those that are not there too.
    pub paths: Vec<PathRecord>,
    /// Every flow over every path, and its metrics.
    pub flows: Vec<FlowRecord>,
    /// Every trial, the discarded ones too.
    pub trials: Vec<NetworkTrial>,
}

impl Network {
    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// The path of a metric.
    pub fn path_of(&self, metric: &MetricId) -> Option<&PathRecord> {
        let flow = self.flows.iter().find(|flow| flow.metric == *metric || flow.cost == *metric)?;
        self.paths.iter().find(|path| path.name == flow.path)
    }
}

/// A path between two ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathRecord {
    /// Its name within metrics: `veth_bridge`.
    pub name: String,
    /// What it consists of, from the near end on: `["veth", "bridge"]`.
    pub pieces: Vec<String>,
    /// The path that it is with one piece less: what it costs more than that one is the piece's own cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adds_to: Option<String>,
    /// Whether an end of it has an emulated CPU.
    #[serde(default)]
    pub emulated: bool,
    /// Why it is not there, or not to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// A flow over a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowRecord {
    /// Its rate, or its round trip.
    pub metric: MetricId,
    /// Its CPU time for each packet or transaction.
    pub cost: MetricId,
    /// The path's name.
    pub path: String,
    /// The work's name, the same on all paths: `udp_stream.64`.
    pub work: String,
    /// In words: `UDP stream, 64 bytes`.
    pub title: String,
    /// Payload of a message, bytes.
    pub message_bytes: u64,
    /// Whether its messages are datagrams that go one way: packets that can be counted and set against a line rate.
    pub datagrams: bool,
}

/// One trial of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkTrial {
    /// The flow, by its metric.
    pub metric: MetricId,
    /// The environment.
    pub environment: String,
    /// The block.
    pub block: u32,
    /// The round within it.
    pub round: u32,
    /// Whether it counts.
    pub counts: bool,
    /// Messages, or requests, that were sent.
    pub sent: u64,
    /// Messages, or answers, that arrived whole.
    pub received: u64,
    /// Messages that were sent and did not arrive.
    pub lost: u64,
    /// Messages that the sender's system refused for now: neither sent nor lost.
    pub refused: u64,
    /// Payload that arrived, bytes.
    pub received_bytes: u64,
    /// What it took.
    pub cost: Cost,
}

/// The role of the thread that sends; of requests and answers the one that asks.
pub const SENDER: &str = "sender";
/// The role of the thread that receives, or answers.
pub const RECEIVER: &str = "receiver";
/// The virtual CPUs of the guest that sends: its thread's time is in theirs.
pub const SENDING_VCPU: &str = "vCPU, sending";
/// The virtual CPUs of the guest that receives, or answers.
pub const RECEIVING_VCPU: &str = "vCPU, receiving";

/// Whether a role's time goes by what was sent.
fn is_sending(role: &str) -> bool {
    role == SENDER || role == SENDING_VCPU
}

impl NetworkTrial {
    /// CPU time of a packet that is sent and arrives, ns: the sender's by what it sent, all others' by what arrived. What
    /// is lost costs its sender as much as what arrives, and would else be counted as a cost of what arrives.
    pub fn ns_per_packet(&self) -> f64 {
        let of_role = |role: &RoleCost| role.cpu_ns as f64 / self.divisor(&role.role) as f64;
        self.cost.roles.iter().map(of_role).sum()
    }

    fn divisor(&self, role: &str) -> u64 {
        if is_sending(role) { self.sent } else { self.received }
    }
}

/// What a trial took on this machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// CPU time of all that worked for the flow, ns: its threads, and what interrupts took beside them.
    pub cpu_ns: u64,
    /// CPU time by the role of a thread.
    pub roles: Vec<RoleCost>,
    /// Time of the trial's CPUs by kind, other processes' included. The kernel counts it in ticks of 10 ms.
    pub kinds: CpuTime,
    /// System calls of the two ends, where they count them.
    pub calls: u64,
    /// Hardware interrupts of the whole machine.
    pub interrupts: u64,
    /// Software interrupts of the whole machine.
    pub softirqs: u64,
    /// What went between a guest and its host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<GuestCounts>,
}

/// Exits and other transitions between a guest and its host. None where the kernel does not count them for an
/// ordinary user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GuestCounts {
    /// Exits of its virtual CPUs: where KVM runs them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exits: Option<u64>,
    /// Interrupts that it took, those of its timers among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupts: Option<u64>,
    /// Kicks that its driver sent: where a switch in user space takes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kicks: Option<u64>,
    /// Frames that its driver made available without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kicks_suppressed: Option<u64>,
    /// Calls that its driver was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Bursts that it had asked not to be called for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_suppressed: Option<u64>,
}

impl GuestCounts {
    /// All of it with names, in the order in which it is shown.
    pub fn each(&self) -> [(&'static str, Option<u64>); 6] {
        [
            ("exits", self.exits),
            ("interrupts taken", self.interrupts),
            ("kicks", self.kicks),
            ("kicks suppressed", self.kicks_suppressed),
            ("calls", self.calls),
            ("calls suppressed", self.calls_suppressed),
        ]
    }
}

/// What the threads of one role took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoleCost {
    /// `sender`, `receiver`, `switch worker`, `OVS PMD thread`, `vCPU, sending`, `QEMU I/O thread`, `vhost worker`,
    /// `softirq`, and the like.
    pub role: String,
    /// CPU time, ns.
    pub cpu_ns: u64,
    /// Times that they went to sleep.
    pub voluntary_switches: u64,
    /// Times that they were preempted.
    pub involuntary_switches: u64,
}

/// CPU time by kind, ns: names and times, in the order in which they are shown.
pub fn kinds(time: &CpuTime) -> [(&'static str, u64); 6] {
    [
        ("user", time.user_ns),
        ("system", time.system_ns),
        ("irq", time.irq_ns),
        ("softirq", time.softirq_ns),
        ("guest", time.guest_ns),
        ("steal", time.steal_ns),
    ]
}
