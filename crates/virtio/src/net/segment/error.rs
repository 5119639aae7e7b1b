use crate::net::SegmentKind;

/// Why a frame cannot be segmented. Every cause is the sender's fault. The frame is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// The offload asks for no segmentation.
    #[error("the frame's offload asks for no segmentation (gso_type 0)")]
    NothingToCut,
    /// The frame, or the part of it that was copied, ends inside a header.
    #[error("headers reach to byte {needed} of the frame, {available} bytes are there")]
    Truncated {
        /// Bytes from the frame's start that are needed, according to the headers so far.
        needed: usize,
        /// Bytes that are available.
        available: usize,
    },
    /// The headers are longer than [`super::MAX_HEAD_BYTES`].
    #[error("headers reach to byte {0} of the frame; frames are cut up to {max}", max = super::MAX_HEAD_BYTES)]
    HeadersTooLong(usize),
    /// The frame does not have the IP version of the segmentation's kind.
    #[error("EtherType {ether_type:#06x} with segmentation {kind:?} (VIRTIO 1.3 §5.1.6.2)")]
    EtherType {
        /// The EtherType after all VLAN tags.
        ether_type: u16,
        /// The kind of segmentation.
        kind: SegmentKind,
    },
    /// The first byte of the IP header has another version or a length that is too small.
    #[error("IP header begins with {0:#04x}: no version and length that go with its EtherType")]
    IpVersion(u8),
    /// The transport protocol is not that of the segmentation's kind, or an extension header cannot be skipped.
    #[error("IP protocol {protocol} with segmentation {kind:?} (VIRTIO 1.3 §5.1.6.2)")]
    Protocol {
        /// `protocol` of IPv4, or the last next-header value of IPv6.
        protocol: u8,
        /// The kind of segmentation.
        kind: SegmentKind,
    },
    /// The frame is a fragment, which cannot be segmented.
    #[error("the frame is a fragment already (RFC 791 §3.2, RFC 8200 §4.5)")]
    Fragment,
    /// A routing header does not show the final destination, which the checksum covers, and the sender has not summed
    /// it (`VIRTIO_NET_HDR_F_NEEDS_CSUM`).
    #[error("IPv6 routing header of type {0} with segments left (RFC 8200 §8.1)")]
    Routing(u8),
    /// The data offset of the TCP header is below five words.
    #[error("TCP data offset is {0} words; the least is 5 (RFC 9293 §3.1)")]
    DataOffset(u8),
    /// A length field is neither zero nor the length of the frame.
    #[error("the {header} header says {said} bytes, the frame has {actual}")]
    Length {
        /// Which header.
        header: &'static str,
        /// The value of the field.
        said: u16,
        /// The value that follows from the frame's length.
        actual: u32,
    },
    /// The packet is longer than an IP packet can be, before or after segmentation.
    #[error("{0} bytes do not fit an IP packet, whose lengths have 16 bits")]
    TooLong(u32),
    /// `csum_start` and `csum_offset` do not name the transport checksum.
    #[error("checksum at {start}+{offset}, the transport header's is at {transport}+{expected} (§5.1.6.2)")]
    ChecksumElsewhere {
        /// `csum_start`.
        start: u16,
        /// `csum_offset`.
        offset: u16,
        /// The offset of the transport header.
        transport: usize,
        /// The offset of its checksum.
        expected: u16,
    },
    /// The fragments would be too small: the first must hold the headers, and all but the last a multiple of eight
    /// bytes.
    #[error("gso_size {segment_bytes} leaves no fragment room for {needed} bytes of headers (RFC 7112)")]
    FragmentTooSmall {
        /// `gso_size`.
        segment_bytes: u16,
        /// The least bytes of the first fragment.
        needed: usize,
    },
    /// There would be more than [`super::MAX_PIECES`] pieces.
    #[error("gso_size {segment_bytes} makes {pieces} pieces; frames are cut into {max} at most",
        max = super::MAX_PIECES)]
    TooManyPieces {
        /// `gso_size`.
        segment_bytes: u16,
        /// The number of pieces.
        pieces: u32,
    },
}
