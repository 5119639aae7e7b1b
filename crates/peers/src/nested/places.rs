//! The paths of files in the machine that a guest in it needs.

/// The kernel of a guest in the machine.
pub const KERNEL: &str = "/guest/kernel";
/// The folder of that kernel's modules, in a folder with its version.
pub const MODULES: &str = "/guest/modules";
/// The file system of that guest.
pub const INITRAMFS: &str = "/guest/initramfs";
/// The machine's own kernel, for a guest that needs its drivers.
pub const GENERIC_KERNEL: &str = "/guest/generic/kernel";
/// The file system for a guest with the machine's own kernel.
pub const GENERIC_INITRAMFS: &str = "/guest/generic/initramfs";
/// The name of the guest's control socket in the machine's folder on the host.
pub const SOCKET: &str = "guest";
