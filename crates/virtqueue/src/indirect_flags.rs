//! How to treat the flags in indirect tables of a packed ring.

/// Whether the WRITE flags in a packed ring's indirect tables are trusted (VIRTIO 1.3 §2.8.7).
///
/// DPDK's driver sets that flag in its transmit tables before it uses them. It does not clear the flag in the net
/// header's entry, nor in the entry whose index equals the table's slot (`struct virtio_tx_region`, as of 23.11).
/// Devices that serve only DPDK and Linux ignore the flag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndirectFlags {
    /// Each entry has the direction that its flag states.
    #[default]
    Trusted,
    /// Every entry is readable: for a queue whose buffers the device never writes.
    AllReadable,
}
