//! Compression of IPv4 and UDP headers with one context for each user, after RFC 5795 and RFC 3095: fields that
//! rarely change are sent now and then, and otherwise only identification and checksum. The wire format differs from
//! the RFCs, but the expensive parts, parsing and comparing, are the same.

use etherparse::{Ipv4HeaderSlice, UdpHeaderSlice};

use super::packet::HEADERS;

/// A packet whose context goes along.
const WITH_CONTEXT: u8 = 0xfd;
/// A packet whose context the other end has.
const COMPRESSED: u8 = 0x80;
/// The bytes that replace the headers in a compressed packet: kind, identification, UDP checksum.
const COMPRESSED_BYTES: usize = 5;
/// The context is sent again after this many packets, for a receiver that has lost it.
const REFRESH: u32 = 64;
/// The places of the lengths, the identification and the checksums, which differ from packet to packet.
const LENGTH: std::ops::Range<usize> = 2..4;
const IDENTIFICATION: std::ops::Range<usize> = 4..6;
const IP_CHECKSUM: std::ops::Range<usize> = 10..12;
const UDP_LENGTH: std::ops::Range<usize> = 24..26;
const UDP_CHECKSUM: std::ops::Range<usize> = 26..28;

/// A packet's headers without what differs from packet to packet.
type Context = [u8; HEADERS];

/// Why a packet cannot be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompressionError {
    /// The data has another format or is truncated.
    #[error("{0} bytes that are no packet with compressed headers")]
    Malformed(usize),
    /// The packet that brought the context was lost.
    #[error("a packet with compressed headers came before its context")]
    NoContext,
}

fn context_of(headers: &[u8]) -> Option<Context> {
    let mut context: Context = headers.try_into().ok()?;
    for range in [LENGTH, IDENTIFICATION, IP_CHECKSUM, UDP_LENGTH, UDP_CHECKSUM] {
        context[range].fill(0);
    }
    Some(context)
}

/// The sending end.
#[derive(Clone, Debug, Default)]
pub struct Compressor {
    context: Option<Context>,
    since: u32,
}

impl Compressor {
    /// Appends the packet with its headers compressed.
    pub fn compress(&mut self, packet: &[u8], compressed: &mut Vec<u8>) {
        let context = parse(packet);
        let Some(context) = context else {
            // The packet has unknown headers: it is sent unchanged, without a context.
            compressed.push(WITH_CONTEXT);
            compressed.extend_from_slice(packet);
            return;
        };
        if self.context == Some(context) && self.since < REFRESH {
            self.since += 1;
            compressed.push(COMPRESSED);
            compressed.extend_from_slice(&packet[IDENTIFICATION]);
            compressed.extend_from_slice(&packet[UDP_CHECKSUM]);
            compressed.extend_from_slice(&packet[HEADERS..]);
        } else {
            (self.context, self.since) = (Some(context), 0);
            compressed.push(WITH_CONTEXT);
            compressed.extend_from_slice(packet);
        }
    }
}

/// The headers of a packet of IPv4 without options and UDP, both of the packet's own length.
fn parse(packet: &[u8]) -> Option<Context> {
    let ip = Ipv4HeaderSlice::from_slice(packet).ok()?;
    let rest = packet.get(ip.slice().len()..)?;
    let udp = UdpHeaderSlice::from_slice(rest).ok()?;
    let plain = ip.ihl() == 5
        && !ip.is_fragmenting_payload()
        && ip.protocol() == etherparse::IpNumber::UDP
        && usize::from(ip.total_len()) == packet.len()
        && usize::from(udp.length()) == rest.len();
    if plain { context_of(&packet[..HEADERS]) } else { None }
}

/// The receiving end.
#[derive(Clone, Debug, Default)]
pub struct Decompressor {
    context: Option<Context>,
}

impl Decompressor {
    /// Writes the restored packet into `packet`.
    ///
    /// # Errors
    /// The packet is malformed, or its context did not arrive.
    pub fn restore(&mut self, compressed: &[u8], packet: &mut Vec<u8>) -> Result<(), CompressionError> {
        packet.clear();
        let malformed = CompressionError::Malformed(compressed.len());
        match compressed.first() {
            Some(&WITH_CONTEXT) => {
                packet.extend_from_slice(&compressed[1..]);
                self.context = parse(packet).or(self.context);
                Ok(())
            }
            Some(&COMPRESSED) => {
                let payload = compressed.get(COMPRESSED_BYTES..).ok_or(malformed)?;
                let mut headers = self.context.ok_or(CompressionError::NoContext)?;
                let total = u16::try_from(HEADERS + payload.len()).map_err(|_| malformed)?;
                headers[LENGTH].copy_from_slice(&total.to_be_bytes());
                headers[IDENTIFICATION].copy_from_slice(&compressed[1..3]);
                headers[UDP_LENGTH].copy_from_slice(&(total - 20).to_be_bytes());
                headers[UDP_CHECKSUM].copy_from_slice(&compressed[3..5]);
                let ip = Ipv4HeaderSlice::from_slice(&headers).map_err(|_| malformed)?;
                let sum = ip.to_header().calc_header_checksum();
                headers[IP_CHECKSUM].copy_from_slice(&sum.to_be_bytes());
                packet.extend_from_slice(&headers);
                packet.extend_from_slice(payload);
                Ok(())
            }
            _ => Err(malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn packets_come_back_as_they_were_and_most_are_shorter() {
        let (mut one, mut other) = (Compressor::default(), Decompressor::default());
        let (mut sent, mut restored) = (Vec::new(), Vec::new());
        let mut shorter = 0;
        for tick in 0..1000 {
            packet::write(7, tick * 3, 60 + tick as usize % 50, &mut sent);
            let mut compressed = Vec::new();
            one.compress(&sent, &mut compressed);
            assert!(compressed.len() <= sent.len() + 1);
            shorter += u32::from(compressed.len() < sent.len());
            other.restore(&compressed, &mut restored).unwrap();
            assert_eq!(restored, sent);
        }
        assert!(shorter > 980, "{shorter}");
    }

    #[test]
    fn a_lost_context_is_said_and_comes_again() {
        let (mut one, mut other) = (Compressor::default(), Decompressor::default());
        let (mut sent, mut restored) = (Vec::new(), Vec::new());
        let mut refused = 0;
        for tick in 0..200 {
            packet::write(7, tick, 60, &mut sent);
            let mut compressed = Vec::new();
            one.compress(&sent, &mut compressed);
            if tick > 0 {
                let result = other.restore(&compressed, &mut restored);
                refused += u32::from(result == Err(CompressionError::NoContext));
            }
        }
        assert_eq!(refused, REFRESH);
    }

    proptest! {
        #[test]
        fn nothing_panics_and_any_packet_comes_back(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..20)) {
            let (mut one, mut other) = (Compressor::default(), Decompressor::default());
            let mut restored = Vec::new();
            for packet in packets {
                let mut compressed = Vec::new();
                one.compress(&packet, &mut compressed);
                other.restore(&compressed, &mut restored).unwrap();
                prop_assert_eq!(&restored, &packet);
                let _ = Decompressor::default().restore(&packet, &mut restored);
            }
        }
    }
}
