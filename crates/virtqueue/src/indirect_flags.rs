//! What to make of indirect tables in a packed ring.

/// Whether the WRITE flags in a packed ring's indirect tables are trusted (VIRTIO 1.3 §2.8.7).
///
/// DPDK's driver fills its transmit tables with that flag before it uses them, and does not clear it from the
/// net header's entry, nor from the one whose number is that of the table's slot (`struct virtio_tx_region`,
/// as of 23.11). Devices that serve only DPDK and Linux do not look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndirectFlags {
    /// Entries are what they say.
    #[default]
    Trusted,
    /// Every entry is readable: for a queue whose buffers the device never writes.
    AllReadable,
}
