//! For tests of forwarding code: injects and collects frames as bytes.
use std::io;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use virtio::net::NetHeader;

use super::ring::{Consumer, LAYOUT, Producer};
use super::{InMemory, InMemorySink, InMemorySource, QueueOptions, queue};

/// A port whose peer is the test: an injector and a collector for each queue pair.
///
/// # Errors
/// The memory file of a queue cannot be made or mapped, or `eventfd` is refused, for example at the open-files
/// limit.
pub fn port(queue_pairs: u16, options: QueueOptions) -> io::Result<(InMemory, Vec<(Injector, Collector)>)> {
    let (mut ends, mut hands) = (Vec::new(), Vec::new());
    for _ in 0..queue_pairs {
        let (injecting, source) = queue(options)?;
        let (sink, collecting) = queue(options)?;
        ends.push((source, sink));
        hands.push((injecting.into(), collecting.into()));
    }
    Ok((InMemory::of(ends), hands))
}

/// Puts frames into a queue.
#[derive(Debug)]
pub struct Injector(Producer);

/// Takes frames out of a queue.
#[derive(Debug)]
pub struct Collector(Consumer);

impl From<InMemorySink> for Injector {
    fn from(sink: InMemorySink) -> Self {
        Injector(sink.producer)
    }
}

impl From<InMemorySource> for Collector {
    fn from(source: InMemorySource) -> Self {
        Collector(source.consumer)
    }
}

impl Injector {
    /// Puts in a frame unchanged, even a malformed one. Returns false if no slot is free or the frame is longer than
    /// a slot.
    #[must_use]
    pub fn inject(&mut self, header: NetHeader, frame: &[u8]) -> bool {
        let bytes = LAYOUT.bytes() + frame.len();
        if bytes > self.0.slot_bytes() {
            return false;
        }
        let Some(slot) = self.0.free() else { return false };
        slot.write(&header.to_bytes());
        slot.slice(LAYOUT.bytes(), frame.len()).write(frame);
        self.0.fill(bytes);
        self.0.publish();
        true
    }
}

impl Collector {
    /// The next frame, if there is one.
    pub fn take(&mut self) -> Option<(NetHeader, Vec<u8>)> {
        self.0.available();
        let slot = self.0.take_slice()?;
        let mut header = [0; NetHeader::BYTES];
        slot.read(&mut header);
        let rest = slot.slice(LAYOUT.bytes(), usize::MAX);
        let mut frame = vec![0; rest.len_bytes()];
        rest.read(&mut frame);
        self.0.empty();
        Some((NetHeader::from_bytes(&header, LAYOUT), frame))
    }

    /// Waits for the next frame; `None` if none came within the limit.
    pub fn take_within(&mut self, limit: Duration) -> Option<(NetHeader, Vec<u8>)> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(taken) = self.take() {
                return Some(taken);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            if !self.0.sleep() {
                let timeout = Timespec::try_from(left).ok();
                let mut fds = [PollFd::new(self.0.call(), PollFlags::IN)];
                let _ = poll(&mut fds, timeout.as_ref());
                self.0.wake();
            }
        }
    }
}
