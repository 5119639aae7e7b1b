//! A capture file, read into memory before anything is replayed.
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use frame::OwnMemory;
use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{Block, EnhancedPacketBlock, PcapBlockOwned, PcapError, create_reader};
use rustix::fs::OFlags;

use super::header::FRONT_BYTES;
use super::interface::{ByteOrder, Interface};
use super::{obsolete, patience};
use crate::PortError;

/// The first size of the buffer, and its largest: anything longer is no record.
const BUFFER_BYTES: usize = 64 << 10;
const RECORD_BYTES: usize = 4 << 20;

/// A block without a body: kind, length, and length again.
const SMALLEST_BLOCK_BYTES: usize = 12;

/// One frame of a capture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recorded {
    /// The frame's offset in the capture's memory.
    pub offset: u64,
    /// Its length.
    pub bytes: u32,
    /// The time since the first frame; never less than that of the previous frame.
    pub at: Duration,
}

/// A capture in memory. All its frames share one net header without offloads.
#[derive(Debug)]
pub(super) struct Capture {
    pub memory: OwnMemory,
    pub frames: Vec<Recorded>,
    /// What was left out, a sentence for each kind; the sentences are shown to the user.
    pub left_out: Vec<String>,
}

/// Reads a capture in either format, with any byte order and unit of time.
pub(super) fn load(path: &Path) -> Result<Capture, PortError> {
    let failed =
        |why: String, remedy: &str| PortError::new(format!("replay {}", path.display()), why, remedy);
    // Does not wait for a writer if the path is a pipe.
    let flags = OFlags::NONBLOCK.bits() as libc::c_int;
    let of = path.to_owned();
    let opened = patience::ask(move || {
        let file = File::options().read(true).custom_flags(flags).open(of)?;
        Ok((file.metadata()?, file))
    });
    let (metadata, file) =
        opened.map_err(|error| failed(error.to_string(), "name a capture that this user may read"))?;
    if !metadata.is_file() {
        return Err(failed("it is no regular file".into(), "save the capture to a file first"));
    }
    // The file's records are longer than their frames, so all frames fit.
    let memory = OwnMemory::new(c"tautline-pcap", FRONT_BYTES + metadata.len())
        .map_err(|error| failed(error.to_string(), "replay a smaller capture, or free some memory"))?;
    let mut loading = Loading {
        capture: Capture { memory, frames: Vec::new(), left_out: Vec::new() },
        end: FRONT_BYTES,
        limit: FRONT_BYTES + metadata.len(),
        is_pcapng: false,
        order: ByteOrder::Little,
        interfaces: Vec::new(),
        clock: CaptureClock::default(),
        records: 0,
        truncated: 0,
        skipped_blocks: 0,
    };
    match loading.read(file) {
        Ok(ended_early) => Ok(loading.finish(ended_early)),
        Err(why) => {
            let remedy = "name a pcap or pcapng capture of an Ethernet interface, with a whole frame in it";
            Err(failed(why, remedy))
        }
    }
}

/// Time stamps of a capture as times since its first frame.
#[derive(Default)]
struct CaptureClock {
    /// The time stamp that counts as 0.
    origin_ns: Option<i128>,
    previous_ns: i128,
    /// How often the clock was changed during the capture.
    jumps: u64,
}

impl CaptureClock {
    /// The time of a frame with this stamp. A stamp that differs by a day from the one before it comes from another
    /// clock, or from none (as a 0 at the beginning): the frame then follows at once, and time continues from there.
    fn time_of(&mut self, ns: i128) -> Duration {
        let origin = self.origin_ns.get_or_insert_with(|| {
            self.previous_ns = ns;
            ns
        });
        let step = ns - self.previous_ns;
        if step.abs() > LONGEST_PAUSE_NS {
            *origin += step;
            self.jumps += 1;
        }
        self.previous_ns = ns;
        Duration::from_nanos((ns - *origin).clamp(0, i128::from(u64::MAX)) as u64)
    }
}

struct Loading {
    capture: Capture,
    /// The offset of the next frame, which is also the end of the frames.
    end: u64,
    limit: u64,
    is_pcapng: bool,
    /// The byte order of the section.
    order: ByteOrder,
    interfaces: Vec<Interface>,
    clock: CaptureClock,
    records: u64,
    /// Frames that were captured only in part.
    truncated: u64,
    /// Blocks without frames that are malformed.
    skipped_blocks: u64,
}

/// The reaction to a parser's error.
enum Fault {
    End,
    /// More bytes, or more room for them, are needed.
    Refill,
    Grow,
    /// The file ends within a record.
    Cut,
    Malformed,
}

impl From<PcapError<&[u8]>> for Fault {
    fn from(error: PcapError<&[u8]>) -> Self {
        match error {
            PcapError::Eof => Fault::End,
            PcapError::Incomplete(_) => Fault::Refill,
            PcapError::BufferTooSmall => Fault::Grow,
            PcapError::UnexpectedEof => Fault::Cut,
            _ => Fault::Malformed,
        }
    }
}

impl Loading {
    /// Reads all records. If reading ended before the end of the file, the text says why; the records until then are
    /// whole.
    fn read(&mut self, file: File) -> Result<Option<String>, String> {
        let mut reader = create_reader(BUFFER_BYTES, Whole(file)).map_err(|error| match error {
            PcapError::Eof => "it is empty".to_owned(),
            PcapError::Incomplete(_) => "it ends within its header".to_owned(),
            PcapError::ReadError => "it cannot be read".to_owned(),
            _ => "it is neither pcap nor pcapng".to_owned(),
        })?;
        let mut buffer_bytes = BUFFER_BYTES;
        loop {
            let fault = match reader.next() {
                Ok((bytes, block)) => {
                    self.block(block)?;
                    reader.consume(bytes);
                    continue;
                }
                Err(error) => Fault::from(error),
            };
            let fault = if self.has_whole_block(reader.data()) { Fault::Malformed } else { fault };
            let record = self.records + 1;
            let ended_early = match fault {
                Fault::End => return Ok(None),
                // The parser reports a cut at the end of the file if it had read to the end before the last record was
                // taken.
                Fault::Cut if reader.data().is_empty() => return Ok(None),
                Fault::Refill => {
                    reader.refill().map_err(|_| format!("record {record} cannot be read"))?;
                    continue;
                }
                Fault::Grow if buffer_bytes < RECORD_BYTES => {
                    buffer_bytes *= 2;
                    reader.grow(buffer_bytes);
                    continue;
                }
                Fault::Malformed if self.skip(&mut *reader) => continue,
                Fault::Grow => format!("record {record} claims to be longer than {RECORD_BYTES} bytes"),
                Fault::Cut => format!("it ends within record {record}"),
                Fault::Malformed => format!("record {record} is malformed"),
            };
            return if self.capture.frames.is_empty() { Err(ended_early) } else { Ok(Some(ended_early)) };
        }
    }

    /// Whether a block is here as a whole, by the length that it tells: if the parser wants more, its fields are wrong.
    fn has_whole_block(&self, data: &[u8]) -> bool {
        let header = self.order.block_header(data).filter(|_| self.is_pcapng);
        header.is_some_and(|(_, bytes)| bytes <= data.len())
    }

    /// Skips a malformed block if it has no part in the frames, as tcpdump does, which does not look into such blocks.
    fn skip(&mut self, reader: &mut dyn PcapReaderIterator) -> bool {
        let Some((kind, bytes)) = self.order.block_header(reader.data()) else { return false };
        let is_optional = self.has_whole_block(reader.data()) && !obsolete::HAVE_FRAMES.contains(&kind);
        if !is_optional || bytes < SMALLEST_BLOCK_BYTES {
            return false;
        }
        reader.consume(bytes);
        self.skipped_blocks += 1;
        true
    }

    fn finish(mut self, ended_early: Option<String>) -> Capture {
        let frames = self.capture.frames.len() as u64;
        if self.truncated > 0 {
            let (left_out, all) = (self.truncated, self.truncated + frames);
            self.capture.left_out.push(format!(
                "left out are frames of which only the beginning was captured, {left_out} of {all}; capture with a \
                 larger snapshot length"
            ));
        }
        if let Some(why) = ended_early {
            self.capture.left_out.push(format!("{why}; replayed are the {frames} frames before that"));
        }
        if self.skipped_blocks > 0 {
            let blocks = self.skipped_blocks;
            self.capture.left_out.push(format!("{blocks} malformed blocks without frames are skipped"));
        }
        if self.clock.jumps > 0 {
            let jumps = self.clock.jumps;
            self.capture.left_out.push(format!(
                "{jumps} pauses between time stamps are longer than a day and left out: the capture's clock was set, or \
                 frames have no time stamp"
            ));
        }
        self.capture
    }

    fn block(&mut self, block: PcapBlockOwned<'_>) -> Result<(), String> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => self.interfaces = vec![Interface::of_header(&header)],
            PcapBlockOwned::Legacy(record) => {
                self.records += 1;
                let interface = self.interface(0)?;
                let ns = i128::from(record.ts_sec) * NANOSECONDS
                    + i128::from(record.ts_usec) * NANOSECONDS / interface.ticks_per_second as i128;
                self.frame(record.data, record.origlen, interface.fcs_bytes, Some(ns))?;
            }
            PcapBlockOwned::NG(Block::SectionHeader(section)) => {
                self.is_pcapng = true;
                self.interfaces.clear();
                self.order = if section.big_endian() { ByteOrder::Big } else { ByteOrder::Little };
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(described)) => {
                self.interfaces.push(Interface::described(&described, self.order));
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => self.enhanced(&packet)?,
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                self.records += 1;
                let interface = self.interface(0)?;
                // The block does not tell how much was captured: its data are padded.
                let captured = packet.packet_data();
                let captured = &captured[..captured.len().min(interface.snapshot_bytes)];
                self.frame(captured, packet.origlen, interface.fcs_bytes, None)?;
            }
            PcapBlockOwned::NG(Block::Unknown(unknown)) => {
                if let Some(block) = obsolete::as_enhanced(&unknown, self.order) {
                    let malformed = || format!("record {} is malformed", self.records + 1);
                    self.enhanced(&self.order.parse_enhanced(&block).ok_or_else(malformed)?)?;
                }
            }
            PcapBlockOwned::NG(_) => {}
        }
        Ok(())
    }

    fn enhanced(&mut self, packet: &EnhancedPacketBlock<'_>) -> Result<(), String> {
        self.records += 1;
        let interface = self.interface(packet.if_id as usize)?;
        let ticks = u128::from(packet.ts_high) << 32 | u128::from(packet.ts_low);
        let ns = ticks.saturating_mul(NANOSECONDS as u128) / interface.ticks_per_second;
        let ns =
            i128::try_from(ns).unwrap_or(i128::MAX / 2) + i128::from(interface.offset_seconds) * NANOSECONDS;
        let fcs_bytes = self.order.fcs_bytes_of_packet(&packet.options).unwrap_or(interface.fcs_bytes);
        self.frame(packet.packet_data(), packet.origlen, fcs_bytes, Some(ns))
    }

    /// The interface that a record is from, which must be an Ethernet's.
    fn interface(&self, index: usize) -> Result<Interface, String> {
        let record = self.records;
        let interface = self.interfaces.get(index);
        let interface =
            interface.ok_or(format!("record {record} is of interface {index}, which there is not"))?;
        interface
            .ethernet
            .map_err(|linktype| format!("record {record} is of link type {linktype}, not of Ethernet (1)"))
            .map(|()| *interface)
    }

    /// A frame as captured, without the frame check sequence that a sender appends anew.
    fn frame(
        &mut self,
        captured: &[u8],
        original_bytes: u32,
        fcs_bytes: usize,
        ns: Option<i128>,
    ) -> Result<(), String> {
        let bytes = captured.len().max(original_bytes as usize).saturating_sub(fcs_bytes);
        let Some(frame) = captured.get(..bytes) else {
            self.truncated += 1;
            return Ok(());
        };
        let previous = self.capture.frames.last().map_or(Duration::ZERO, |frame| frame.at);
        let at = ns.map_or(previous, |ns| self.clock.time_of(ns).max(previous));
        let bytes = bytes as u64;
        if self.limit - self.end < bytes {
            return Err(format!("record {} was added while it was read", self.records));
        }
        self.capture.memory.slice(self.end as usize, frame.len()).write(frame);
        self.capture.frames.push(Recorded { offset: self.end, bytes: bytes as u32, at });
        self.end += bytes;
        Ok(())
    }
}

const NANOSECONDS: i128 = 1_000_000_000;

/// The longest pause between two frames that is kept.
const LONGEST_PAUSE_NS: i128 = 24 * 3600 * NANOSECONDS;

/// Reads until the buffer is full or the file ends: the parser takes a short read for the end.
struct Whole(File);

impl io::Read for Whole {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.0.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}
