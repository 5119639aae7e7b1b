//! The settings of a virtual machine that a user may choose.

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

/// The settings that a user may choose.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// `kvm` or `tcg`; `None` uses KVM if a stock kernel boots with it, and TCG otherwise.
    pub accelerator: Option<Accelerator>,
    /// The board.
    pub machine: Machine,
    /// Guest memory in MiB.
    pub memory_mib: u64,
    /// The kernel image; `None` uses the image that set-up keeps, or else the running kernel's image.
    pub kernel: Option<PathBuf>,
    /// The profile of the guest; with `None` each vCPU has its own CPU, and no other setting is made.
    pub profile: Option<Profile>,
    /// The CPUs of the host that are taken from everything else and given to the vCPUs; none if empty.
    pub partition: Vec<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            accelerator: None,
            machine: Machine::Q35,
            memory_mib: 1024,
            kernel: None,
            profile: None,
            partition: Vec::new(),
        }
    }
}
