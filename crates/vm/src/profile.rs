use serde::{Deserialize, Serialize};

/// The purpose of a guest. Each profile includes the settings of the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// QEMU's defaults, for comparison.
    Plain,
    /// High throughput: each vCPU on its own CPU, QEMU's other threads on other CPUs.
    Throughput,
    /// Short response times: the guest's memory is allocated before the guest runs, and stays in memory.
    Latency,
    /// Deadlines: vCPUs in SCHED_FIFO, which the host does not interrupt for ordinary work.
    RealtimeGuest,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Profile; 4] =
        [Profile::Plain, Profile::Throughput, Profile::Latency, Profile::RealtimeGuest];

    /// The profile's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Plain => "plain",
            Profile::Throughput => "throughput",
            Profile::Latency => "latency",
            Profile::RealtimeGuest => "realtime-guest",
        }
    }

    /// The profile with this name.
    pub fn named(name: &str) -> Option<Self> {
        Profile::ALL.into_iter().find(|profile| profile.name() == name)
    }

    /// Whether every thread gets its CPUs.
    pub fn places_threads(self) -> bool {
        self != Profile::Plain
    }

    /// Whether all of QEMU's memory is allocated at the start and never paged out.
    pub fn locks_memory(self) -> bool {
        self >= Profile::Latency
    }

    /// The SCHED_FIFO priority of vCPUs if the user gives none. The priority is lower than the priorities of
    /// ksoftirqd and ktimers (2) and of rcuc and rcub (4) on a real-time host, because the guest depends on these
    /// threads.
    pub fn priority(self) -> Option<i32> {
        (self == Profile::RealtimeGuest).then_some(1)
    }
}
