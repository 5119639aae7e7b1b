//! The header in front of every packet (VIRTIO 1.3 §5.1.6), as bytes and as fields.

/// The layout of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeaderLayout {
    /// Ten bytes: legacy drivers without mergeable buffers (§5.1.6.1).
    Legacy,
    /// Twelve bytes, including `num_buffers`.
    Full,
}

impl HeaderLayout {
    /// Length in bytes.
    #[inline(always)]
    pub const fn bytes(self) -> usize {
        match self {
            HeaderLayout::Legacy => 10,
            HeaderLayout::Full => NetHeader::BYTES,
        }
    }
}

/// The header's fields as read. Nothing is checked yet; [`super::Offload::parse`] does that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetHeader {
    /// `VIRTIO_NET_HDR_F_*`.
    pub flags: u8,
    /// `VIRTIO_NET_HDR_GSO_*`.
    pub gso_type: u8,
    /// The length of all headers together in bytes, which is only a hint.
    pub hdr_len: u16,
    /// Payload bytes of each segment.
    pub gso_size: u16,
    /// The offset at which the checksum begins, in bytes from the frame's start.
    pub csum_start: u16,
    /// The offset at which the checksum is stored, in bytes from `csum_start`.
    pub csum_offset: u16,
    /// Receive buffers that hold this packet.
    pub num_buffers: u16,
}

impl NetHeader {
    /// Length of the full layout in bytes.
    pub const BYTES: usize = 12;
    /// The checksum is partial, and `csum_start` and `csum_offset` are valid.
    pub const F_NEEDS_CSUM: u8 = 1;
    /// The checksum has been verified.
    pub const F_DATA_VALID: u8 = 2;
    /// No segmentation.
    pub const GSO_NONE: u8 = 0;
    /// TCP over IPv4.
    pub const GSO_TCPV4: u8 = 1;
    /// UDP fragmentation.
    pub const GSO_UDP: u8 = 3;
    /// TCP over IPv6.
    pub const GSO_TCPV6: u8 = 4;
    /// UDP segmentation.
    pub const GSO_UDP_L4: u8 = 5;
    /// TCP with explicit congestion notification; combined with one of the other values.
    pub const GSO_ECN: u8 = 0x80;

    /// Reads a header's bytes; `num_buffers` is 0 with the legacy layout.
    #[inline(always)]
    pub const fn from_bytes(bytes: &[u8; Self::BYTES], layout: HeaderLayout) -> Self {
        let b = bytes;
        NetHeader {
            flags: b[0],
            gso_type: b[1],
            hdr_len: u16::from_le_bytes([b[2], b[3]]),
            gso_size: u16::from_le_bytes([b[4], b[5]]),
            csum_start: u16::from_le_bytes([b[6], b[7]]),
            csum_offset: u16::from_le_bytes([b[8], b[9]]),
            num_buffers: match layout {
                HeaderLayout::Legacy => 0,
                HeaderLayout::Full => u16::from_le_bytes([b[10], b[11]]),
            },
        }
    }

    /// The header's bytes; the caller cuts them to [`HeaderLayout::bytes`].
    #[inline(always)]
    pub const fn to_bytes(self) -> [u8; Self::BYTES] {
        let [h0, h1] = self.hdr_len.to_le_bytes();
        let [g0, g1] = self.gso_size.to_le_bytes();
        let [s0, s1] = self.csum_start.to_le_bytes();
        let [o0, o1] = self.csum_offset.to_le_bytes();
        let [n0, n1] = self.num_buffers.to_le_bytes();
        [self.flags, self.gso_type, h0, h1, g0, g1, s0, s1, o0, o1, n0, n1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_the_specification_puts_them() {
        let bytes = [1, 0x81, 0x42, 0x01, 0xa8, 0x05, 0x22, 0x02, 0x10, 0x03, 0x05, 0x04];
        let header = NetHeader::from_bytes(&bytes, HeaderLayout::Full);
        let expected = NetHeader {
            flags: NetHeader::F_NEEDS_CSUM,
            gso_type: NetHeader::GSO_TCPV4 | NetHeader::GSO_ECN,
            hdr_len: 0x142,
            gso_size: 1448,
            csum_start: 0x222,
            csum_offset: 0x310,
            num_buffers: 0x405,
        };
        assert_eq!(header, expected);
        assert_eq!(header.to_bytes(), bytes);
        // The bytes behind the first ten belong to the frame, not to the header.
        let legacy = NetHeader::from_bytes(&bytes, HeaderLayout::Legacy);
        assert_eq!(legacy, NetHeader { num_buffers: 0, ..expected });
        assert_eq!(legacy.to_bytes()[..HeaderLayout::Legacy.bytes()], bytes[..10]);
        assert_eq!((HeaderLayout::Legacy.bytes(), HeaderLayout::Full.bytes()), (10, 12));
    }
}
