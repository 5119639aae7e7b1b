//! Fragments of outer packets (RFC 791 §3.2, RFC 8200 §4.5).
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use flow::protocol;

use crate::Sum;
use crate::ecn::{CONGESTED, MARK};

const ETHERNET_BYTES: usize = 14;
const V6_BYTES: usize = 40;
/// The length of the extension header of a fragment.
const FRAGMENT_BYTES: usize = 8;
/// The longest headers of a fragment: Ethernet and IPv4 with options.
const MAX_BYTES: usize = ETHERNET_BYTES + 60;

/// A fragment of a packet of UDP or GRE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The sender.
    pub from: IpAddr,
    /// The receiver.
    pub to: IpAddr,
    /// The congestion mark.
    pub mark: u8,
    /// Where the part of the packet begins, from the frame's start.
    pub payload_at: usize,
    /// Where the part ends; bytes behind it are padding.
    pub end: usize,
}

impl Fragment {
    /// Reads the headers of a frame of `frame_bytes` that begins with `head`. `None` if the frame is no fragment of a packet
    /// of UDP or GRE, contradicts itself, or has extension headers of IPv6 in front of the fragment's.
    pub fn read(head: &[u8], frame_bytes: usize) -> Option<Self> {
        let packet = head.get(ETHERNET_BYTES..)?;
        let word = |at: usize| Some(u16::from_be_bytes(*packet.get(at..)?.first_chunk()?));
        let kind = u16::from_be_bytes(*head.get(12..)?.first_chunk()?);
        let (read, number, is_fragment) = match (kind, packet.first()? >> 4) {
            (protocol::IPV4, 4) => {
                let header: &[u8; 20] = packet.first_chunk()?;
                let header_bytes = usize::from(header[0] & 0xf) * 4;
                let mut sum = Sum::default();
                sum.add(packet.get(..header_bytes).filter(|header| header.len() >= 20)?);
                let address = |at: usize| Some(Ipv4Addr::from(*header[at..].first_chunk::<4>()?));
                let read = Fragment {
                    from: address(12)?.into(),
                    to: address(16)?.into(),
                    mark: header[1] & MARK,
                    payload_at: ETHERNET_BYTES + header_bytes,
                    end: ETHERNET_BYTES + usize::from(word(2)?),
                };
                (read, header[9], word(6)? & 0x3fff != 0 && sum.folded() == 0xffff)
            }
            (protocol::IPV6, 6) => {
                let header: &[u8; V6_BYTES + FRAGMENT_BYTES] = packet.first_chunk()?;
                let address = |at: usize| Some(Ipv6Addr::from(*header[at..].first_chunk::<16>()?));
                let read = Fragment {
                    from: address(8)?.into(),
                    to: address(24)?.into(),
                    mark: header[1] >> 4 & MARK,
                    payload_at: ETHERNET_BYTES + header.len(),
                    end: ETHERNET_BYTES + V6_BYTES + usize::from(word(4)?),
                };
                (
                    read,
                    header[V6_BYTES],
                    header[6] == protocol::IPV6_FRAGMENT && word(V6_BYTES + 2)? & 0xfff9 != 0,
                )
            }
            _ => return None,
        };
        let is_sound = is_fragment && read.payload_at <= read.end && read.end <= frame_bytes;
        (is_sound && matches!(number, protocol::UDP | protocol::GRE)).then_some(read)
    }
}

/// The headers of a packet that came in fragments.
#[derive(Clone, Copy, Debug)]
pub struct Joined {
    bytes: [u8; MAX_BYTES],
    length: usize,
    payload_bytes: usize,
    has: [bool; 4],
}

impl Joined {
    /// The headers of the first fragment, which is read from `head`. `None` if they are not all there.
    pub fn new(head: &[u8], first: &Fragment) -> Option<Self> {
        let is_v6 = first.to.is_ipv6();
        let length = first.payload_at - if is_v6 { FRAGMENT_BYTES } else { 0 };
        let mut bytes = [0; MAX_BYTES];
        bytes.get_mut(..length)?.copy_from_slice(head.get(..length)?);
        if is_v6 {
            bytes[ETHERNET_BYTES + 6] = *head.get(length)?;
        }
        Some(Joined { bytes, length, payload_bytes: 0, has: [false; 4] })
    }

    /// Adds a fragment, the first one too.
    pub fn add(&mut self, fragment: &Fragment) {
        self.payload_bytes += fragment.end - fragment.payload_at;
        self.has[usize::from(fragment.mark & MARK)] = true;
    }

    /// The headers of the whole packet. `None` if the packet is too long, or if a router has marked some fragments and other
    /// ones cannot have a mark (RFC 3168 §5.3).
    pub fn headers(&mut self) -> Option<&[u8]> {
        let is_congested = self.has[usize::from(CONGESTED)];
        if is_congested && self.has[0] {
            return None;
        }
        let packet = &mut self.bytes[ETHERNET_BYTES..self.length];
        if packet[0] >> 4 == 6 {
            packet[4..6].copy_from_slice(&u16::try_from(self.payload_bytes).ok()?.to_be_bytes());
            packet[1] |= if is_congested { CONGESTED << 4 } else { 0 };
        } else {
            let total = u16::try_from(packet.len() + self.payload_bytes).ok()?;
            packet[2..4].copy_from_slice(&total.to_be_bytes());
            packet[1] |= if is_congested { CONGESTED } else { 0 };
            packet[6..8].fill(0);
            packet[10..12].fill(0);
            let mut sum = Sum::default();
            sum.add(packet);
            packet[10..12].copy_from_slice(&(!sum.folded()).to_be_bytes());
        }
        Some(&self.bytes[..self.length])
    }
}
