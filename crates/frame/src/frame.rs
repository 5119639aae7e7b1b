//! One frame of a burst, in its sender's memory.
use memory::{SgArena, SgList, SharedSlice};
use virtio::net::{MacAddress, Offload};

/// Bytes at a frame's start that are copied when it is received. Decisions are made on this copy.
pub const SNAPSHOT_BYTES: usize = 64;

/// The shortest Ethernet frame, without its check sequence (IEEE 802.3 §3.2.7). Guests may send shorter ones.
pub const SHORTEST_FRAME_BYTES: usize = 60;

/// The longest frame that takes the fast path. Jumbo frames are shorter. The cost of copying longer frames is counted.
pub(crate) const FAST_FRAME_BYTES: usize = 10 << 10;

/// Destination, source and type (IEEE 802.3 §3.1.1). A frame cannot be shorter.
pub const ETHERNET_HEADER_BYTES: usize = 14;

/// A VLAN tag (IEEE 802.1Q §9.3).
pub(crate) const VLAN_TAG_BYTES: usize = 4;

/// The longest IP packet: its total length has 16 bits (RFC 791 §3.1).
const LARGEST_PACKET_BYTES: usize = 65_535;

/// The longest possible frame: the largest packet behind an Ethernet header with two VLAN tags (802.1ad). No port
/// accepts longer frames. No offload needs longer frames: VIRTIO 1.3 §5.1.6.3.1 asks for receive buffers of 65 562
/// bytes, for a net header of 12 bytes and a frame of 65 550.
pub const LARGEST_FRAME_BYTES: usize = ETHERNET_HEADER_BYTES + 2 * VLAN_TAG_BYTES + LARGEST_PACKET_BYTES;

/// The copied start of a frame. Bytes beyond the frame's end are unspecified.
pub type HeaderSnapshot = [u8; SNAPSHOT_BYTES];

/// The data that a batch keeps about one frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameMeta {
    pub snapshot: HeaderSnapshot,
    pub offload: Offload,
    /// The index of its first slice in the arena.
    pub first: u32,
    pub end: u32,
    /// Bytes in the slices before the frame, which are the net header.
    pub skip: u32,
    /// Length of the frame.
    pub len: u32,
    /// Whether no offload is left to be done, as for nearly all frames.
    pub simple: bool,
}

impl FrameMeta {
    pub const EMPTY: FrameMeta = FrameMeta {
        snapshot: [0; SNAPSHOT_BYTES],
        offload: Offload::NONE,
        first: 0,
        end: 0,
        skip: 0,
        len: 0,
        simple: false,
    };
}

/// A borrowed frame: a copy of its first bytes, and slices of the rest.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    pub(crate) meta: &'a FrameMeta,
    pub(crate) arena: &'a SgArena,
}

impl<'a> Frame<'a> {
    /// Length in bytes, from destination address to payload's end; never below
    /// [`ETHERNET_HEADER_BYTES`].
    #[inline(always)]
    pub fn len_bytes(&self) -> usize {
        self.meta.len as usize
    }

    /// The copied start: [`SNAPSHOT_BYTES`], or the whole frame if it is shorter.
    #[inline(always)]
    pub fn snapshot(&self) -> &'a [u8] {
        &self.meta.snapshot[..self.len_bytes().min(SNAPSHOT_BYTES)]
    }

    /// The copied start with its full length; what lies beyond the frame is unspecified.
    #[inline(always)]
    pub fn full_snapshot(&self) -> &'a HeaderSnapshot {
        &self.meta.snapshot
    }

    /// The destination address.
    #[inline(always)]
    pub fn destination(&self) -> MacAddress {
        let h = &self.meta.snapshot;
        MacAddress([h[0], h[1], h[2], h[3], h[4], h[5]])
    }

    /// The source address.
    #[inline(always)]
    pub fn source(&self) -> MacAddress {
        let h = &self.meta.snapshot;
        MacAddress([h[6], h[7], h[8], h[9], h[10], h[11]])
    }

    /// The offloads that the sender left to be done.
    #[inline(always)]
    pub fn offload(&self) -> &'a Offload {
        &self.meta.offload
    }

    /// Whether the sender left no offload to be done.
    #[inline(always)]
    pub fn is_simple(&self) -> bool {
        self.meta.simple
    }

    /// The slices in the sender's memory, and how many bytes of them precede the frame. The first
    /// [`SNAPSHOT_BYTES`] of the frame must not be read from here: they were read already, and may have changed.
    #[inline(always)]
    pub fn slices(&self) -> (&'a [SharedSlice<'a>], usize) {
        (self.arena.slices(self.meta.first..self.meta.end), self.meta.skip as usize)
    }

    /// Reads bytes from `at` on, as far as the frame has them, and returns how many. Bytes of the snapshot come
    /// from the snapshot. All others come from the sender's memory and may change before the frame is delivered.
    pub fn read(&self, at: usize, into: &mut [u8]) -> usize {
        let len = into.len().min(self.len_bytes().saturating_sub(at));
        let known = self.snapshot().get(at..).unwrap_or_default();
        let known = &known[..known.len().min(len)];
        let (from_snapshot, rest) = into[..len].split_at_mut(known.len());
        from_snapshot.copy_from_slice(known);
        let (slices, skip) = self.slices();
        known.len() + SgList::new(slices).skip(skip + at + known.len()).read(rest)
    }
}
