//! Exports one guest of the profile `realtime-host` to the formats of other tools. Each export names the settings
//! that its tool cannot express.

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
