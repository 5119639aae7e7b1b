//! The path of interrupts into a running guest: compares the interrupts that the guest took with those that the host's
//! software delivered. Interrupts that are in neither the host's deliveries nor its injections were posted by the
//! hardware.
//!
//! Histogram triggers in the kernel count the host's side. `kvm:kvm_apic_accept_irq` has every interrupt that KVM
//! puts into a virtual APIC, by any path (irqfd, vhost, an emulated device, timer, IPI). `kvm:kvm_inj_virq` has those
//! that need an exit and an entry to reach the guest.

mod guest;
mod host;
mod judge;

pub use guest::GuestInterrupts;
pub use host::{Deliveries, Delivery, HostCounter};
pub use judge::{Judged, Path, judge};
