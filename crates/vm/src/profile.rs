use serde::{Deserialize, Serialize};

/// What a guest is for. Each does what the one before it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// As QEMU starts it: to compare with.
    Plain,
    /// As much work as can be done: each vCPU on a CPU, QEMU's other threads on others.
    Throughput,
    /// Quick answers: memory is there before the guest runs, and stays.
    Latency,
    /// Deadlines: vCPUs in SCHED_FIFO, which the host does not interrupt for ordinary work.
    RealtimeGuest,
}

impl Profile {
    /// All of them.
    pub const ALL: [Profile; 4] =
        [Profile::Plain, Profile::Throughput, Profile::Latency, Profile::RealtimeGuest];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Plain => "plain",
            Profile::Throughput => "throughput",
            Profile::Latency => "latency",
            Profile::RealtimeGuest => "realtime-guest",
        }
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<Self> {
        Profile::ALL.into_iter().find(|profile| profile.name() == name)
    }

    /// Whether every thread gets its CPUs.
    pub fn places_threads(self) -> bool {
        self != Profile::Plain
    }

    /// Whether all of QEMU's memory is in place at the start and never paged out.
    pub fn locks_memory(self) -> bool {
        self >= Profile::Latency
    }

    /// The SCHED_FIFO priority of vCPUs if the user says nothing. Below ksoftirqd and ktimers (2), rcuc and rcub (4)
    /// of a real-time host, on which the guest depends.
    pub fn priority(self) -> Option<i32> {
        (self == Profile::RealtimeGuest).then_some(1)
    }
}
