//! A capture file, read into memory before anything is replayed.
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{
    Block, InterfaceDescriptionBlock, Linktype, PcapBlockOwned, PcapError, PcapHeader, create_reader,
};

use rustix::fs::OFlags;

use super::header::FRONT_BYTES;
use crate::PortError;
use crate::own::OwnMemory;

/// The buffer at first, and at most: what is longer is no record.
const BUFFER_BYTES: usize = 64 << 10;
const RECORD_BYTES: usize = 4 << 20;

/// One frame of a capture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recorded {
    /// Where it lies in the capture's memory.
    pub offset: u64,
    /// Its length.
    pub bytes: u32,
    /// When it was captured, after the first one; never before the one before it.
    pub at: Duration,
}

/// A capture in memory, behind a net header without offloads that all its frames share.
#[derive(Debug)]
pub(super) struct Capture {
    pub memory: OwnMemory,
    pub frames: Vec<Recorded>,
    /// Frames that were left out because only their beginning was captured.
    pub truncated: u64,
}

/// Reads a capture of either format, whatever its byte order and unit of time.
pub(super) fn load(path: &Path) -> Result<Capture, PortError> {
    let failed =
        |why: String, remedy: &str| PortError::new(format!("replay {}", path.display()), why, remedy);
    // Not to wait for somebody who writes to a pipe.
    let file = File::options()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as libc::c_int)
        .open(path)
        .and_then(|file| Ok((file.metadata()?, file)))
        .map_err(|error| failed(error.to_string(), "name a capture that this user may read"))?;
    let (metadata, file) = file;
    if !metadata.is_file() {
        return Err(failed("it is no regular file".into(), "save the capture to a file first"));
    }
    // The file's records are longer than their frames, so all frames fit.
    let memory = OwnMemory::new(c"tautline-pcap", FRONT_BYTES + metadata.len())
        .map_err(|error| failed(error.to_string(), "replay a smaller capture, or free some memory"))?;
    let mut loading = Loading {
        capture: Capture { memory, frames: Vec::new(), truncated: 0 },
        end: FRONT_BYTES,
        limit: FRONT_BYTES + metadata.len(),
        interfaces: Vec::new(),
        first_ns: None,
        records: 0,
    };
    match loading.read(file) {
        Ok(()) => Ok(loading.capture),
        Err(why) => {
            let remedy = "name a pcap or pcapng capture of an Ethernet interface that was written to its end";
            Err(failed(why, remedy))
        }
    }
}

/// An interface of a capture: the unit and offset of its time stamps.
#[derive(Clone, Copy)]
struct Interface {
    ticks_per_second: u128,
    offset_seconds: i64,
    ethernet: Result<(), Linktype>,
}

struct Loading {
    capture: Capture,
    /// Where the next frame goes, and how far frames may go.
    end: u64,
    limit: u64,
    interfaces: Vec<Interface>,
    first_ns: Option<i128>,
    records: u64,
}

impl Loading {
    fn read(&mut self, file: File) -> Result<(), String> {
        let mut reader = create_reader(BUFFER_BYTES, Whole(file)).map_err(|error| match error {
            PcapError::Eof => "it is empty".to_owned(),
            PcapError::Incomplete(_) => "it ends within its header".to_owned(),
            PcapError::ReadError => "it cannot be read".to_owned(),
            _ => "it is neither pcap nor pcapng".to_owned(),
        })?;
        let mut buffer_bytes = BUFFER_BYTES;
        loop {
            match reader.next() {
                Ok((bytes, block)) => {
                    self.block(block)?;
                    reader.consume(bytes);
                }
                Err(PcapError::Eof) => return Ok(()),
                Err(PcapError::Incomplete(_)) => {
                    reader.refill().map_err(|_| format!("record {} cannot be read", self.records + 1))?;
                }
                Err(PcapError::BufferTooSmall) if buffer_bytes < RECORD_BYTES => {
                    buffer_bytes *= 2;
                    reader.grow(buffer_bytes);
                }
                Err(error) => {
                    let record = self.records + 1;
                    return Err(match error {
                        PcapError::UnexpectedEof => format!("it ends within record {record}"),
                        PcapError::BufferTooSmall => {
                            format!("record {record} claims to be longer than {RECORD_BYTES} bytes")
                        }
                        _ => format!("record {record} is malformed"),
                    });
                }
            }
        }
    }

    fn block(&mut self, block: PcapBlockOwned<'_>) -> Result<(), String> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => self.interfaces = vec![Interface::of_header(&header)],
            PcapBlockOwned::Legacy(record) => {
                self.records += 1;
                let ticks = self.interface(0)?.ticks_per_second as i128;
                let ns = i128::from(record.ts_sec) * NANOSECONDS
                    + i128::from(record.ts_usec) * NANOSECONDS / ticks;
                self.frame(record.data, record.origlen, Some(ns))?;
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => self.interfaces.clear(),
            PcapBlockOwned::NG(Block::InterfaceDescription(described)) => {
                self.interfaces.push(Interface::described(&described));
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                self.records += 1;
                let interface = self.interface(packet.if_id as usize)?;
                let ticks = u128::from(packet.ts_high) << 32 | u128::from(packet.ts_low);
                let ns = ticks.saturating_mul(NANOSECONDS as u128) / interface.ticks_per_second;
                let ns = i128::try_from(ns).unwrap_or(i128::MAX / 2)
                    + i128::from(interface.offset_seconds) * NANOSECONDS;
                self.frame(packet.packet_data(), packet.origlen, Some(ns))?;
            }
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                self.records += 1;
                self.interface(0)?;
                self.frame(packet.packet_data(), packet.origlen, None)?;
            }
            PcapBlockOwned::NG(_) => {}
        }
        Ok(())
    }

    /// The interface that a record is from, which must be an Ethernet's.
    fn interface(&self, index: usize) -> Result<Interface, String> {
        let record = self.records;
        let interface = self.interfaces.get(index);
        let interface =
            interface.ok_or(format!("record {record} is of interface {index}, which there is not"))?;
        let of =
            |linktype: Linktype| format!("record {record} is of link type {linktype}, not of Ethernet (1)");
        interface.ethernet.map_err(of).map(|()| *interface)
    }

    fn frame(&mut self, frame: &[u8], original_bytes: u32, ns: Option<i128>) -> Result<(), String> {
        if (frame.len() as u64) < u64::from(original_bytes) {
            self.capture.truncated += 1;
            return Ok(());
        }
        let previous = self.capture.frames.last().map_or(Duration::ZERO, |frame| frame.at);
        let at = ns.map_or(previous, |ns| {
            let since = ns - *self.first_ns.get_or_insert(ns);
            Duration::from_nanos(since.clamp(0, i128::from(u64::MAX)) as u64).max(previous)
        });
        let bytes = frame.len() as u64;
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

fn ethernet(linktype: Linktype) -> Result<(), Linktype> {
    if linktype == Linktype::ETHERNET { Ok(()) } else { Err(linktype) }
}

impl Interface {
    fn of_header(header: &PcapHeader) -> Self {
        Interface {
            ticks_per_second: if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 },
            offset_seconds: 0,
            // The upper half of the field has other meanings (link-layer flags).
            ethernet: ethernet(Linktype(header.network.0 & 0xffff)),
        }
    }

    fn described(described: &InterfaceDescriptionBlock<'_>) -> Self {
        // if_tsresol: a power of 2 if the highest bit is set, else of 10. What no clock has is taken as 1.
        let exponent = u32::from(described.if_tsresol & 0x7f);
        let base: u128 = if described.if_tsresol & 0x80 != 0 { 2 } else { 10 };
        Interface {
            ticks_per_second: base.checked_pow(exponent).unwrap_or(1),
            offset_seconds: described.if_tsoffset,
            ethernet: ethernet(described.linktype),
        }
    }
}

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
