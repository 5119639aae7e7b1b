//! A machine in which KVM runs guests: a distribution's generic kernel under QEMU's emulated CPU, which has SVM.
//!
//! `/dev/kvm` of many build machines cannot run a stock guest. A [`Machine`] can: `kvm-amd` is loaded, and vhost-net,
//! macvtap, irqfd, ioeventfd, VFIO (behind an emulated IOMMU) and all tracepoints are the kernel's own. All files
//! that the machine uses are in its memory: QEMU with libraries and firmware, the kernel and the file system of a
//! guest in it ([`Machine::guest`]), and the programs that [`Settings::program`] names. The machine shares nothing
//! with the host, because the host's timing would influence it.
//!
//! A [`Machine`] is a [`Guest`](crate::Guest) too, so that commands run in it as in any guest. Figures that are
//! measured in the machine come from an emulated CPU: they show that a path works, and the numbers of its events;
//! they say nothing about speed.

mod arm;
mod arm_within;
pub(crate) mod cache;
pub(crate) mod image;
mod inner;
pub(crate) mod kernel;
mod launch;
mod machine;
mod network;
mod one_way;
pub(crate) mod places;
mod saved;
mod transfer;

pub use arm::{ArmMachine, ArmSettings, Gic, KvmMode};
pub use inner::{Inner, InnerSettings};
pub use machine::{Clock, Machine, PROGRAMS, Settings};
pub use network::{FUNCTION, HANDED_ON, NetworkPath};
pub use one_way::{Direction, Pings};
