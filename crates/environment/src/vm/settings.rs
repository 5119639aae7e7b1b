//! What a user may set of a virtual machine.

use std::path::PathBuf;

use super::accelerator::Accelerator;

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
}

impl Default for Settings {
    fn default() -> Self {
        Settings { accelerator: None, machine: Machine::Q35, memory_mib: 1024, kernel: None }
    }
}
