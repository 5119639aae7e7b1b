//! The driver's side of a device: memory of this process, rings in it, and a source and a sink over them.
mod receive;
mod shared;
#[cfg(test)]
mod tests;
mod transmit;

pub use receive::Receive;
pub use shared::Pages;
pub use shared::{Buffers, DriverMemory, LentPages, QueueShape};
pub use transmit::Transmit;

/// Bytes of the longest frame with its net header: 64 KiB of payload behind an Ethernet header, as
/// segmentation offload allows (VIRTIO 1.3 §5.1.6.3.1).
pub const LONGEST_BYTES: u32 = 65550 + 12;

/// The most buffers of one frame.
pub const MAX_BUFFERS_PER_FRAME: usize = 64;
