//! Guests in QEMU, started and supervised according to a profile.
//!
//! [`Profile`] is the guest's purpose; [`Placement`] gives each thread of its QEMU its CPUs, as a pure function of
//! the host's CPUs. [`arguments`] is QEMU's command line. [`Guest`] starts QEMU with the guest paused, has [`Watch`]
//! put every thread on its CPUs, and lets the guest run; from then on `Watch` places new threads, and corrects and
//! reports threads that another program moved. [`attach`] does the same to a QEMU that another program started, with
//! a journal; [`assign`] assigns PCI devices to a guest.
//!
//! # Where to change what
//!
//! - To change where a guest's threads go: `placement.rs`, a pure function; what a profile is: `profile.rs`, and
//!   for QEMU `arguments.rs`.
#![forbid(unsafe_code)]

mod accelerator;
pub mod arguments;
pub mod assign;
pub mod attach;
mod guest;
mod host_cpus;
pub mod libvirt;
mod memory;
mod placement;
mod plan;
mod profile;
mod qemu_version;
pub mod qmp;
mod rights;
mod role;
mod shared_memory;
mod shortfall;
mod watch;

pub use accelerator::Accelerator;
pub use arguments::GuestSettings;
pub use guest::Guest;
pub use host_cpus::HostCpus;
pub use memory::{HugePages, locked_mib};
pub use placement::{CpuWishes, Placement, Wanted};
pub use plan::Plan;
pub use profile::Profile;
pub use qemu_version::QemuVersion;
pub use qmp::Qmp;
pub use role::{Role, Roles};
pub use shared_memory::SharedMemory;
pub use shortfall::Shortfall;
pub use watch::{Event, ThreadStatus, Watch};
