//! Cards that a guest gives to programs as vDPA devices.

/// Modules of a guest that gives cards to programs as vDPA devices, and has KVM for a guest within.
pub const VDPA_MODULES: &[&str] =
    &["vduse", "virtio_vdpa", "vhost_vdpa", "vp_vdpa", "virtio_net", "bridge", "vhost_net", "kvm_amd"];

/// QEMU's arguments for two cards behind the IOMMU, at [`VDPA_CARDS`], and for the cards at the other ends of their
/// wires. Both cards have the same address, as the card of a guest that migrates.
pub const VDPA_ARGUMENTS: [&str; 16] = [
    "-netdev",
    "hubport,id=card0,hubid=1",
    "-device",
    "virtio-net-pci,netdev=card0,mac=02:00:00:00:76:01,addr=0x10,disable-legacy=on,iommu_platform=on,romfile=",
    "-netdev",
    "hubport,id=far0,hubid=1",
    "-device",
    "virtio-net-pci,netdev=far0,mac=02:00:00:00:77:00,addr=0x11,disable-legacy=on,romfile=",
    "-netdev",
    "hubport,id=card1,hubid=2",
    "-device",
    "virtio-net-pci,netdev=card1,mac=02:00:00:00:76:01,addr=0x12,disable-legacy=on,iommu_platform=on,romfile=",
    "-netdev",
    "hubport,id=far1,hubid=2",
    "-device",
    "virtio-net-pci,netdev=far1,mac=02:00:00:00:77:01,addr=0x13,disable-legacy=on,romfile=",
];

/// The PCI addresses of the cards that [`Settings::vdpa`](super::Settings::vdpa) adds.
pub const VDPA_CARDS: [&str; 2] = ["0000:00:10.0", "0000:00:12.0"];
