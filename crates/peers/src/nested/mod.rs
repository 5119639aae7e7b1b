//! A machine in which KVM is real: a distribution's generic kernel under QEMU's emulated CPU, which has SVM.
//!
//! `/dev/kvm` of many build machines cannot run a stock guest. In a [`Machine`] it can: `kvm-amd` is loaded, and
//! vhost-net, macvtap, irqfd, ioeventfd, VFIO (behind an emulated IOMMU) and all tracepoints are the kernel's own.
//! All that it works with is in its memory: QEMU with libraries and firmware, the kernel and the file system of a
//! guest within ([`Machine::guest`]), and the programs that [`Settings::program`] names. Nothing is shared with the
//! host, whose timing would leak in.
//!
//! A [`Machine`] is a [`Guest`](crate::Guest) too, so that commands run in it as in any. Figures that are taken in it
//! are those of an emulated CPU: they show that a path works, and what it counts; never how fast it is.

mod cache;
mod deaf;
mod image;
mod inner;
pub(crate) mod kernel;
mod launch;
mod machine;
mod network;
mod one_way;
mod places;
mod saved;
mod transfer;

pub use inner::{Inner, InnerSettings};
pub use machine::{Clock, Machine, PROGRAMS, Settings};
pub use network::{HANDED_ON, NetworkPath};
pub use one_way::{Direction, Pings};
