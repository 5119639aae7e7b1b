use crate::net::SegmentKind;

/// Why a frame cannot be cut. Each is the sender's fault; the frame is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// The offload names nothing to cut.
    #[error("the frame's offload asks for no segmentation (gso_type 0)")]
    NothingToCut,
    /// The frame, or the part of it that was copied, ends inside a header.
    #[error("headers reach to byte {needed} of the frame, {available} bytes are there")]
    Truncated {
        /// Bytes that are needed from the frame's start, as far as the headers seen say.
        needed: usize,
        /// Bytes that there are.
        available: usize,
    },
    /// More than [`super::MAX_HEAD_BYTES`] of headers.
    #[error("headers reach to byte {0} of the frame; frames are cut up to {max}", max = super::MAX_HEAD_BYTES)]
    HeadersTooLong(usize),
    /// Not the kind's IP version.
    #[error("EtherType {ether_type:#06x} with segmentation {kind:?} (VIRTIO 1.3 §5.1.6.2)")]
    EtherType {
        /// Behind all VLAN tags.
        ether_type: u16,
        /// What was to be cut.
        kind: SegmentKind,
    },
    /// First byte of the IP header.
    #[error("IP header begins with {0:#04x}: no version and length that go with its EtherType")]
    IpVersion(u8),
    /// Not the kind's transport protocol, or an extension header that cannot be stepped over.
    #[error("IP protocol {protocol} with segmentation {kind:?} (VIRTIO 1.3 §5.1.6.2)")]
    Protocol {
        /// `protocol` of IPv4, or the last next-header value of IPv6.
        protocol: u8,
        /// What was to be cut.
        kind: SegmentKind,
    },
    /// Fragments cannot be cut like datagrams.
    #[error("the frame is a fragment already (RFC 791 §3.2, RFC 8200 §4.5)")]
    Fragment,
    /// A routing header that does not show the final destination, which the checksum covers, and a sender that has not
    /// summed it (`VIRTIO_NET_HDR_F_NEEDS_CSUM`).
    #[error("IPv6 routing header of type {0} with segments left (RFC 8200 §8.1)")]
    Routing(u8),
    /// Fewer than five words.
    #[error("TCP data offset is {0} words; the least is 5 (RFC 9293 §3.1)")]
    DataOffset(u8),
    /// A length field that is neither zero nor what the frame has.
    #[error("the {header} header says {said} bytes, the frame has {actual}")]
    Length {
        /// Which header.
        header: &'static str,
        /// What its field says.
        said: u16,
        /// What the frame's length gives.
        actual: u32,
    },
    /// Longer than an IP packet can be, before or after the cut.
    #[error("{0} bytes do not fit an IP packet, whose lengths have 16 bits")]
    TooLong(u32),
    /// `csum_start` and `csum_offset` do not name the transport checksum.
    #[error("checksum at {start}+{offset}, the transport header's is at {transport}+{expected} (§5.1.6.2)")]
    ChecksumElsewhere {
        /// `csum_start`.
        start: u16,
        /// `csum_offset`.
        offset: u16,
        /// Where the transport header begins.
        transport: usize,
        /// Where its checksum is.
        expected: u16,
    },
    /// The first fragment must hold the headers, and all but the last a multiple of eight bytes.
    #[error("gso_size {segment_bytes} leaves no fragment room for {needed} bytes of headers (RFC 7112)")]
    FragmentTooSmall {
        /// `gso_size`.
        segment_bytes: u16,
        /// Bytes that the first fragment must hold at least.
        needed: usize,
    },
    /// More than [`super::MAX_PIECES`].
    #[error("gso_size {segment_bytes} makes {pieces} pieces; frames are cut into {max} at most",
        max = super::MAX_PIECES)]
    TooManyPieces {
        /// `gso_size`.
        segment_bytes: u16,
        /// Pieces it would take.
        pieces: u32,
    },
}
