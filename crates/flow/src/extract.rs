//! Reads the fields of a frame from its headers, as Open vSwitch does.
//!
//! The bytes come from a peer and are hostile: they are read once, from a window that the caller has copied. A header
//! beyond the window is treated like a header beyond the end of the frame: as cut off.
use crate::protocol::IPV6_FRAGMENT;
use crate::{Field, Key, protocol};

/// The largest window that is examined.
pub const WINDOW_BYTES: usize = 256;

const SNAP_ETHERNET: [u8; 6] = [0xaa, 0xaa, 3, 0, 0, 0]; // IEEE 802.2 LLC with SNAP, organization 0
const TYPE_NONE: u16 = 0x05ff; // Open vSwitch's type of frames without one
const VLAN_PRESENT: u16 = 0x1000;
/// IPv6 extension headers (RFC 8200 §4).
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
const FRAGMENT_ANY: u8 = 1;
const FRAGMENT_LATER: u8 = 2;

/// The places where the layers of a frame begin, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layers {
    /// The number of VLAN tags that were read: 0 to 2.
    pub tags: u8,
    /// The place of the header behind the Ethernet type.
    pub network: u16,
    /// The place of the header behind the network header, if it was read.
    pub transport: Option<u16>,
    /// A header lies behind the window, and was not read.
    pub is_cut: bool,
}

/// Returns a longer window of a frame, if there is one. The longer window begins with the bytes of the first one and is
/// not longer than the frame.
pub type More<'m, 'a> = &'m mut dyn FnMut() -> Option<&'a [u8]>;

/// Reads on through the window. `end` is where the frame ends, which may be behind the window.
struct Reader<'a, 'm> {
    window: &'a [u8],
    at: usize,
    end: usize,
    more: More<'m, 'a>,
    /// The frame goes on where the window has ended.
    is_cut: bool,
}

impl<'a> Reader<'a, '_> {
    fn left(&self) -> usize {
        self.end - self.at
    }

    /// Replaces the window by a longer one. Returns whether the window has bytes up to `end` now.
    #[cold]
    fn extend(&mut self, end: usize) -> bool {
        if let Some(window) = (self.more)().filter(|window| window.len() > self.window.len()) {
            self.window = &window[..window.len().min(WINDOW_BYTES)];
        }
        self.is_cut |= end > self.window.len();
        end <= self.window.len()
    }

    fn peek<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        if N > self.left() || self.at + N > self.window.len() && !self.extend(self.at + N) {
            return None;
        }
        self.window.get(self.at..)?.first_chunk()
    }

    fn pull<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let bytes = self.peek()?;
        self.at += N;
        Some(bytes)
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        let at = self.at + bytes;
        if at > self.end || at > self.window.len() && !self.extend(at) {
            return None;
        }
        self.at = at;
        Some(())
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |sum, byte| sum << 8 | u128::from(*byte))
}

/// The fields of a frame of `frame_bytes`, whose first bytes are `window`, and the places of its layers. At most
/// `max_tags` VLAN tags are read, and not more than two. The metadata fields are zero.
pub fn extract(window: &[u8], frame_bytes: usize, max_tags: u8) -> (Key, Layers) {
    let mut key = Key::ZERO;
    let (layers, _) = extract_with(window, frame_bytes, max_tags, &mut key, &mut || None);
    (key, layers)
}

/// Works like [`extract`]: writes the fields into `key`, whose metadata stays. If a header lies behind the window,
/// `more` is asked for a longer window, and reading continues there. Returns the places of the layers and the window
/// that was read last.
pub fn extract_with<'a>(
    window: &'a [u8],
    frame_bytes: usize,
    max_tags: u8,
    key: &mut Key,
    more: More<'_, 'a>,
) -> (Layers, &'a [u8]) {
    key.clear_words(Field::FRAME_WORDS);
    let mut layers = Layers::default();
    let window = &window[..window.len().min(WINDOW_BYTES).min(frame_bytes)];
    let mut reader = Reader { window, at: 0, end: frame_bytes, more, is_cut: false };
    if let Some(kind) = ethernet(&mut reader, max_tags.min(2), key, &mut layers) {
        key.set(Field::EthType, kind.into());
        network(&mut reader, kind, key, &mut layers);
    }
    layers.is_cut = reader.is_cut;
    (layers, reader.window)
}

/// Reads the headers behind the Ethernet type.
fn network(reader: &mut Reader<'_, '_>, kind: u16, key: &mut Key, layers: &mut Layers) {
    layers.network = reader.at as u16; // within the window
    let transport = match kind {
        protocol::IPV4 => ipv4(reader, key),
        protocol::IPV6 => ipv6(reader, key),
        protocol::ARP | protocol::RARP => arp(reader, key),
        protocol::MPLS | protocol::MPLS_MULTICAST => label(reader, key),
        _ => None,
    };
    if let Some(protocol) = transport {
        layers.transport = Some(reader.at as u16);
        if key.get(Field::IpFrag) & u128::from(FRAGMENT_LATER) == 0 {
            let _ = transport_fields(reader, protocol, key);
        }
    }
}

/// Addresses, tags and the type.
fn ethernet(reader: &mut Reader<'_, '_>, max_tags: u8, key: &mut Key, layers: &mut Layers) -> Option<u16> {
    if reader.left() < 14 {
        return None;
    }
    let addresses = reader.pull::<12>()?;
    key.set(Field::EthDst, number(&addresses[..6]));
    key.set(Field::EthSrc, number(&addresses[6..]));
    for (tpid, tci) in [(Field::VlanTpid, Field::VlanTci), (Field::InnerTpid, Field::InnerTci)] {
        // A tag counts if a type follows it.
        let Some(tag) = reader.peek::<6>().filter(|_| layers.tags < max_tags) else { break };
        if !matches!(u16_at(tag, 0), protocol::VLAN | protocol::SERVICE_VLAN) {
            break;
        }
        key.set(tpid, u16_at(tag, 0).into());
        key.set(tci, (u16_at(tag, 2) | VLAN_PRESENT).into());
        layers.tags += 1;
        reader.at += 4;
    }
    let kind = u16_at(reader.pull::<2>()?, 0);
    if kind >= 0x600 {
        return Some(kind);
    }
    let Some(header) = reader.peek::<8>().filter(|header| header[..6] == SNAP_ETHERNET) else {
        return Some(TYPE_NONE);
    };
    reader.at += 8;
    Some(Some(u16_at(header, 6)).filter(|kind| *kind >= 0x600).unwrap_or(TYPE_NONE))
}

/// RFC 791 §3.1. Padding behind the datagram is not looked at. The protocol, if the header is sound.
fn ipv4(reader: &mut Reader<'_, '_>, key: &mut Key) -> Option<u8> {
    let header = reader.peek::<20>()?;
    let header_bytes = usize::from(header[0] & 0xf) * 4;
    let total = usize::from(u16_at(header, 2));
    let padding = reader.left().checked_sub(total)?;
    if header_bytes < 20 || header_bytes > total || padding > usize::from(u16::MAX) {
        return None;
    }
    reader.end -= padding;
    key.set(Field::NwTos, header[1].into());
    key.set(Field::NwTtl, header[8].into());
    key.set(Field::NwProto, header[9].into());
    key.set(Field::IpSrc, number(&header[12..16]));
    key.set(Field::IpDst, number(&header[16..20]));
    let fragment = u16_at(header, 6);
    if fragment & 0x3fff != 0 {
        let later = if fragment & 0x1fff != 0 { FRAGMENT_LATER } else { 0 };
        key.set(Field::IpFrag, (FRAGMENT_ANY | later).into());
    }
    reader.skip(header_bytes)?;
    Some(header[9])
}

/// RFC 8200 §3 and §4. A broken chain of extension headers leaves the addresses alone in the key.
fn ipv6(reader: &mut Reader<'_, '_>, key: &mut Key) -> Option<u8> {
    let header = reader.peek::<40>()?;
    let padding = reader.left().checked_sub(40 + usize::from(u16_at(header, 4)))?;
    if padding > usize::from(u16::MAX) {
        return None;
    }
    reader.end -= padding;
    reader.at += 40;
    key.set(Field::Ipv6Src, number(&header[8..24]));
    key.set(Field::Ipv6Dst, number(&header[24..40]));
    let (protocol, fragment) = extension_headers(reader, header[6])?;
    key.set(Field::Ipv6Label, number(&header[1..4]));
    key.set(Field::NwTos, (u16_at(header, 0) >> 4 & 0xff).into());
    key.set(Field::NwTtl, header[7].into());
    key.set(Field::NwProto, protocol.into());
    key.set(Field::IpFrag, fragment.into());
    Some(protocol)
}

/// The protocol behind the extension headers, and the kind of fragment.
fn extension_headers(reader: &mut Reader<'_, '_>, first: u8) -> Option<(u8, u8)> {
    let (mut protocol, mut fragment) = (first, 0);
    while let HOP_BY_HOP | ROUTING | DESTINATION | AUTHENTICATION | IPV6_FRAGMENT = protocol {
        let header = reader.peek::<8>()?;
        let length = usize::from(header[1]);
        match protocol {
            IPV6_FRAGMENT => {
                reader.skip(8)?;
                let offset = u16_at(header, 2);
                if offset != 0 {
                    fragment = FRAGMENT_ANY;
                    if offset & 0xfff8 != 0 {
                        return Some((IPV6_FRAGMENT, FRAGMENT_ANY | FRAGMENT_LATER));
                    }
                }
            }
            AUTHENTICATION => reader.skip((length + 2) * 4)?,
            _ => reader.skip((length + 1) * 8)?,
        }
        protocol = header[0];
    }
    Some((protocol, fragment))
}

/// RFC 826 for IPv4 over Ethernet. Nothing follows.
fn arp(reader: &mut Reader<'_, '_>, key: &mut Key) -> Option<u8> {
    let packet = reader.pull::<28>()?;
    if packet[..6] != [0, 1, 8, 0, 6, 4] {
        return None;
    }
    key.set(Field::ArpOp, if packet[6] == 0 { packet[7].into() } else { 0 });
    key.set(Field::ArpSha, number(&packet[8..14]));
    key.set(Field::ArpSpa, number(&packet[14..18]));
    key.set(Field::ArpTha, number(&packet[18..24]));
    key.set(Field::ArpTpa, number(&packet[24..28]));
    None
}

/// RFC 3032 §2.1: the first label. The headers behind labels are not read, but the window has them: labels may be removed.
fn label(reader: &mut Reader<'_, '_>, key: &mut Key) -> Option<u8> {
    reader.extend(0);
    let entry = number(reader.peek::<4>()?);
    key.set(Field::MplsLabel, entry >> 12);
    key.set(Field::MplsTc, entry >> 9 & 7);
    key.set(Field::MplsBos, entry >> 8 & 1);
    key.set(Field::MplsTtl, entry & 0xff);
    None
}

/// Ports, types and flags. A header that is cut off leaves them zero.
fn transport_fields(reader: &mut Reader<'_, '_>, protocol: u8, key: &mut Key) -> Option<()> {
    match protocol {
        protocol::TCP => {
            let header = reader.peek::<20>()?;
            let header_bytes = usize::from(header[12] >> 4) * 4;
            if header_bytes < 20 || header_bytes > reader.left() {
                return None;
            }
            key.set(Field::TcpFlags, u16_at(header, 12).into());
            ports(header, key);
        }
        protocol::UDP => ports(reader.peek::<8>()?, key),
        protocol::SCTP => ports(reader.peek::<12>()?, key),
        // As in Open vSwitch, whichever version of IP carries them.
        protocol::ICMP | protocol::IGMP | protocol::ICMPV6 => {
            let header = reader.pull::<8>()?;
            key.set(Field::IcmpType, header[0].into());
            key.set(Field::IcmpCode, header[1].into());
            if protocol == protocol::ICMPV6 && protocol::is_neighbor(header[0]) && header[1] == 0 {
                key.set(Field::NdReserved, number(&header[4..8]));
                neighbor(reader, key)?;
            }
        }
        _ => {}
    }
    Some(())
}

fn ports(header: &[u8], key: &mut Key) {
    key.set(Field::TcpSrc, u16_at(header, 0).into());
    key.set(Field::TcpDst, u16_at(header, 2).into());
}

/// RFC 4861 §4.3 and §4.4: the target, and the link-layer addresses of the options. One that comes twice makes all of
/// it invalid.
fn neighbor(reader: &mut Reader<'_, '_>, key: &mut Key) -> Option<()> {
    let before = *key;
    key.set(Field::NdTarget, number(reader.pull::<16>()?));
    while let Some(option) = reader.peek::<8>() {
        let bytes = usize::from(option[1]) * 8;
        if bytes == 0 || bytes > reader.left() {
            break;
        }
        let field = match option[0] {
            1 => Some(Field::NdSll),
            2 => Some(Field::NdTll),
            _ => None,
        };
        if let Some(field) = field.filter(|_| bytes == 8) {
            if key.get(field) != 0 {
                *key = before;
                return None;
            }
            key.set(field, number(&option[2..]));
            key.set(Field::NdOptionsType, option[0].into());
        }
        reader.skip(bytes)?;
    }
    Some(())
}
