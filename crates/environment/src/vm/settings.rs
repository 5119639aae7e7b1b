//! What a user may set of a virtual machine.

use std::path::PathBuf;

use ::vm::{Accelerator, Profile};

/// The board that QEMU presents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Machine {
    /// A PC with PCI Express; `virt` on Arm.
    #[default]
    Q35,
    /// The minimal board without PCI.
    Microvm,
}

/// What a user may set.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// `kvm` or `tcg`; otherwise KVM where a stock kernel boots with it, else TCG.
    pub accelerator: Option<Accelerator>,
    /// The board.
    pub machine: Machine,
    /// Guest memory, MiB.
    pub memory_mib: u64,
    /// The kernel image; otherwise the one that set-up keeps, else the running one.
    pub kernel: Option<PathBuf>,
    /// What the guest is for; otherwise its vCPUs have a CPU each, and nothing else is set.
    pub profile: Option<Profile>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { accelerator: None, machine: Machine::Q35, memory_mib: 1024, kernel: None, profile: None }
    }
}
