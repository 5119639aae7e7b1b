//! How interrupts reach a running guest: those that it took, against those that the host's software delivered. What is
//! in neither the host's deliveries nor its injections went past it: posted by hardware.
//!
//! The host's side is counted in the kernel by histogram triggers: `kvm:kvm_apic_accept_irq` has every interrupt that
//! KVM puts into a virtual APIC, by whatever path (irqfd, vhost, an emulated device, timer, IPI), and
//! `kvm:kvm_inj_virq` those that take an exit and an entry to be seen.

mod guest;
mod host;
mod judge;

pub use guest::GuestInterrupts;
pub use host::{Deliveries, Delivery, HostCounter};
pub use judge::{Judged, Path, judge};
