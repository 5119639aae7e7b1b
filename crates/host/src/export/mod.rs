//! One guest of the profile `realtime-host` in the forms of other tools. Each says what its tool cannot express.

mod guest;
mod kubevirt;
mod libvirt;
mod nova;
mod qemu;
mod systemd;

pub use guest::Guest;
pub use kubevirt::kubevirt;
pub use libvirt::libvirt;
pub use nova::nova;
pub use qemu::qemu;
pub use systemd::systemd;
