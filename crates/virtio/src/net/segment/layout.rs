//! The offsets of a frame's headers.
use super::{MAX_HEAD_BYTES, SegmentError};
use crate::net::SegmentKind;

pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// The parts that differ between the IP versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ip {
    V4,
    V6 {
        /// The offset for a fragment header: after all headers that every router reads (RFC 8200 §4.5).
        fragment_at: usize,
        /// The offset of the next-header value that announces the header at `fragment_at`.
        announced_at: usize,
        /// The offset of the final destination's address, or the type of a routing header that does not show it.
        destination: Result<usize, u8>,
    },
}

/// Offsets in bytes from the frame's start, all of them inside the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub network: usize,
    pub ip: Ip,
    pub transport: usize,
    /// The offset of the first payload byte.
    pub payload: usize,
}

impl Layout {
    pub(super) fn parse(head: &[u8], kind: SegmentKind) -> Result<Self, SegmentError> {
        let mut at = 12;
        let mut ether_type = u16_at(head, at)?;
        // 802.1Q, 802.1ad and the older number of double tags.
        while matches!(ether_type, 0x8100 | 0x88a8 | 0x9100) {
            at += 4;
            ether_type = u16_at(head, at)?;
        }
        let network = at + 2;
        let wrong_version = SegmentError::EtherType { ether_type, kind };
        let (ip, protocol, transport) = match (ether_type, kind) {
            (IPV4, SegmentKind::TcpV6) | (IPV6, SegmentKind::TcpV4) => return Err(wrong_version),
            (IPV4, _) => v4(head, network)?,
            (IPV6, _) => v6(head, network)?,
            _ => return Err(wrong_version),
        };
        let payload = match (protocol, kind) {
            (TCP, SegmentKind::TcpV4 | SegmentKind::TcpV6) => {
                let words = byte_at(head, transport + 12)? >> 4;
                if words < 5 {
                    return Err(SegmentError::DataOffset(words));
                }
                transport + usize::from(words) * 4
            }
            (UDP, SegmentKind::UdpFragments | SegmentKind::UdpSegments) => transport + 8,
            _ => return Err(SegmentError::Protocol { protocol, kind }),
        };
        require(head, payload)?;
        Ok(Layout { network, ip, transport, payload })
    }

    /// The offset of the part that UFO divides into fragments.
    pub(super) fn fragmentable(&self) -> usize {
        match self.ip {
            Ip::V4 => self.transport,
            Ip::V6 { fragment_at, .. } => fragment_at,
        }
    }
}

/// The version, the protocol and where its header begins.
fn v4(head: &[u8], network: usize) -> Result<(Ip, u8, usize), SegmentError> {
    let first = byte_at(head, network)?;
    let header_bytes = usize::from(first & 15) * 4;
    if first >> 4 != 4 || header_bytes < 20 {
        return Err(SegmentError::IpVersion(first));
    }
    require(head, network + header_bytes)?;
    // "More fragments", or an offset.
    if u16_at(head, network + 6)? & 0x3fff != 0 {
        return Err(SegmentError::Fragment);
    }
    Ok((Ip::V4, byte_at(head, network + 9)?, network + header_bytes))
}

fn v6(head: &[u8], network: usize) -> Result<(Ip, u8, usize), SegmentError> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const DESTINATION: u8 = 60;

    let first = byte_at(head, network)?;
    if first >> 4 != 6 {
        return Err(SegmentError::IpVersion(first));
    }
    let mut at = network + 40;
    require(head, at)?;
    let mut announced = network + 6;
    let (mut fragment_at, mut announced_at, mut destination) = (at, announced, Ok(network + 24));
    loop {
        // Each round steps at least eight bytes on, and no byte beyond the head is read.
        let header = byte_at(head, announced)?;
        match header {
            HOP_BY_HOP | ROUTING | DESTINATION => {}
            FRAGMENT => return Err(SegmentError::Fragment),
            protocol => return Ok((Ip::V6 { fragment_at, announced_at, destination }, protocol, at)),
        }
        let next = at + 8 + usize::from(byte_at(head, at + 1)?) * 8;
        require(head, next)?;
        if header == ROUTING {
            destination = final_destination(head, at, next)?.unwrap_or(destination);
        }
        if header == ROUTING || (header == HOP_BY_HOP && announced == network + 6) {
            (fragment_at, announced_at) = (next, at);
        }
        (announced, at) = (at, next);
    }
}

/// Where a routing header keeps the last address of the way, or its type if that is not known; nothing if the packet
/// is on its last leg.
fn final_destination(head: &[u8], at: usize, end: usize) -> Result<Option<Result<usize, u8>>, SegmentError> {
    let (kind, segments_left) = (byte_at(head, at + 2)?, byte_at(head, at + 3)?);
    Ok(match kind {
        _ if segments_left == 0 => None,
        // Source route and home address (RFC 2460 §4.4, RFC 6275 §6.4): in travelling order.
        0 | 2 if end - at >= 24 => Some(Ok(end - 16)),
        // Segment routing (RFC 8754 §2): the last first.
        4 if end - at >= 24 => Some(Ok(at + 8)),
        _ => Some(Err(kind)),
    })
}

/// Checks that the head reaches to byte `needed`.
fn require(head: &[u8], needed: usize) -> Result<(), SegmentError> {
    if needed > MAX_HEAD_BYTES {
        return Err(SegmentError::HeadersTooLong(needed));
    }
    match head.len() {
        available if available < needed => Err(SegmentError::Truncated { needed, available }),
        _ => Ok(()),
    }
}

fn byte_at(head: &[u8], at: usize) -> Result<u8, SegmentError> {
    require(head, at + 1)?;
    Ok(head[at])
}

pub(super) fn u16_at(head: &[u8], at: usize) -> Result<u16, SegmentError> {
    require(head, at + 2)?;
    Ok(u16::from_be_bytes([head[at], head[at + 1]]))
}
