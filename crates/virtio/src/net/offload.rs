//! Work that a sender left for the device, checked against its frame.
use std::num::NonZeroU16;

use super::NetHeader;
use crate::{Features, NetFeatures};

/// The segmentation offloads that a device may offer, besides the checksum (§5.1.3).
pub const HOST_SEGMENTATION: [Features; 5] = [
    NetFeatures::HOST_TSO4,
    NetFeatures::HOST_TSO6,
    NetFeatures::HOST_ECN,
    NetFeatures::HOST_UFO,
    NetFeatures::HOST_USO,
];

/// The segmentation offloads that a driver may accept, besides the checksum (§5.1.3).
pub const GUEST_SEGMENTATION: [Features; 6] = [
    NetFeatures::GUEST_TSO4,
    NetFeatures::GUEST_TSO6,
    NetFeatures::GUEST_ECN,
    NetFeatures::GUEST_UFO,
    NetFeatures::GUEST_USO4,
    NetFeatures::GUEST_USO6,
];

/// A checksum that the sender left partial: the field holds the sum of the pseudo header (§5.1.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialChecksum {
    /// The offset at which the sum begins, in bytes from the frame's start.
    pub start: u16,
    /// The offset at which the checksum is stored, in bytes from `start`. Both offsets lie inside the frame.
    pub offset: u16,
}

/// The kind of segmentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// TCP segments over IPv4 (TSO).
    TcpV4,
    /// TCP segments over IPv6 (TSO).
    TcpV6,
    /// IP fragments of one UDP datagram (UFO).
    UdpFragments,
    /// UDP datagrams (USO).
    UdpSegments,
}

/// A frame longer than the link's frames, which the sender left for the device to segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmentation {
    /// Into what.
    pub kind: SegmentKind,
    /// For TCP: only the first segment carries CWR (RFC 3168).
    pub ecn: bool,
    /// Payload bytes of each piece.
    pub segment_bytes: NonZeroU16,
    /// The length of all headers in bytes, as the sender stated it. Segmentation does not rely on this hint.
    pub header_bytes_hint: u16,
}

/// A frame's offloads. Only [`Offload::parse`] makes it, so its checksum fits its frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// The checksum that is still to be completed.
    pub checksum: Option<PartialChecksum>,
    /// Whether the checksum is known to be right.
    pub verified: bool,
    /// The segmentation that is still to be done. A partial checksum comes with it.
    pub segmentation: Option<Segmentation>,
}

/// A net header that no frame of this length can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OffloadError {
    /// The checksum field lies outside of the frame (the class of CVE-2024-11614).
    #[error("checksum at {start}+{offset} lies outside a frame of {frame_bytes} bytes (VIRTIO 1.3 §5.1.6.2)")]
    ChecksumOutside {
        /// `csum_start`.
        start: u16,
        /// `csum_offset`.
        offset: u16,
        /// Length of the frame in bytes.
        frame_bytes: u32,
    },
    /// The checksum would cover the MAC addresses and be stored among them, after the source address was checked.
    #[error("checksum begins at {0}, within the Ethernet header")]
    ChecksumOfAddresses(u16),
    /// A value that the specification does not know.
    #[error("gso_type {0:#x} is unknown (VIRTIO 1.3 §5.1.6)")]
    SegmentKind(u8),
    /// The segments have no bytes.
    #[error("gso_size is 0 with gso_type {0:#x} (VIRTIO 1.3 §5.1.6.2)")]
    SegmentBytes(u8),
    /// Segmentation needs the partial checksum, for every segment has one of its own.
    #[error("gso_type {0:#x} without NEEDS_CSUM (VIRTIO 1.3 §5.1.6.2)")]
    WithoutChecksum(u8),
}

/// Both addresses and the type.
const ETHERNET_BYTES: u16 = 14;

impl Offload {
    /// No work is left to do.
    pub const NONE: Offload = Offload { checksum: None, verified: false, segmentation: None };

    /// Checks a header against the length of its frame in bytes.
    ///
    /// # Errors
    /// The checksum begins within the Ethernet header or its field lies outside the frame; `gso_type` is unknown,
    /// or set with a `gso_size` of 0; or a frame other than one for UDP fragmentation asks for segmentation without
    /// `NEEDS_CSUM` (VIRTIO 1.3 §5.1.6.2).
    #[inline(always)]
    pub fn parse(header: NetHeader, frame_bytes: u32) -> Result<Self, OffloadError> {
        if header.flags == 0 && header.gso_type == NetHeader::GSO_NONE {
            return Ok(Self::NONE);
        }
        Self::parse_some(header, frame_bytes)
    }

    fn parse_some(header: NetHeader, frame_bytes: u32) -> Result<Self, OffloadError> {
        let needs_checksum = header.flags & NetHeader::F_NEEDS_CSUM != 0;
        let checksum = if needs_checksum {
            let (start, offset) = (header.csum_start, header.csum_offset);
            if start < ETHERNET_BYTES {
                return Err(OffloadError::ChecksumOfAddresses(start));
            }
            if u32::from(start) + u32::from(offset) + 2 > frame_bytes {
                return Err(OffloadError::ChecksumOutside { start, offset, frame_bytes });
            }
            Some(PartialChecksum { start, offset })
        } else {
            None
        };
        let segmentation = match header.gso_type {
            NetHeader::GSO_NONE => None,
            gso_type => {
                let kind = match gso_type & !NetHeader::GSO_ECN {
                    NetHeader::GSO_TCPV4 => SegmentKind::TcpV4,
                    NetHeader::GSO_TCPV6 => SegmentKind::TcpV6,
                    NetHeader::GSO_UDP => SegmentKind::UdpFragments,
                    NetHeader::GSO_UDP_L4 => SegmentKind::UdpSegments,
                    _ => return Err(OffloadError::SegmentKind(gso_type)),
                };
                let segment_bytes =
                    NonZeroU16::new(header.gso_size).ok_or(OffloadError::SegmentBytes(gso_type))?;
                // Linux sends UFO frames without a partial checksum where the sum is already done.
                if checksum.is_none() && kind != SegmentKind::UdpFragments {
                    return Err(OffloadError::WithoutChecksum(gso_type));
                }
                let ecn = gso_type & NetHeader::GSO_ECN != 0;
                Some(Segmentation { kind, ecn, segment_bytes, header_bytes_hint: header.hdr_len })
            }
        };
        Ok(Offload { checksum, verified: header.flags & NetHeader::F_DATA_VALID != 0, segmentation })
    }

    /// The offload for a frame after an edit, in which `inserted` bytes replaced `removed` bytes at `at`. The frame
    /// now has `frame_bytes` bytes. Offsets behind the edit, and at the end of the edited bytes, are moved. `None` if
    /// the checksum has no place in the changed frame.
    #[inline(always)]
    pub fn edited(&self, at: usize, removed: usize, inserted: usize, frame_bytes: usize) -> Option<Self> {
        match *self == Self::NONE {
            true => Some(Self::NONE),
            false => self.edited_some(at, removed, inserted, frame_bytes),
        }
    }

    fn edited_some(&self, at: usize, removed: usize, inserted: usize, frame_bytes: usize) -> Option<Self> {
        let moved = |place: usize| match place < at {
            true => Some(place),
            false => (place + inserted).checked_sub(removed).filter(|place| *place >= at),
        };
        let checksum = match self.checksum {
            None => None,
            Some(PartialChecksum { start, offset }) => {
                let (start, offset) = (usize::from(start), usize::from(offset));
                let (start, field) = (moved(start)?, moved(start + offset)?);
                if start < ETHERNET_BYTES.into() || field < start || field + 2 > frame_bytes {
                    return None;
                }
                Some(PartialChecksum {
                    start: start.try_into().ok()?,
                    offset: (field - start).try_into().ok()?,
                })
            }
        };
        let hint = |segmentation: Segmentation| {
            let bytes = moved(segmentation.header_bytes_hint.into()).and_then(|bytes| bytes.try_into().ok());
            Segmentation { header_bytes_hint: bytes.unwrap_or(0), ..segmentation }
        };
        Some(Offload { checksum, segmentation: self.segmentation.map(hint), ..*self })
    }

    /// The equivalent header for a receiver that accepts the offload; `num_buffers` is 1.
    #[inline(always)]
    pub fn header(&self) -> NetHeader {
        let mut header = NetHeader { num_buffers: 1, ..NetHeader::default() };
        if *self == Self::NONE {
            return header;
        }
        if let Some(PartialChecksum { start, offset }) = self.checksum {
            header.flags |= NetHeader::F_NEEDS_CSUM;
            (header.csum_start, header.csum_offset) = (start, offset);
        } else if self.verified {
            header.flags |= NetHeader::F_DATA_VALID;
        }
        if let Some(segmentation) = self.segmentation {
            header.gso_type = match segmentation.kind {
                SegmentKind::TcpV4 => NetHeader::GSO_TCPV4,
                SegmentKind::TcpV6 => NetHeader::GSO_TCPV6,
                SegmentKind::UdpFragments => NetHeader::GSO_UDP,
                SegmentKind::UdpSegments => NetHeader::GSO_UDP_L4,
            };
            if segmentation.ecn {
                header.gso_type |= NetHeader::GSO_ECN;
            }
            header.gso_size = segmentation.segment_bytes.get();
            header.hdr_len = segmentation.header_bytes_hint;
        }
        header
    }
}

/// The offloads that a receiver accepts unfinished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepts {
    /// Partial checksums.
    pub checksum: bool,
    /// TCP over IPv4, unsegmented.
    pub tcp_v4: bool,
    /// TCP over IPv6, unsegmented.
    pub tcp_v6: bool,
    /// TCP with ECN, unsegmented, over the IP versions that are accepted.
    pub ecn: bool,
    /// UDP datagrams that are not fragmented.
    pub udp_fragments: bool,
    /// Several UDP datagrams in one frame, over both IP versions.
    pub udp_segments: bool,
}

/// The processing of a frame before it is delivered to a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Nothing: header and frame are delivered unchanged.
    AsIs,
    /// The checksum is completed.
    FinishChecksum,
    /// The frame is segmented, and every segment gets its checksum.
    Segment,
}

impl Accepts {
    /// No offloads: only complete frames of the link's length.
    pub const NOTHING: Accepts = Accepts {
        checksum: false,
        tcp_v4: false,
        tcp_v6: false,
        ecn: false,
        udp_fragments: false,
        udp_segments: false,
    };

    /// The offloads that a driver accepts which negotiated these features (`GUEST_*`).
    pub fn of_driver(features: Features) -> Self {
        let has = |feature| features.contains(feature);
        Accepts {
            checksum: has(NetFeatures::GUEST_CSUM),
            tcp_v4: has(NetFeatures::GUEST_TSO4),
            tcp_v6: has(NetFeatures::GUEST_TSO6),
            ecn: has(NetFeatures::GUEST_ECN),
            udp_fragments: has(NetFeatures::GUEST_UFO),
            udp_segments: has(NetFeatures::GUEST_USO4) && has(NetFeatures::GUEST_USO6),
        }
    }

    /// The offloads that a device accepts, given the negotiated features (`HOST_*`).
    pub fn of_device(features: Features) -> Self {
        let has = |feature| features.contains(feature);
        Accepts {
            checksum: has(NetFeatures::CSUM),
            tcp_v4: has(NetFeatures::HOST_TSO4),
            tcp_v6: has(NetFeatures::HOST_TSO6),
            ecn: has(NetFeatures::HOST_ECN),
            udp_fragments: has(NetFeatures::HOST_UFO),
            udp_segments: has(NetFeatures::HOST_USO),
        }
    }

    /// The header of a frame that is delivered unchanged ([`Delivery::AsIs`]). A receiver without partial checksums
    /// gets a header without them (§5.1.6.4.1: "flags" is zero).
    #[inline(always)]
    pub fn header(&self, offload: &Offload) -> NetHeader {
        Offload { verified: offload.verified && self.checksum, ..*offload }.header()
    }

    /// The processing of a frame with these offloads.
    #[inline(always)]
    pub fn delivery(&self, offload: &Offload) -> Delivery {
        match (offload.segmentation, offload.checksum) {
            (None, None) => Delivery::AsIs,
            (None, Some(_)) if self.checksum => Delivery::AsIs,
            (None, Some(_)) => Delivery::FinishChecksum,
            (Some(segmentation), _) => {
                let whole = match segmentation.kind {
                    SegmentKind::TcpV4 => self.tcp_v4,
                    SegmentKind::TcpV6 => self.tcp_v6,
                    SegmentKind::UdpFragments => self.udp_fragments,
                    SegmentKind::UdpSegments => self.udp_segments,
                };
                match whole && self.checksum && (self.ecn || !segmentation.ecn) {
                    true => Delivery::AsIs,
                    false => Delivery::Segment,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
