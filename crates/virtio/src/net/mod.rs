//! The network device (VIRTIO 1.3 §5.1): header, offloads, addresses.
mod header;
mod mac;
mod offload;

pub use header::{HeaderLayout, NetHeader};
pub use mac::MacAddress;
pub use offload::{Accepts, Delivery, Offload, OffloadError, PartialChecksum, SegmentKind, Segmentation};
