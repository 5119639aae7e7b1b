//! Packet Blocks (draft-ietf-opsawg-pcapng, appendix A), which were replaced by Enhanced Packet Blocks. The parser
//! does not support Packet Blocks, but they have the same fields.
use pcap_parser::UnknownBlock;

use super::interface::ByteOrder;

const PACKET: u32 = 2;
const ENHANCED_PACKET: u32 = 6;

/// Kinds of blocks that frames depend on: section header, interface, packet, simple and enhanced packet.
pub(super) const HAVE_FRAMES: [u32; 5] = [0x0a0d_0d0a, 1, PACKET, 3, ENHANCED_PACKET];

/// A Packet Block as an Enhanced Packet Block; `None` if this is another kind of block.
pub(super) fn as_enhanced(block: &UnknownBlock<'_>, order: ByteOrder) -> Option<Vec<u8>> {
    // The parser reads kinds as little-endian.
    if order.u32(block.block_type.to_le_bytes()) != PACKET {
        return None;
    }
    // Two bytes for the interface, then two for a count of drops.
    let (head, rest) = block.data.split_first_chunk::<4>().unwrap_or((&[0xff; 4], &[]));
    let interface = u32::from(order.u16([head[0], head[1]]));
    let words = [ENHANCED_PACKET, block.block_len1, interface].map(|word| order.bytes(word));
    Some([words.as_flattened(), rest, &order.bytes(block.block_len2)].concat())
}
