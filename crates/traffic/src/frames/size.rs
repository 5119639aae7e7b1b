//! The length of a frame, by different definitions.
use std::fmt;

use super::STAMP_BYTES;

/// Bytes of Ethernet, IPv4, UDP and stamp in a buffer. Shorter frames have no room for a stamp.
pub const MIN_FRAME_BYTES: usize = ETHERNET + IPV4 + UDP + STAMP_BYTES;

pub(super) const ETHERNET: usize = 14;
pub(super) const VLAN: usize = 4;
pub(super) const IPV4: usize = 20;
pub(super) const UDP: usize = 8;

/// The frame check sequence, which a port adds behind the bytes that software sees.
const FCS_BYTES: u16 = 4;

/// Preamble, start of frame and the gap to the next frame: what a frame takes of a link beside itself.
const PREAMBLE_AND_GAP_BYTES: u32 = 20;

/// A frame size as in RFC 2544 section 9 and RFC 6985: with the frame check sequence.
///
/// Users give and see only these sizes. A buffer holds 4 bytes less ([`FrameSize::in_buffer`]), a link carries 20
/// more ([`FrameSize::at_layer_1`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameSize(u16);

const _: () =
    assert!(FrameSize::MIN.0 == MIN_FRAME_BYTES as u16 + FCS_BYTES, "a stamp fits the shortest frame");

/// Frames of this size are not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("frames of {0} bytes are not sent; with frame check sequence they have {min} to {max}", min = FrameSize::MIN, max = FrameSize::MAX)]
pub struct SizeError(pub u16);

impl FrameSize {
    /// The shortest frame of Ethernet. A stamp fits exactly.
    pub const MIN: FrameSize = FrameSize(64);
    /// The shortest frame with a VLAN tag that has room for a stamp.
    pub const MIN_TAGGED: FrameSize = FrameSize(68);
    /// The longest frame that is sent.
    pub const MAX: FrameSize = FrameSize(9216);

    /// A frame of `bytes` bytes, including the frame check sequence.
    ///
    /// # Errors
    /// The size is below 64 or above 9216 bytes.
    pub const fn with_fcs(bytes: u16) -> Result<Self, SizeError> {
        if bytes < Self::MIN.0 || bytes > Self::MAX.0 { Err(SizeError(bytes)) } else { Ok(FrameSize(bytes)) }
    }

    /// The size that users give: from the destination address to the frame check sequence (layer 2).
    pub const fn bytes_with_fcs(self) -> u16 {
        self.0
    }

    /// Bytes in a buffer: without the frame check sequence, which no virtual port carries.
    pub const fn in_buffer(self) -> u16 {
        self.0 - FCS_BYTES
    }

    /// Bytes that the frame occupies on a link (layer 1): with preamble, frame check sequence and gap.
    pub const fn at_layer_1(self) -> u32 {
        self.0 as u32 + PREAMBLE_AND_GAP_BYTES
    }
}

impl fmt::Display for FrameSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_rfc_2544() {
        let of = |bytes| FrameSize::with_fcs(bytes).map(|size| (size.in_buffer(), size.at_layer_1()));
        // 14,880,952 and 812,743 frames a second are what 10 Gbit/s carry of them.
        assert_eq!(of(64), Ok((60, 84)));
        assert_eq!(of(1518), Ok((1514, 1538)));
        for wrong in [0, 60, 63, 9217, u16::MAX] {
            assert_eq!(of(wrong), Err(SizeError(wrong)));
        }
    }
}
