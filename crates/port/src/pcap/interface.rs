//! Interfaces of a capture, which give the fields of records their meaning.
use pcap_parser::{
    EnhancedPacketBlock, InterfaceDescriptionBlock, Linktype, OptionCode, PcapHeader, PcapNGOption,
    parse_enhancedpacketblock_be, parse_enhancedpacketblock_le,
};

/// Options of interfaces and packets (draft-ietf-opsawg-pcapng, sections 4.2 and 4.3).
const IF_FCSLEN: u16 = 13;
const EPB_FLAGS: u16 = 2;

/// The byte order of a section, which is that of the machine that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    pub fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        }
    }

    pub fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            ByteOrder::Little => u16::from_le_bytes(bytes),
            ByteOrder::Big => u16::from_be_bytes(bytes),
        }
    }

    pub fn bytes(self, word: u32) -> [u8; 4] {
        match self {
            ByteOrder::Little => word.to_le_bytes(),
            ByteOrder::Big => word.to_be_bytes(),
        }
    }

    /// Kind and length of the block that begins at `data`.
    pub fn block_header(self, data: &[u8]) -> Option<(u32, usize)> {
        let (kind, rest) = data.split_first_chunk()?;
        Some((self.u32(*kind), self.u32(*rest.first_chunk()?) as usize))
    }

    pub fn parse_enhanced(self, block: &[u8]) -> Option<EnhancedPacketBlock<'_>> {
        let parsed = match self {
            ByteOrder::Little => parse_enhancedpacketblock_le(block),
            ByteOrder::Big => parse_enhancedpacketblock_be(block),
        };
        parsed.ok().map(|(_, packet)| packet)
    }

    /// Bytes of the frame check sequence at the end of a packet, if its flags say so (bits 5 to 8).
    pub fn fcs_bytes_of_packet(self, options: &[PcapNGOption<'_>]) -> Option<usize> {
        let flags = self.u32(*option(options, EPB_FLAGS)?.first_chunk()?);
        let bytes = (flags >> 5 & 0xf) as usize;
        (bytes > 0).then_some(bytes)
    }
}

/// The value of an option.
fn option<'a>(options: &'a [PcapNGOption<'_>], code: u16) -> Option<&'a [u8]> {
    let options = options.iter().take_while(|option| option.code != OptionCode::EndOfOpt);
    options.filter(|option| option.code.0 == code).find_map(|option| option.as_bytes().ok())
}

/// An interface of a capture.
#[derive(Clone, Copy)]
pub(super) struct Interface {
    pub ticks_per_second: u128,
    pub offset_seconds: i64,
    /// The most bytes of a packet that are captured.
    pub snapshot_bytes: usize,
    /// Bytes at the end of each packet that are its frame check sequence.
    pub fcs_bytes: usize,
    pub ethernet: Result<(), Linktype>,
}

fn ethernet(linktype: Linktype) -> Result<(), Linktype> {
    if linktype == Linktype::ETHERNET { Ok(()) } else { Err(linktype) }
}

impl Interface {
    /// The only interface of a pcap file. The upper half of the link type says whether there is a frame check
    /// sequence, and of how many 16-bit words (pcap-savefile(5)).
    pub fn of_header(header: &PcapHeader) -> Self {
        let link = header.network.0 as u32;
        Interface {
            ticks_per_second: if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 },
            offset_seconds: 0,
            snapshot_bytes: usize::MAX,
            fcs_bytes: if link & 0x0400_0000 == 0 { 0 } else { 2 * (link >> 28) as usize },
            ethernet: ethernet(Linktype((link & 0xffff) as i32)),
        }
    }

    pub fn described(described: &InterfaceDescriptionBlock<'_>, order: ByteOrder) -> Self {
        // if_tsresol: a power of 2 if the highest bit is set, else of 10. A resolution that no clock has counts as 1.
        let exponent = u32::from(described.if_tsresol & 0x7f);
        let base: u128 = if described.if_tsresol & 0x80 != 0 { 2 } else { 10 };
        // The parser takes every offset for little-endian.
        let offset_seconds = match order {
            ByteOrder::Little => described.if_tsoffset,
            ByteOrder::Big => described.if_tsoffset.swap_bytes(),
        };
        let fcs_bytes = option(&described.options, IF_FCSLEN).and_then(<[u8]>::first).copied().unwrap_or(0);
        Interface {
            ticks_per_second: base.checked_pow(exponent).unwrap_or(1),
            offset_seconds,
            snapshot_bytes: if described.snaplen == 0 { usize::MAX } else { described.snaplen as usize },
            fcs_bytes: fcs_bytes.into(),
            ethernet: ethernet(described.linktype),
        }
    }
}
