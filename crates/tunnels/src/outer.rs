//! The headers in front of a frame in a tunnel.
use std::net::IpAddr;

use flow::{Key, protocol};

use crate::{Kind, Mac, OptionMap, Sum, options, pseudo_header};

/// The longest outer header: Ethernet, IPv6, UDP, Geneve and 64 bytes of options.
pub const MAX_HEADER_BYTES: usize = 14 + 40 + 8 + 8 + 64;

/// The protocol of Ethernet frames in GRE and Geneve (IANA: Transparent Ethernet Bridging).
pub(crate) const ETHERNET: u16 = 0x6558;
/// VXLAN: the network identifier is valid (RFC 7348 §5).
pub(crate) const VXLAN_HAS_KEY: u8 = 0x08;
/// GRE: a checksum and a key are there (RFC 2784 §2.1, RFC 2890 §2).
pub(crate) const GRE_HAS_CHECKSUM: u8 = 0x80;
pub(crate) const GRE_HAS_KEY: u8 = 0x20;
/// Geneve: a critical option is there (RFC 8926 §3.4).
const GENEVE_CRITICAL: u8 = 0x40;

const ETHERNET_BYTES: usize = 14;
const UDP_BYTES: usize = 8;

/// What the outer headers of one frame say.
#[derive(Clone, Copy, Debug)]
pub struct Outer<'a> {
    /// The Ethernet address of the next hop.
    pub next_hop: Mac,
    /// The Ethernet address of this end.
    pub source: Mac,
    /// The address of this end.
    pub from: IpAddr,
    /// The address of the other end, of the same family.
    pub to: IpAddr,
    /// The type of service, or traffic class.
    pub tos: u8,
    /// The hop limit.
    pub ttl: u8,
    /// The kind of tunnel.
    pub kind: Kind,
    /// The UDP ports of this end and the other one.
    pub ports: [u16; 2],
    /// The key. GRE without a key has no field for it.
    pub key: Option<u64>,
    /// Whether there is a checksum. UDP over IPv6 always has one.
    pub checksum: bool,
    /// The options of Geneve.
    pub options: &'a [OptionMap],
    /// The fields that have the values of options.
    pub fields: &'a Key,
}

/// A checksum that is still to be completed: the field has the sum of what lies before `start` and is covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialSum {
    /// Where the covered bytes begin, from the frame's start.
    pub start: u16,
    /// The place of the field, from `start`.
    pub offset: u16,
}

/// The bytes of outer headers.
#[derive(Clone, Debug)]
pub struct Header {
    bytes: [u8; MAX_HEADER_BYTES],
    length: usize,
    /// The checksum, which covers all bytes from its start to the end of the frame.
    pub checksum: Option<PartialSum>,
}

impl Header {
    /// An empty header.
    pub fn new() -> Self {
        Header { bytes: [0; MAX_HEADER_BYTES], length: 0, checksum: None }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Completes the checksum, given the sum of all bytes behind the header, not complemented.
    pub fn complete(&mut self, behind: u16) {
        let Some(PartialSum { start, offset }) = self.checksum.take() else { return };
        let at = usize::from(start);
        let mut sum = Sum::default();
        sum.add(&self.bytes[at.min(self.length)..self.length]);
        sum.add_sum(behind);
        // In UDP, 0 means that there is no checksum. GRE has a flag for that, and reads 0 and 0xffff alike.
        let sum = match !sum.folded() {
            0 => 0xffff,
            sum => sum,
        };
        if let Some(field) = self.bytes.get_mut(at + usize::from(offset)..).and_then(<[u8]>::first_chunk_mut)
        {
            *field = sum.to_be_bytes();
        }
    }

    /// Writes the headers for a frame of `inner_bytes`. Returns false, and the header is empty then, if the packet would be
    /// longer than 65,535 bytes or the options take too many bytes, or if the ends are of different families.
    pub fn write(&mut self, outer: &Outer<'_>, inner_bytes: usize) -> bool {
        self.length = self.try_write(outer, inner_bytes).unwrap_or(0);
        self.length > 0
    }

    fn try_write(&mut self, outer: &Outer<'_>, inner_bytes: usize) -> Option<usize> {
        self.checksum = None;
        let is_v6 = match (outer.from, outer.to) {
            (IpAddr::V4(_), IpAddr::V4(_)) => false,
            (IpAddr::V6(_), IpAddr::V6(_)) => true,
            _ => return None,
        };
        let transport_at = ETHERNET_BYTES + if is_v6 { 40 } else { 20 };
        let tunnel_at = transport_at + if outer.kind == Kind::Gre { 0 } else { UDP_BYTES };
        let length = tunnel_at + self.tunnel(outer, tunnel_at)?;
        let payload_bytes = u16::try_from(length - transport_at + inner_bytes).ok()?;
        self.bytes[..6].copy_from_slice(&outer.next_hop);
        self.bytes[6..12].copy_from_slice(&outer.source);
        let number = if outer.kind == Kind::Gre { protocol::GRE } else { protocol::UDP };
        match (outer.from, outer.to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                self.bytes[12..14].copy_from_slice(&protocol::IPV4.to_be_bytes());
                let total = payload_bytes.checked_add(20)?;
                let packet = &mut self.bytes[ETHERNET_BYTES..transport_at];
                packet.fill(0);
                (packet[0], packet[1], packet[8], packet[9]) = (0x45, outer.tos, outer.ttl, number);
                packet[2..4].copy_from_slice(&total.to_be_bytes());
                packet[6] = 0x40; // do not fragment
                packet[12..16].copy_from_slice(&from.octets());
                packet[16..20].copy_from_slice(&to.octets());
                let mut sum = Sum::default();
                sum.add(packet);
                packet[10..12].copy_from_slice(&(!sum.folded()).to_be_bytes());
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                self.bytes[12..14].copy_from_slice(&protocol::IPV6.to_be_bytes());
                let packet = &mut self.bytes[ETHERNET_BYTES..transport_at];
                packet[..4].copy_from_slice(&(6 << 28 | u32::from(outer.tos) << 20).to_be_bytes());
                packet[4..6].copy_from_slice(&payload_bytes.to_be_bytes());
                (packet[6], packet[7]) = (number, outer.ttl);
                packet[8..24].copy_from_slice(&from.octets());
                packet[24..40].copy_from_slice(&to.octets());
            }
            _ => return None,
        }
        if outer.kind == Kind::Gre {
            self.checksum = outer.checksum.then_some(PartialSum { start: transport_at as u16, offset: 4 });
            return Some(length);
        }
        let udp = &mut self.bytes[transport_at..tunnel_at];
        udp[..2].copy_from_slice(&outer.ports[0].to_be_bytes());
        udp[2..4].copy_from_slice(&outer.ports[1].to_be_bytes());
        udp[4..6].copy_from_slice(&payload_bytes.to_be_bytes());
        udp[6..8].fill(0);
        if outer.checksum || is_v6 {
            let pseudo = pseudo_header(outer.from, outer.to, number, payload_bytes.into());
            udp[6..8].copy_from_slice(&pseudo.to_be_bytes());
            self.checksum = Some(PartialSum { start: transport_at as u16, offset: 6 });
        }
        Some(length)
    }

    /// The header of the kind, from `at` on. Returns its length.
    fn tunnel(&mut self, outer: &Outer<'_>, at: usize) -> Option<usize> {
        let key = outer.key.unwrap_or(0).to_be_bytes();
        let (header, behind) = self.bytes.get_mut(at..)?.split_first_chunk_mut::<8>()?;
        *header = [0; 8];
        match outer.kind {
            Kind::Geneve => {
                let option_bytes = options::write(outer.options, outer.fields, behind)?;
                header[0] = (option_bytes / 4) as u8; // version 0; at most 64 bytes
                let mut written = behind[..option_bytes].iter().as_slice();
                while let [_, _, kind, words, ..] = written {
                    header[1] |= if kind & 0x80 != 0 { GENEVE_CRITICAL } else { 0 };
                    written = written.get(4 + usize::from(*words) * 4..)?;
                }
                header[2..4].copy_from_slice(&ETHERNET.to_be_bytes());
                header[4..7].copy_from_slice(&key[5..]);
                Some(header.len() + option_bytes)
            }
            Kind::Vxlan => {
                header[0] = VXLAN_HAS_KEY;
                header[4..7].copy_from_slice(&key[5..]);
                Some(header.len())
            }
            Kind::Gre => {
                header[2..4].copy_from_slice(&ETHERNET.to_be_bytes());
                let mut length = 4;
                if outer.checksum {
                    header[0] |= GRE_HAS_CHECKSUM;
                    length += 4;
                }
                if outer.key.is_some() {
                    header[0] |= GRE_HAS_KEY;
                    self.bytes.get_mut(at + length..at + length + 4)?.copy_from_slice(&key[4..]);
                    length += 4;
                }
                Some(length)
            }
        }
    }
}

impl Default for Header {
    fn default() -> Self {
        Self::new()
    }
}
