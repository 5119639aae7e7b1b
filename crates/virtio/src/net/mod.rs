//! The network device (VIRTIO 1.3 §5.1): header, offloads and what finishes them, addresses.
pub mod checksum;
mod finish;
mod header;
mod mac;
mod offload;
pub mod segment;

pub use finish::{ChecksumBeyondHead, FinishChecksum};
pub use header::{HeaderLayout, NetHeader};
pub use mac::{MacAddress, NotAMacAddress};
pub use offload::{Accepts, Delivery, Offload, OffloadError, PartialChecksum, SegmentKind, Segmentation};
