//! Plain frames: frames whose fields lie at known places of their first bytes.
//!
//! A plain frame is a whole IPv4 datagram without options that carries TCP or UDP, behind one VLAN tag or none. Most frames
//! are plain. The cache compares their first bytes under a mask of bytes: nothing has to be read into fields.
mod change;

use flow::{Field, Key, Layers, protocol};

pub(crate) use change::HeadChange;
pub use change::NewHead;

/// The first bytes of a frame that are compared.
pub(crate) const HEAD_BYTES: usize = 64;
/// The number of words of these bytes.
pub(crate) const HEAD_WORDS: usize = HEAD_BYTES / 8;

/// The place of the Ethernet type or of the tag, in bytes (IEEE 802.3 §3.1.1), and the length of a tag (IEEE 802.1Q §9.3).
const TYPE: usize = 12;
const TAG_BYTES: usize = 4;
/// The bit of the field that says that there is a tag. On the wire, the bit has another meaning.
const VLAN_PRESENT: u64 = 0x1000;
/// The header of IPv4 without options (RFC 791 §3.1), and that of TCP (RFC 9293 §3.1).
const NETWORK_BYTES: usize = 20;
const TCP_BYTES: usize = 20;

/// The kind of a plain frame: the protocol that it carries, and whether it has a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    is_tcp: bool,
    is_tagged: bool,
}

/// The places of the headers and fields of plain frames of one kind, in bytes.
#[derive(Clone, Copy, Debug)]
struct Places {
    network: usize,
    tos: usize,
    ttl: usize,
    protocol: usize,
    network_sum: usize,
    source: usize,
    destination: usize,
    transport: usize,
    /// The checksum of the transport header.
    transport_sum: usize,
    /// For TCP.
    flags: usize,
}

impl Kind {
    /// All kinds, each at its number.
    pub(crate) const ALL: [Kind; 4] = [
        Kind { is_tcp: false, is_tagged: false },
        Kind { is_tcp: true, is_tagged: false },
        Kind { is_tcp: false, is_tagged: true },
        Kind { is_tcp: true, is_tagged: true },
    ];

    /// The number of the kind.
    #[inline(always)]
    pub(crate) fn number(self) -> usize {
        usize::from(self.is_tagged) << 1 | usize::from(self.is_tcp)
    }

    #[inline(always)]
    fn places(self) -> Places {
        let network = TYPE + 2 + if self.is_tagged { TAG_BYTES } else { 0 };
        let transport = network + NETWORK_BYTES;
        Places {
            network,
            tos: network + 1,
            ttl: network + 8,
            protocol: network + 9,
            network_sum: network + 10,
            source: network + 12,
            destination: network + 16,
            transport,
            transport_sum: transport + if self.is_tcp { 16 } else { 6 },
            flags: transport + 12,
        }
    }
}

/// A plain frame that was not read into fields.
#[derive(Clone, Copy, Debug)]
pub struct PlainFrame<'a> {
    head: &'a [u8; HEAD_BYTES],
    frame_bytes: usize,
    kind: Kind,
    is_partial: bool,
}

impl<'a> PlainFrame<'a> {
    /// The frame of `frame_bytes` that begins with `head`, if the frame is plain where at most `max_tags` VLAN tags are read.
    /// Bytes of `head` behind the frame's end are not used. `is_partial` says whether the sender left the checksum of the
    /// transport header to others.
    #[inline(always)]
    pub fn of(
        head: &'a [u8; HEAD_BYTES],
        frame_bytes: usize,
        max_tags: u8,
        is_partial: bool,
    ) -> Option<Self> {
        let is_tagged = match number(head, TYPE) {
            protocol::IPV4 => false,
            protocol::VLAN | protocol::SERVICE_VLAN if max_tags > 0 => {
                if number(head, TYPE + TAG_BYTES) != protocol::IPV4 {
                    return None;
                }
                true
            }
            _ => return None,
        };
        let at = Kind { is_tcp: true, is_tagged }.places();
        let (is_tcp, header_bytes) = match head[at.protocol] {
            protocol::TCP => (true, usize::from(head[at.flags] >> 4) * 4),
            protocol::UDP => (false, 8),
            _ => return None,
        };
        let total = usize::from(number(head, at.network + 2));
        let padding = frame_bytes.checked_sub(at.network + total)?;
        let is_plain = head[at.network] & 0xf == 5
            && number(head, at.network + 6) & 0x3fff == 0
            && total >= NETWORK_BYTES + header_bytes
            && padding <= usize::from(u16::MAX)
            && (!is_tcp || header_bytes >= TCP_BYTES);
        is_plain.then_some(Self { head, frame_bytes, kind: Kind { is_tcp, is_tagged }, is_partial })
    }

    /// The bytes that the frame has, at most 64.
    pub fn bytes(&self) -> &'a [u8] {
        &self.head[..self.frame_bytes.min(HEAD_BYTES)]
    }

    /// The length of the frame.
    pub fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the sender left the checksum of the transport header to others.
    pub(crate) fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Reads the fields as [`flow::extract`] does. The metadata fields of the key stay.
    pub(crate) fn read(&self, key: &mut Key) -> Layers {
        let at = self.kind.places();
        key.clear_words(Field::FRAME_WORDS);
        key.set(Field::EthDst, self.number::<6>(0).into());
        key.set(Field::EthSrc, self.number::<6>(6).into());
        if self.kind.is_tagged {
            key.set(Field::VlanTpid, self.number::<2>(TYPE).into());
            key.set(Field::VlanTci, (self.number::<2>(TYPE + 2) | VLAN_PRESENT).into());
        }
        key.set(Field::EthType, protocol::IPV4.into());
        key.set(Field::NwTos, self.head[at.tos].into());
        key.set(Field::NwTtl, self.head[at.ttl].into());
        key.set(Field::NwProto, self.head[at.protocol].into());
        key.set(Field::IpSrc, self.number::<4>(at.source).into());
        key.set(Field::IpDst, self.number::<4>(at.destination).into());
        key.set(Field::TcpSrc, self.number::<2>(at.transport).into());
        key.set(Field::TcpDst, self.number::<2>(at.transport + 2).into());
        if self.kind.is_tcp {
            key.set(Field::TcpFlags, self.number::<2>(at.flags).into());
        }
        let (network, transport) = (at.network as u16, Some(at.transport as u16)); // below 64
        Layers { tags: self.kind.is_tagged.into(), network, transport, is_cut: false }
    }

    /// The number in so many bytes.
    #[inline(always)]
    fn number<const BYTES: usize>(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes[8 - BYTES..].copy_from_slice(&self.head[at..at + BYTES]);
        u64::from_be_bytes(bytes)
    }

    #[inline(always)]
    pub(crate) fn words(&self) -> [u64; HEAD_WORDS] {
        words(self.head)
    }
}

#[inline(always)]
fn number(head: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([head[at], head[at + 1]])
}

#[inline(always)]
pub(crate) fn words(head: &[u8; HEAD_BYTES]) -> [u64; HEAD_WORDS] {
    let (words, _) = head.as_chunks();
    std::array::from_fn(|at| u64::from_ne_bytes(words[at]))
}

/// The bits of plain frames' first bytes that hold these bits of the fields. All other fields of frames of this kind are the
/// same.
pub(crate) fn mask(bits: &Key, kind: Kind) -> [u8; HEAD_BYTES] {
    let (mut mask, at) = ([0; HEAD_BYTES], kind.places());
    put::<6>(&mut mask, 0, bits.get(Field::EthDst));
    put::<6>(&mut mask, 6, bits.get(Field::EthSrc));
    if kind.is_tagged {
        put::<2>(&mut mask, TYPE, bits.get(Field::VlanTpid));
        // A tag that is written has no other bit in place of that of presence, so frames are told apart by this bit too.
        put::<2>(&mut mask, TYPE + 2, bits.get(Field::VlanTci));
    }
    put::<1>(&mut mask, at.tos, bits.get(Field::NwTos));
    put::<1>(&mut mask, at.ttl, bits.get(Field::NwTtl));
    put::<4>(&mut mask, at.source, bits.get(Field::IpSrc));
    put::<4>(&mut mask, at.destination, bits.get(Field::IpDst));
    put::<2>(&mut mask, at.transport, bits.get(Field::TcpSrc));
    put::<2>(&mut mask, at.transport + 2, bits.get(Field::TcpDst));
    if kind.is_tcp {
        put::<2>(&mut mask, at.flags, bits.get(Field::TcpFlags));
    }
    mask
}

/// Writes the last bytes of a number.
#[inline(always)]
fn put<const BYTES: usize>(head: &mut [u8; HEAD_BYTES], at: usize, number: u128) {
    head[at..at + BYTES].copy_from_slice(&number.to_be_bytes()[size_of::<u128>() - BYTES..]);
}
