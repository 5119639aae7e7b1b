//! Recording of frames to a capture file.
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use frame::{DropReason, Frame, FrameBatch, LARGEST_FRAME_BYTES, OwnMemory, QueueCounters, QueueError, Sink};
use memory::SharedSlice;
use virtio::net::Accepts;

use super::header::LAYOUT;
use net_queues::deliver::{GsoOutput, Scratch};

/// Little-endian, time stamps in nanoseconds (pcap-savefile(5)).
const MAGIC: u32 = 0xa1b2_3c4d;
const ETHERNET: u32 = 1;
const RECORD_HEADER_BYTES: usize = 16;

/// Bytes that are collected before they go to the file at the latest; else they do after each burst.
const BUFFER_BYTES: usize = 1 << 20;

/// Writes complete frames without offloads to a capture, at the end of each burst. A record is in the file as a whole
/// or not at all. The worker does the writing, which takes its time: use this for debugging.
#[derive(Debug)]
pub(super) struct Record {
    file: File,
    /// Length of the file, which contains only whole records.
    file_bytes: u64,
    snapshot_bytes: u32,
    /// Records that are not written yet, with the number of frames and of their bytes.
    buffer: Vec<u8>,
    waiting: (u64, u64),
    /// Memory in which a frame is assembled.
    whole: OwnMemory,
    counters: Arc<QueueCounters>,
}

impl Record {
    /// Writes the file's header. At most `snapshot_bytes` of each frame are recorded.
    ///
    /// # Errors
    /// The file's header cannot be written (no room, or a limit of file sizes), or the memory for a frame cannot be
    /// made.
    pub fn new(mut file: File, snapshot_bytes: u32, counters: Arc<QueueCounters>) -> io::Result<Self> {
        let mut header = Vec::new();
        header.extend(MAGIC.to_le_bytes());
        header.extend([2u16, 4].map(u16::to_le_bytes).concat());
        header.extend([0, 0, snapshot_bytes, ETHERNET].map(u32::to_le_bytes).concat());
        file.write_all(&header)?;
        let whole = OwnMemory::new(c"tautline-record", (LAYOUT.bytes() + LARGEST_FRAME_BYTES) as u64)?;
        Ok(Record {
            file,
            file_bytes: header.len() as u64,
            snapshot_bytes,
            buffer: Vec::with_capacity(BUFFER_BYTES + RECORD_HEADER_BYTES + LARGEST_FRAME_BYTES),
            waiting: (0, 0),
            whole,
            counters,
        })
    }

    fn frame(&mut self, frame: Frame<'_>) -> Result<(), QueueError> {
        let mut scratch = Scratch::default();
        let output = match GsoOutput::of(frame, &Accepts::NOTHING, &mut scratch) {
            Ok(output) => output,
            Err(reason) => {
                self.counters.dropped(reason, 1);
                return Ok(());
            }
        };
        for index in 0..output.count() {
            let bytes = output.len_bytes(index);
            if bytes > LARGEST_FRAME_BYTES {
                self.counters.dropped(DropReason::TooLong, 1);
                continue;
            }
            let room = self.whole.slice(0, LAYOUT.bytes() + bytes);
            output.write(index, &[room], LAYOUT, 1);
            append(&mut self.buffer, room.slice(LAYOUT.bytes(), bytes), self.snapshot_bytes);
            self.waiting = (self.waiting.0 + 1, self.waiting.1 + bytes as u64);
            if self.buffer.len() > BUFFER_BYTES {
                self.write()?;
            }
        }
        Ok(())
    }

    /// Writes the buffered records.
    fn write(&mut self) -> Result<(), QueueError> {
        let written = self.file.write_all(&self.buffer);
        let (frames, bytes) = std::mem::take(&mut self.waiting);
        match written {
            Ok(()) => {
                self.file_bytes += self.buffer.len() as u64;
                self.counters.passed(frames, bytes);
            }
            Err(_) => {
                self.counters.dropped(DropReason::System, frames);
                // Half a record would damage the file; a target that is no file cannot be shortened.
                let _ = self.file.set_len(self.file_bytes);
            }
        }
        self.buffer.clear();
        written.map_err(|source| QueueError::System { action: "write the recording", source })
    }
}

/// One record: its header, then the frame cut to the snapshot's length.
fn append(buffer: &mut Vec<u8>, frame: SharedSlice<'_>, snapshot_bytes: u32) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let original = frame.len_bytes() as u32;
    let captured = original.min(snapshot_bytes);
    // Seconds end in 2106, with the format.
    let header = [now.as_secs() as u32, now.subsec_nanos(), captured, original];
    buffer.extend(header.iter().flat_map(|field| field.to_le_bytes()));
    let start = buffer.len();
    buffer.resize(start + captured as usize, 0);
    frame.read(&mut buffer[start..]);
}

impl Sink for Record {
    fn accept(&mut self, batch: &FrameBatch, which: &[u16]) -> Result<(), QueueError> {
        for index in which {
            self.frame(batch.frame(usize::from(*index)))?;
        }
        match self.buffer.is_empty() {
            true => Ok(()),
            false => self.write(),
        }
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }
}
