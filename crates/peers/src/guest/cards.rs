//! Cards that a guest gives to programs as vDPA devices.

/// Modules of a guest that gives cards to programs as vDPA devices.
pub const VDPA_MODULES: &[&str] = &["vduse", "virtio_vdpa", "vhost_vdpa", "vp_vdpa", "virtio_net"];

/// QEMU's arguments for a card behind the IOMMU, at [`VDPA_CARD`], and for another card at its other end.
pub const VDPA_CARDS: [&str; 8] = [
    "-netdev",
    "hubport,id=card,hubid=1",
    "-device",
    "virtio-net-pci,netdev=card,mac=02:00:00:00:76:01,addr=0x10,disable-legacy=on,iommu_platform=on,romfile=",
    "-netdev",
    "hubport,id=far,hubid=1",
    "-device",
    "virtio-net-pci,netdev=far,mac=02:00:00:00:76:02,addr=0x11,disable-legacy=on,romfile=",
];

/// The PCI address of the card that [`Settings::vdpa`](super::Settings::vdpa) adds.
pub const VDPA_CARD: &str = "0000:00:10.0";
