//! Where things lie in the machine that a guest within it needs.

/// The kernel of a guest within.
pub const KERNEL: &str = "/guest/kernel";
/// Its file system.
pub const INITRAMFS: &str = "/guest/initramfs";
/// The machine's own kernel, for a guest that needs its drivers.
pub const GENERIC_KERNEL: &str = "/guest/generic/kernel";
/// The file system for that.
pub const GENERIC_INITRAMFS: &str = "/guest/generic/initramfs";
/// Where the host finds its control channel, in the machine's folder.
pub const SOCKET: &str = "guest";
