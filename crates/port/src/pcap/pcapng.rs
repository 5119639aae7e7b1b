//! Captures in the newer format (draft-ietf-opsawg-pcapng), as blocks in a buffer, with several interfaces,
//! directions and counts of dropped frames.
use std::time::{SystemTime, UNIX_EPOCH};

use frame::{Frame, SNAPSHOT_BYTES};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const ETHERNET: u16 = 1;

/// Options: end, comment-free names and figures of the blocks that have them (sections 3.5, 4.2, 4.3 and 4.6).
const END: u16 = 0;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;
const ISB_IFDROP: u16 = 5;

/// A block around what `body` appends.
fn block(into: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = into.len();
    into.extend(kind.to_le_bytes());
    into.extend([0; 4]);
    body(into);
    let bytes = (into.len() - start + 4) as u32;
    into[start + 4..start + 8].copy_from_slice(&bytes.to_le_bytes());
    into.extend(bytes.to_le_bytes());
}

fn pad(into: &mut Vec<u8>, bytes: usize) {
    into.extend([0; 3].iter().take(bytes.wrapping_neg() % 4));
}

fn option(into: &mut Vec<u8>, code: u16, value: &[u8]) {
    into.extend(code.to_le_bytes());
    into.extend((value.len() as u16).to_le_bytes());
    into.extend(value);
    pad(into, value.len());
}

/// The beginning of a file.
pub fn section(into: &mut Vec<u8>) {
    block(into, SECTION, |into| {
        into.extend(BYTE_ORDER.to_le_bytes());
        into.extend([1u16, 0].map(u16::to_le_bytes).concat());
        // Its length is not told.
        into.extend(u64::MAX.to_le_bytes());
    });
}

/// Adds an interface. Interfaces are numbered from 0.
pub fn interface(into: &mut Vec<u8>, name: &str, snaplen: u32) {
    block(into, INTERFACE, |into| {
        into.extend(ETHERNET.to_le_bytes());
        into.extend([0; 2]);
        into.extend(snaplen.to_le_bytes());
        option(into, IF_NAME, name.as_bytes());
        // Time stamps count nanoseconds.
        option(into, IF_TSRESOL, &[9]);
        option(into, END, &[]);
    });
}

/// Adds a frame with the present time, cut to `snaplen` bytes.
pub fn frame(into: &mut Vec<u8>, interface: u32, frame: &Frame<'_>, is_inbound: bool, snaplen: u32) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let captured = frame.len_bytes().min(snaplen as usize);
    block(into, PACKET, |into| {
        let words = [interface, (now >> 32) as u32, now as u32, captured as u32, frame.len_bytes() as u32];
        into.extend(words.map(u32::to_le_bytes).concat());
        start_of(frame, captured, into);
        pad(into, captured);
        option(into, EPB_FLAGS, &u32::to_le_bytes(if is_inbound { 1 } else { 2 }));
        option(into, END, &[]);
    });
}

/// Adds the number of frames that were not captured for lack of room.
pub fn statistics(into: &mut Vec<u8>, interface: u32, dropped: u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    block(into, STATISTICS, |into| {
        into.extend([interface, (now >> 32) as u32, now as u32].map(u32::to_le_bytes).concat());
        option(into, ISB_IFDROP, &dropped.to_le_bytes());
        option(into, END, &[]);
    });
}

/// Appends the first `bytes` bytes of a frame: the snapshot, then bytes from the sender's memory.
pub fn start_of(frame: &Frame<'_>, bytes: usize, into: &mut Vec<u8>) {
    let snapshot = frame.snapshot();
    into.extend(&snapshot[..bytes.min(snapshot.len())]);
    let (slices, mut skip) = frame.slices();
    skip += SNAPSHOT_BYTES;
    let mut left = bytes.saturating_sub(SNAPSHOT_BYTES);
    for slice in slices {
        let here = slice.len_bytes().saturating_sub(skip).min(left);
        if here > 0 {
            let start = into.len();
            into.resize(start + here, 0);
            slice.slice(skip, here).read(&mut into[start..]);
        }
        skip = skip.saturating_sub(slice.len_bytes());
        left -= here;
    }
    // A frame is as long as its slices; were it not, the block would still be whole.
    into.resize(into.len() + left, 0);
}

#[cfg(test)]
mod tests {
    use pcap_parser::traits::PcapReaderIterator;
    use pcap_parser::{Block, PcapBlockOwned, PcapNGReader};

    use super::*;
    use frame::FrameBatch;

    #[test]
    fn another_hand_reads_what_was_written() {
        let mut bytes = Vec::new();
        section(&mut bytes);
        interface(&mut bytes, "from guest, queue pair 0", 1000);
        let lengths = [60, 61, 62, 63, 64, 65, 999, 1000, 1400];
        for length in lengths {
            let sent: Vec<u8> = (0..length).map(|at: usize| at as u8).collect();
            let batch = FrameBatch::of_frame(&sent).unwrap();
            frame(&mut bytes, 0, &batch.frame(0), true, 1000);
        }
        statistics(&mut bytes, 0, 7);
        let mut reader = PcapNGReader::new(1 << 16, &bytes[..]).unwrap();
        let (mut seen, mut dropped) = (Vec::new(), 0);
        loop {
            match reader.next() {
                Ok((size, PcapBlockOwned::NG(block))) => {
                    match block {
                        Block::EnhancedPacket(packet) => {
                            let expected: Vec<u8> = (0..packet.caplen as usize).map(|at| at as u8).collect();
                            assert_eq!(&packet.data[..packet.caplen as usize], expected);
                            seen.push((packet.caplen, packet.origlen));
                        }
                        Block::InterfaceStatistics(statistics) => {
                            let value = statistics.options.iter().find(|option| option.code.0 == ISB_IFDROP);
                            dropped = u64::from_le_bytes(value.unwrap().value[..8].try_into().unwrap());
                        }
                        _ => {}
                    }
                    reader.consume(size);
                }
                Ok(_) => panic!("not of this format"),
                Err(pcap_parser::PcapError::Eof) => break,
                Err(pcap_parser::PcapError::Incomplete(_)) => reader.refill().unwrap(),
                Err(error) => panic!("{error:?}"),
            }
        }
        assert_eq!(seen, lengths.map(|length| (length.min(1000) as u32, length as u32)));
        assert_eq!(dropped, 7);
    }
}
