//! The headers of one segment or fragment.
use super::layout::{Ip, TCP, UDP};
use super::{MAX_HEADER_BYTES, Plan, Segment, SumOf};
use crate::net::{Offload, PartialChecksum, SegmentKind, checksum};

/// A buffer for one piece's headers, reused for the next piece.
#[derive(Clone, Debug)]
pub struct Headers {
    bytes: [u8; MAX_HEADER_BYTES],
    len: usize,
    pending: Option<Pending>,
}

/// A checksum that lacks the payload's sum. The field holds zero until then.
#[derive(Clone, Copy, Debug)]
struct Pending {
    transport: usize,
    /// The offset of the checksum in bytes from `transport`.
    offset: u16,
    pseudo: u16,
    /// The length of the transport header.
    header: u16,
    /// Whether the checksum also covers bytes of other pieces.
    of_fragments: bool,
}

impl Default for Headers {
    fn default() -> Self {
        Self::new()
    }
}

impl Headers {
    /// An empty buffer.
    pub const fn new() -> Self {
        Headers { bytes: [0; MAX_HEADER_BYTES], len: 0, pending: None }
    }

    /// The bytes in front of the piece's payload. They are complete after [`Headers::finish`].
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Stores the checksum, given the payload's sum (see [`Plan::sum_of`]). Headers without a checksum of
    /// their own stay unchanged.
    pub fn finish(&mut self, payload_sum: u16) {
        let Some(pending) = self.pending.take() else { return };
        // Transport headers have an even length, so the payload begins with a whole word.
        let sum = checksum::add(checksum::add(pending.pseudo, pending.header), payload_sum);
        self.put_checksum(pending, checksum::nonzero_field(sum));
    }

    /// Leaves the checksum to a receiver that accepts partial ones. Returns the content of its net header.
    ///
    /// `None` if the checksum covers several fragments and must be completed here.
    pub fn leave_partial(&mut self) -> Option<Offload> {
        let Some(pending) = self.pending else { return Some(Offload::NONE) };
        if pending.of_fragments {
            return None;
        }
        self.pending = None;
        self.put_checksum(pending, pending.pseudo);
        let partial = PartialChecksum { start: pending.transport as u16, offset: pending.offset };
        Some(Offload { checksum: Some(partial), ..Offload::NONE })
    }

    fn put_checksum(&mut self, pending: Pending, value: u16) {
        put(&mut self.bytes, pending.transport + usize::from(pending.offset), value);
    }
}

impl Plan<'_> {
    /// Writes a piece's headers, with the checksum pending, and returns the position of its payload. `None` beyond
    /// the last piece.
    pub fn write(&self, index: u32, headers: &mut Headers) -> Option<Segment> {
        let piece = self.segment(index)?;
        let copied = piece.header_bytes - self.fragment_header_bytes();
        let bytes = &mut headers.bytes;
        bytes[..copied].copy_from_slice(&self.head[..copied]);
        // From here on, offsets are those of the piece.
        let mut transport = self.layout.transport;
        match self.layout.ip {
            Ip::V4 => self.write_v4(bytes, &piece),
            Ip::V6 { fragment_at, announced_at, .. } => {
                if self.fragments() {
                    bytes.copy_within(fragment_at..copied, fragment_at + 8);
                    self.write_fragment_header(bytes, &piece, fragment_at, announced_at);
                    transport += 8;
                }
                let payload_bytes = piece.bytes() as usize - self.layout.network - 40;
                put(bytes, self.layout.network + 4, payload_bytes as u16);
            }
        }
        headers.len = piece.header_bytes;
        headers.pending = None;
        if !self.fragments() || index == 0 {
            headers.pending = self.write_transport(&mut headers.bytes, &piece, transport);
        }
        Some(piece)
    }

    /// RFC 791 §3.1. Segments count the identification up, fragments share it.
    fn write_v4(&self, bytes: &mut [u8; MAX_HEADER_BYTES], piece: &Segment) {
        let network = self.layout.network;
        put(bytes, network + 2, (piece.bytes() - network as u32) as u16);
        if self.fragments() {
            const MORE: u16 = 0x2000;
            // "Don't fragment" goes: the sender itself has left the fragmenting to us.
            let more = if piece.index + 1 < self.pieces() { MORE } else { 0 };
            put(bytes, network + 6, more | (self.fragment_offset(piece) / 8));
            if piece.index > 0 {
                blank_uncopied_options(&mut bytes[network + 20..self.layout.transport]);
            }
        } else {
            let identification = u16::from_be_bytes([bytes[network + 4], bytes[network + 5]]);
            put(bytes, network + 4, identification.wrapping_add(piece.index as u16));
        }
        let field = checksum::ipv4_header_field(&bytes[network..self.layout.transport]);
        put(bytes, network + 10, field);
    }

    /// RFC 8200 §4.5.
    fn write_fragment_header(
        &self,
        bytes: &mut [u8; MAX_HEADER_BYTES],
        piece: &Segment,
        at: usize,
        announced_at: usize,
    ) {
        const FRAGMENT: u8 = 44;
        let next_header = std::mem::replace(&mut bytes[announced_at], FRAGMENT);
        let more = u16::from(piece.index + 1 < self.pieces());
        bytes[at] = next_header;
        bytes[at + 1] = 0;
        put(bytes, at + 2, self.fragment_offset(piece) | more);
        bytes[at + 4..at + 8].copy_from_slice(&self.identification.to_be_bytes());
    }

    /// Bytes of the fragmentable part in front of this piece: a multiple of eight below 64 Ki.
    fn fragment_offset(&self, piece: &Segment) -> u16 {
        match piece.index {
            0 => 0,
            _ => (piece.payload.start - self.shared_out as u32) as u16,
        }
    }

    /// Lengths, sequence and flags; returns the checksum that is still to be finished.
    fn write_transport(
        &self,
        bytes: &mut [u8; MAX_HEADER_BYTES],
        piece: &Segment,
        transport: usize,
    ) -> Option<Pending> {
        // A datagram in fragments has its whole length in the first one's header.
        let payload_bytes = match self.fragments() {
            true => self.payload_bytes(),
            false => piece.payload.len() as u32,
        };
        let covered = (self.layout.payload - self.layout.transport) as u32 + payload_bytes;
        let protocol = match self.kind {
            SegmentKind::TcpV4 | SegmentKind::TcpV6 => {
                self.write_tcp(&mut bytes[transport..], piece);
                TCP
            }
            SegmentKind::UdpFragments | SegmentKind::UdpSegments => {
                put(bytes, transport + 4, covered as u16);
                UDP
            }
        };
        if self.sum_of == SumOf::Nothing {
            return None;
        }
        let offset = self.kind.checksum_offset();
        put(bytes, transport + usize::from(offset), 0);
        let network = self.layout.network;
        let pseudo = match self.layout.ip {
            Ip::V4 => {
                let [source, destination] = [array(bytes, network + 12), array(bytes, network + 16)];
                Some(checksum::pseudo_v4(source, destination, protocol, covered as u16))
            }
            // Read from the frame: a fragment header may have moved what is behind it.
            Ip::V6 { destination: Ok(destination), .. } => {
                let [source, destination] = [array(self.head, network + 8), array(self.head, destination)];
                Some(checksum::pseudo_v6(&source, &destination, protocol, covered))
            }
            Ip::V6 { destination: Err(_), .. } => None,
        };
        let pseudo = pseudo.unwrap_or_else(|| {
            // The sender's, which is of the whole frame: with this piece's length instead.
            let field = array(self.head, self.layout.transport + usize::from(offset));
            let whole = (self.frame_bytes - self.layout.transport as u32) as u16;
            checksum::add(checksum::add(u16::from_be_bytes(field), !whole), covered as u16)
        });
        let header = checksum::sum(&bytes[transport..piece.header_bytes]);
        Some(Pending { transport, offset, pseudo, header, of_fragments: self.fragments() })
    }

    /// RFC 9293 §3.1, RFC 3168 §6.1.2. SYN, RST, URG and the urgent pointer stay as they are in each segment, as in
    /// Linux (`tcp_gso_segment`): a guest's segments are the same, whichever program cuts them.
    fn write_tcp(&self, tcp: &mut [u8], piece: &Segment) {
        const FIN: u8 = 0x01;
        const PSH: u8 = 0x08;
        const CWR: u8 = 0x80;
        let before = piece.payload.start - self.layout.payload as u32;
        let sequence = u32::from_be_bytes(array(tcp, 4)).wrapping_add(before);
        tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
        let flags = &mut tcp[13];
        if piece.index + 1 < self.pieces() {
            *flags &= !(FIN | PSH);
        }
        if piece.index > 0 {
            *flags &= !CWR;
        }
    }
}

/// Options that only the first fragment carries become no-operations (RFC 791 §3.1, "copied flag").
fn blank_uncopied_options(options: &mut [u8]) {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    const COPIED: u8 = 0x80;
    let mut at = 0;
    while let Some(&option) = options.get(at) {
        let len = match (option, options.get(at + 1)) {
            (END, _) => return,
            (NO_OPERATION, _) => 1,
            (_, Some(&len)) if len >= 2 && at + usize::from(len) <= options.len() => usize::from(len),
            // These bytes are no option: the receiver judges them and all bytes behind.
            _ => return,
        };
        if option & COPIED == 0 {
            options[at..at + len].fill(NO_OPERATION);
        }
        at += len;
    }
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}
