/// The kind of a guest's network interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GuestNic {
    /// Intel's card, emulated by QEMU.
    E1000,
    /// virtio-net with its device side in QEMU (`vhost=off`).
    Virtio,
    /// virtio-net with its device side in the host's kernel.
    VhostNet,
    /// virtio-net with its device side in a switch in user space, split virtqueues.
    VhostUser,
    /// virtio-net with its device side in a switch in user space, packed virtqueues.
    VhostUserPacked,
    /// virtio-net whose rings a relay gives to a vDPA device (`tautline vdpa`).
    Vdpa,
    /// A card of the host, assigned to the guest.
    Vfio,
}

impl GuestNic {
    /// The names of the first parts of a path into such a guest.
    pub fn pieces(self) -> &'static [&'static str] {
        match self {
            GuestNic::E1000 => &["guest", "e1000"],
            GuestNic::Virtio => &["guest", "virtio"],
            GuestNic::VhostNet => &["guest", "virtio", "vhost-net"],
            GuestNic::VhostUser => &["guest", "vhost-user"],
            GuestNic::VhostUserPacked => &["guest", "vhost-user", "packed"],
            GuestNic::Vdpa => &["guest", "vdpa"],
            GuestNic::Vfio => &["guest", "vfio"],
        }
    }

    /// The interface's drivers in a Linux guest.
    pub(super) fn drivers(self) -> &'static [&'static str] {
        match self {
            GuestNic::E1000 => &["e1000"],
            _ => &["virtio_pci", "virtio_net"],
        }
    }

    /// QEMU's name for the card, with its options.
    pub(super) fn device(self) -> &'static str {
        match self {
            GuestNic::E1000 => "e1000",
            GuestNic::VhostUserPacked => "virtio-net-pci,packed=on",
            // Legacy drivers' rings are not those of a vDPA device.
            GuestNic::Vdpa => "virtio-net-pci,disable-legacy=on",
            _ => "virtio-net-pci",
        }
    }
}
