//! The network device (VIRTIO 1.3 §5.1): header, offloads and their completion, control commands and configuration,
//! addresses.
pub mod checksum;
mod config;
pub mod control;
mod features;
mod finish;
mod header;
mod mac;
mod offload;
pub mod segment;

pub use config::{ConfigOutside, Duplex, NetConfig};
pub use features::NetFeatures;
pub use finish::{ChecksumBeyondHead, FinishChecksum};
pub use header::{HeaderLayout, NetHeader};
pub use mac::{MacAddress, NotAMacAddress};
pub use offload::{
    Accepts, Delivery, GUEST_SEGMENTATION, HOST_SEGMENTATION, Offload, OffloadError, PartialChecksum,
    SegmentKind, Segmentation,
};
