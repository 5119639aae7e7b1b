use serde::{Deserialize, Serialize};

/// What a CPU executes in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The guest's code.
    Guest,
    /// The host's kernel, for a thread.
    Kernel,
    /// A process of the host.
    User,
    /// The host's kernel, in an interrupt or softirq.
    Interrupt,
}

impl Mode {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Guest => "guest",
            Self::Kernel => "host kernel",
            Self::User => "host user",
            Self::Interrupt => "host interrupt",
        }
    }
}

/// The thread or interrupt, its mode, and its CPU.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    /// `vCPU 0`, `vhost`, `QEMU`, or the name of another process or of an interrupt.
    pub who: String,
    /// What the CPU executes.
    pub mode: Mode,
    /// The number of the CPU.
    pub cpu: u32,
}

/// How control passes from one place to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrow {
    /// From the guest to the host's kernel.
    Exit,
    /// From the host's kernel to the guest.
    Entry,
    /// From a process to the kernel.
    SystemCall,
    /// From the kernel to a process.
    Return,
    /// One thread wakes another, which then runs.
    WakeUp,
    /// A preempted thread runs again.
    Preemption,
    /// A device processes a request and signals the completion by an interrupt.
    Device,
}

impl Arrow {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::Entry => "entry",
            Self::SystemCall => "system call",
            Self::Return => "return",
            Self::WakeUp => "wake-up",
            Self::Preemption => "preemption",
            Self::Device => "device",
        }
    }

    /// Whether another thread runs after the step.
    pub fn is_context_switch(self) -> bool {
        matches!(self, Self::WakeUp | Self::Preemption)
    }
}

/// One step of one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Where the step begins.
    pub from: Place,
    /// Where the step ends.
    pub to: Place,
    /// How control passes from one place to the other.
    pub arrow: Arrow,
    /// The reason of an exit, or the name of a system call.
    pub what: String,
    /// When the step was completed, ns.
    pub at: u64,
}
