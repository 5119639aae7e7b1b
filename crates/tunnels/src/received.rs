//! The outer headers of a frame that came from the network.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use flow::{Field, Key, protocol};

use crate::outer::{ETHERNET, GRE_HAS_CHECKSUM, GRE_HAS_KEY, VXLAN_HAS_KEY};
use crate::{Kind, Malformed, OptionMap, PartialSum, Sum, options, pseudo_header};

const ETHERNET_BYTES: usize = 14;
const UDP_BYTES: usize = 8;
/// GRE: a sequence number is there (RFC 2890 §2). Numbers are not checked.
const GRE_HAS_SEQUENCE: u8 = 0x10;
/// Geneve: the frame is for the switch itself (RFC 8926 §3.4).
const GENEVE_CONTROL: u8 = 0x80;
/// The bit of `tun_flags` for such a frame.
const OAM: u128 = 1;

/// The outer headers of a frame in a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// The kind of tunnel.
    pub kind: Kind,
    /// The address of the other end.
    pub from: IpAddr,
    /// The address of this end.
    pub to: IpAddr,
    /// The type of service, or traffic class.
    pub tos: u8,
    /// The hop limit.
    pub ttl: u8,
    /// The UDP port of this end; 0 for GRE.
    pub port: u16,
    /// The key; `None` if GRE has none.
    pub key: Option<u64>,
    /// Whether the frame is for the switch itself.
    pub is_control: bool,
    /// The options of Geneve.
    pub options: &'a [u8],
    /// The offset at which the frame in the tunnel begins.
    pub inner_at: usize,
    /// Where the packet ends; bytes behind it are padding.
    pub end: usize,
    /// The checksum, if the frame has one.
    pub checksum: Option<PartialSum>,
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A packet whose addresses and length were read.
struct Packet {
    from: IpAddr,
    to: IpAddr,
    tos: u8,
    ttl: u8,
    number: u8,
    transport_at: usize,
    end: usize,
}

impl Packet {
    /// `None` if the frame has no whole IP packet: a fragment, or IPv6 with extension headers.
    fn read(head: &[u8], frame_bytes: usize) -> Option<Self> {
        let packet = head.get(ETHERNET_BYTES..)?;
        let read = match word(head, 12)? {
            protocol::IPV4 => {
                let header: &[u8; 20] = packet.first_chunk()?;
                let (header_bytes, total) = (usize::from(header[0] & 0xf) * 4, word(header, 2)?);
                let is_fragment = word(header, 6)? & 0x3fff != 0;
                if header[0] >> 4 != 4
                    || header_bytes < 20
                    || usize::from(total) < header_bytes
                    || is_fragment
                {
                    return None;
                }
                let address =
                    |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
                Packet {
                    from: address(12).into(),
                    to: address(16).into(),
                    tos: header[1],
                    ttl: header[8],
                    number: header[9],
                    transport_at: ETHERNET_BYTES + header_bytes,
                    end: ETHERNET_BYTES + usize::from(total),
                }
            }
            protocol::IPV6 => {
                let header: &[u8; 40] = packet.first_chunk()?;
                let address = |at: usize| Some(Ipv6Addr::from(*header[at..].first_chunk::<16>()?));
                if header[0] >> 4 != 6 {
                    return None;
                }
                Packet {
                    from: address(8)?.into(),
                    to: address(24)?.into(),
                    tos: (word(header, 0)? >> 4) as u8,
                    ttl: header[7],
                    number: header[6],
                    transport_at: ETHERNET_BYTES + 40,
                    end: ETHERNET_BYTES + 40 + usize::from(word(header, 4)?),
                }
            }
            _ => return None,
        };
        (read.end <= frame_bytes).then_some(read)
    }
}

impl<'a> Received<'a> {
    /// Reads the outer headers of a frame of `frame_bytes` that begins with `head`. `is_here` says whether an address is
    /// one of this end, and `kind` which kind of tunnel uses a UDP port. `None` if the frame is not for a tunnel.
    ///
    /// # Errors
    /// The frame is for a tunnel, and a length, version, flag or the checksum of the IPv4 header is wrong.
    pub fn read(
        head: &'a [u8],
        frame_bytes: usize,
        is_here: impl Fn(IpAddr) -> bool,
        kind: impl Fn(u16) -> Option<Kind>,
    ) -> Option<Result<Self, Malformed>> {
        let packet = Packet::read(head, frame_bytes)?;
        if !is_here(packet.to) {
            return None;
        }
        match packet.number {
            protocol::GRE => {
                // Protocols other than Ethernet are the host's.
                let is_ethernet = word(head, packet.transport_at + 2)? == ETHERNET;
                is_ethernet.then(|| Self::summed(head, &packet).and_then(|()| Self::gre(head, &packet)))
            }
            protocol::UDP => {
                let port = word(head, packet.transport_at + 2)?;
                let kind = kind(port)?;
                Some(Self::summed(head, &packet).and_then(|()| Self::udp(head, &packet, kind, port)))
            }
            _ => None,
        }
    }

    /// Checks the checksum of an IPv4 header (RFC 791 §3.1). An IPv6 header has none.
    fn summed(head: &[u8], packet: &Packet) -> Result<(), Malformed> {
        let header = head.get(ETHERNET_BYTES..packet.transport_at).ok_or(Malformed::Short)?;
        let mut sum = Sum::default();
        sum.add(header);
        match packet.to.is_ipv6() || sum.folded() == 0xffff {
            true => Ok(()),
            false => Err(Malformed::Checksum),
        }
    }

    fn of(packet: &Packet, kind: Kind) -> Self {
        let Packet { from, to, tos, ttl, end, .. } = *packet;
        Received {
            kind,
            from,
            to,
            tos,
            ttl,
            port: 0,
            key: None,
            is_control: false,
            options: &[],
            inner_at: 0,
            end,
            checksum: None,
        }
    }

    /// With room for an Ethernet header behind the outer ones.
    fn with_inner(self, inner_at: usize) -> Result<Self, Malformed> {
        match inner_at + ETHERNET_BYTES <= self.end {
            true => Ok(Received { inner_at, ..self }),
            false => Err(Malformed::Short),
        }
    }

    fn udp(head: &'a [u8], packet: &Packet, kind: Kind, port: u16) -> Result<Self, Malformed> {
        let at = packet.transport_at;
        let udp: &[u8; UDP_BYTES] = head.get(at..).and_then(<[u8]>::first_chunk).ok_or(Malformed::Short)?;
        if word(udp, 4).map(usize::from) != packet.end.checked_sub(at) {
            return Err(Malformed::Length);
        }
        let checksum = (udp[6..] != [0, 0]).then_some(PartialSum { start: at as u16, offset: 6 });
        let tunnel_at = at + UDP_BYTES;
        let tunnel = head.get(tunnel_at..).and_then(<[u8]>::first_chunk::<8>).ok_or(Malformed::Short)?;
        let key = tunnel[4..7].iter().fold(0, |key, byte| key << 8 | u64::from(*byte));
        let read = Received { port, key: Some(key), checksum, ..Self::of(packet, kind) };
        let inner_at = tunnel_at + tunnel.len();
        if kind == Kind::Vxlan {
            // Bits that are not defined are ignored (RFC 7348 §5).
            return if tunnel[0] & VXLAN_HAS_KEY == 0 {
                Err(Malformed::Version)
            } else {
                read.with_inner(inner_at)
            };
        }
        if tunnel[0] >> 6 != 0 {
            return Err(Malformed::Version);
        }
        if word(tunnel, 2) != Some(ETHERNET) {
            return Err(Malformed::Payload);
        }
        let end = inner_at + usize::from(tunnel[0] & 0x3f) * 4;
        let options = head.get(inner_at..end).filter(|_| end <= packet.end).ok_or(Malformed::Short)?;
        Received { options, is_control: tunnel[1] & GENEVE_CONTROL != 0, ..read }.with_inner(end)
    }

    fn gre(head: &'a [u8], packet: &Packet) -> Result<Self, Malformed> {
        let at = packet.transport_at;
        let gre: &[u8; 4] = head.get(at..).and_then(<[u8]>::first_chunk).ok_or(Malformed::Short)?;
        let known = GRE_HAS_CHECKSUM | GRE_HAS_KEY | GRE_HAS_SEQUENCE;
        if gre[0] & !known != 0 || gre[1] != 0 {
            return Err(Malformed::Version);
        }
        let mut read = Self::of(packet, Kind::Gre);
        let mut behind = at + gre.len();
        if gre[0] & GRE_HAS_CHECKSUM != 0 {
            read.checksum = Some(PartialSum { start: at as u16, offset: 4 });
            behind += 4;
        }
        if gre[0] & GRE_HAS_KEY != 0 {
            let key = head.get(behind..).and_then(<[u8]>::first_chunk).ok_or(Malformed::Short)?;
            read.key = Some(u32::from_be_bytes(*key).into());
            behind += 4;
        }
        behind += if gre[0] & GRE_HAS_SEQUENCE != 0 { 4 } else { 0 };
        read.with_inner(behind)
    }

    /// The sum with which the sum of the covered bytes has to be 0xffff: that of the pseudo header of UDP.
    pub fn covered_before(&self) -> u16 {
        match (self.kind, self.checksum) {
            (Kind::Gre, _) | (_, None) => 0,
            (_, Some(PartialSum { start, .. })) => {
                let bytes = self.end.saturating_sub(start.into()) as u32; // 16 bits
                pseudo_header(self.from, self.to, protocol::UDP, bytes)
            }
        }
    }

    /// The fields that flows match.
    ///
    /// # Errors
    /// An option is malformed, or critical and unknown.
    pub fn fields(&self, maps: &[OptionMap]) -> Result<Key, Malformed> {
        let mut key = Key::ZERO;
        options::read(maps, self.options, &mut key)?;
        key.set(Field::TunnelId, self.key.unwrap_or(0).into());
        key.set(Field::TunnelTos, self.tos.into());
        key.set(Field::TunnelTtl, self.ttl.into());
        key.set(Field::TunnelFlags, if self.is_control { OAM } else { 0 });
        for (v4, v6, address) in [
            (Field::TunnelSrc, Field::TunnelIpv6Src, self.from),
            (Field::TunnelDst, Field::TunnelIpv6Dst, self.to),
        ] {
            match address {
                IpAddr::V4(address) => key.set(v4, u32::from(address).into()),
                IpAddr::V6(address) => key.set(v6, address.into()),
            }
        }
        Ok(key)
    }
}
