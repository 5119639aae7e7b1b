//! Fields of a frame, read from its first bytes. A guest wrote them: no offset is used unchecked.

/// Destination, source and EtherType.
pub const ETHERNET_BYTES: usize = 14;

/// Bytes of an 802.1Q or 802.1ad tag.
pub const TAG_BYTES: usize = 4;

/// How many times `vlan` may be nested.
pub const MOST_TAGS: usize = 16;

/// How many bytes of a frame a filter looks at: Ethernet, the tags, the longest IPv4 header, two ports.
pub const HEADER_BYTES: usize = ETHERNET_BYTES + MOST_TAGS * TAG_BYTES + 60 + 4;

/// The beginning of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// At most [`HEADER_BYTES`].
    pub bytes: &'a [u8],
    /// Length of the whole frame.
    pub frame_bytes: usize,
}

/// A number that is read from a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The frame's length.
    Length,
    /// Big-endian bytes at this offset, and of them these bits.
    At { offset: usize, bytes: usize, mask: u32 },
    /// Two bytes at this offset from the end of the IPv4 header that begins at `header`.
    BehindIpv4 { header: usize, offset: usize },
}

impl Field {
    /// The field's value, or `None` if the frame ends before it.
    pub fn read(self, start: Start<'_>) -> Option<u32> {
        let number = |offset: usize, bytes: usize| {
            let bytes = start.bytes.get(offset..offset + bytes)?;
            Some(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
        };
        match self {
            Field::Length => Some(u32::try_from(start.frame_bytes).unwrap_or(u32::MAX)),
            Field::At { offset, bytes, mask } => Some(number(offset, bytes)? & mask),
            Field::BehindIpv4 { header, offset } => {
                let header_bytes = 4 * usize::from(start.bytes.get(header)? & 0xf);
                number(header + header_bytes + offset, 2)
            }
        }
    }
}
