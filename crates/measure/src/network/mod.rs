//! The group `net`: paths, the flows over them, and the cost of each packet.
//!
//! Rates, latencies and costs are metrics like all others, with trials of their own. This module holds the additional
//! data: the parts of each path, and for each trial the sent, received and lost messages and the use of the CPU time.

#[cfg(any(test, feature = "example"))]
pub mod example;
mod ladder;
mod line_rate;

use linux::cpu_time::CpuTime;
use serde::{Deserialize, Serialize};

use crate::{Failure, MetricId};

pub use ladder::{Figures, Rung, figures, rungs};
pub use line_rate::{LINE_RATES_GBPS, cores, datagrams_per_second};

/// The part of a results file that belongs to the group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// Every path that was asked for, including the paths that could not be built.
    pub paths: Vec<PathRecord>,
    /// Every flow over every path, with its metrics.
    pub flows: Vec<FlowRecord>,
    /// Every trial, including the discarded ones.
    pub trials: Vec<NetworkTrial>,
}

impl Network {
    /// Whether no path was asked for.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// The path to which a metric belongs.
    pub fn path_of(&self, metric: &MetricId) -> Option<&PathRecord> {
        let flow = self.flows.iter().find(|flow| flow.metric == *metric || flow.cost == *metric)?;
        self.paths.iter().find(|path| path.name == flow.path)
    }
}

/// A path between two ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathRecord {
    /// The path's name within metrics, such as `veth_bridge`.
    pub name: String,
    /// The parts of the path, from the near end: `["veth", "bridge"]`.
    pub pieces: Vec<String>,
    /// The path with one part less; the difference of the two costs is the part's own cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adds_to: Option<String>,
    /// Whether an end of the path has an emulated CPU.
    #[serde(default)]
    pub emulated: bool,
    /// The copies of a frame's payload; `None` in files of versions that do not state them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<Copies>,
    /// The reason why the path could not be built, or failed during the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// How often CPUs copy the payload of a frame between the socket buffers of the two ends. The copies between a program and
/// its socket are not among them: all paths have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copies {
    /// The copies of a frame that the near end sends.
    pub from_near: u32,
    /// The copies of a frame that the far end sends.
    pub from_far: u32,
}

/// A flow over a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowRecord {
    /// The metric of the flow's rate or round trip.
    pub metric: MetricId,
    /// The metric of the CPU time for each packet or transaction.
    pub cost: MetricId,
    /// The path's name.
    pub path: String,
    /// The work's name, which is the same on all paths: `udp_stream.64`.
    pub work: String,
    /// The title: `UDP stream, 64 bytes`.
    pub title: String,
    /// The payload of a message in bytes.
    pub message_bytes: u64,
    /// Whether the flow's messages are datagrams in one direction, which can be counted and compared with a line
    /// rate.
    pub datagrams: bool,
}

/// One trial of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkTrial {
    /// The metric of the flow.
    pub metric: MetricId,
    /// The environment.
    pub environment: String,
    /// The block.
    pub block: u32,
    /// The round within the block.
    pub round: u32,
    /// Whether the trial counts.
    pub counts: bool,
    /// Messages or requests that were sent.
    pub sent: u64,
    /// Messages or answers that arrived complete.
    pub received: u64,
    /// Messages that were sent and did not arrive.
    pub lost: u64,
    /// Messages that the sender's system refused at that time: these count neither as sent nor as lost.
    pub refused: u64,
    /// The payload that arrived, in bytes.
    pub received_bytes: u64,
    /// The cost of the trial.
    pub cost: Cost,
}

/// The role of the thread that sends; for requests and answers, the thread that sends the requests.
pub const SENDER: &str = "sender";
/// The role of the thread that receives, or answers.
pub const RECEIVER: &str = "receiver";
/// The virtual CPUs of the guest that sends: the sending thread's time is part of theirs.
pub const SENDING_VCPU: &str = "vCPU, sending";
/// The virtual CPUs of the guest that receives, or answers.
pub const RECEIVING_VCPU: &str = "vCPU, receiving";

/// Whether a role's time is divided by the sent packets.
fn is_sending(role: &str) -> bool {
    role == SENDER || role == SENDING_VCPU
}

impl NetworkTrial {
    /// The CPU time of a packet that is sent and arrives, in ns: the sender's time is divided by the sent packets,
    /// all other time by the received packets. A lost packet costs its sender as much as one that arrives, and would
    /// otherwise be counted as a cost of the packets that arrive.
    pub fn ns_per_packet(&self) -> f64 {
        let of_role = |role: &RoleCost| role.cpu_ns as f64 / self.divisor(&role.role) as f64;
        self.cost.roles.iter().map(of_role).sum()
    }

    fn divisor(&self, role: &str) -> u64 {
        if is_sending(role) { self.sent } else { self.received }
    }
}

/// The cost of a trial on this machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The CPU time of all work for the flow, in ns: its threads, and the time of interrupts.
    pub cpu_ns: u64,
    /// The CPU time by the role of a thread.
    pub roles: Vec<RoleCost>,
    /// The time of the trial's CPUs by kind, including other processes. The kernel counts this time in ticks of 10
    /// ms.
    pub kinds: CpuTime,
    /// System calls of the two ends, if they count them.
    pub calls: u64,
    /// Hardware interrupts of the whole machine.
    pub interrupts: u64,
    /// Software interrupts of the whole machine.
    pub softirqs: u64,
    /// The transitions between a guest and its host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<GuestCounts>,
}

/// Exits and other transitions between a guest and its host. A count is `None` if the kernel does not provide it to
/// an ordinary user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GuestCounts {
    /// Exits of the guest's virtual CPUs, if KVM runs them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exits: Option<u64>,
    /// Interrupts of the guest, including those of its timers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupts: Option<u64>,
    /// Kicks that the guest's driver sent, if a switch in user space receives them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kicks: Option<u64>,
    /// Frames that the guest's driver made available without a kick.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kicks_suppressed: Option<u64>,
    /// Calls that the guest's driver received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Bursts for which the driver had asked for no call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_suppressed: Option<u64>,
}

impl GuestCounts {
    /// All counts with their names, in the order in which they are shown.
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

/// The cost of the threads of one role.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoleCost {
    /// `sender`, `receiver`, `switch worker`, `OVS PMD thread`, `vCPU, sending`, `QEMU I/O thread`, `vhost worker`,
    /// `softirq`, and the like.
    pub role: String,
    /// CPU time, ns.
    pub cpu_ns: u64,
    /// The number of times that the threads went to sleep.
    pub voluntary_switches: u64,
    /// The number of times that the threads were preempted.
    pub involuntary_switches: u64,
}

/// The CPU time by kind, in ns: names and times, in the order in which they are shown.
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
