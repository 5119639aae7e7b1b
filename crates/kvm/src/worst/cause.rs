//! Causes of delays.

use serde::{Deserialize, Serialize};

/// Why a virtual CPU did not run its guest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A real-time thread used its CPU.
    RealTimeThread(String),
    /// The kernel used the CPU to stop or migrate threads (`stop_machine`, a migration).
    CpuStopper,
    /// Another thread used its CPU.
    OtherThread(String),
    /// Many timer interrupts.
    TimerStorm,
    /// An interrupt or softirq, by name.
    Interrupt(String),
    /// A page fault, also of the guest.
    PageFault,
    /// User space handled an exit, as for an emulated device.
    EmulatedDevice,
    /// The CPU was idle, or the thread itself ran in the kernel.
    Kernel,
    /// The guest's own code continued to run, or had interrupts off.
    Guest,
    /// An interrupt or softirq of the guest, by name.
    GuestInterrupt(String),
    /// A thread of the guest.
    GuestThread(String),
}

impl Cause {
    /// In words.
    pub fn text(&self) -> String {
        match self {
            Self::RealTimeThread(name) => format!("real-time thread {name} on its CPU"),
            Self::CpuStopper => "the kernel's CPU stopper (stop_machine)".into(),
            Self::OtherThread(name) => format!("thread {name} on its CPU"),
            Self::TimerStorm => "a storm of timer interrupts".into(),
            Self::Interrupt(name) => name.clone(),
            Self::PageFault => "page faults: memory that was not there or not locked".into(),
            Self::EmulatedDevice => "an emulated device: exits to user space".into(),
            Self::Kernel => "wake-up and entry in the kernel".into(),
            Self::GuestInterrupt(name) => format!("in the guest: {name}"),
            Self::GuestThread(name) => format!("in the guest: thread {name}"),
            Self::Guest => "the guest's own code: it ran on, or had interrupts off".into(),
        }
    }
}

/// A cause with its duration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Blame {
    /// What.
    pub cause: Cause,
    /// The duration, ns.
    pub ns: u64,
}
