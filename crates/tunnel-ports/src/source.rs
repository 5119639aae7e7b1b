//! Frames that came through a tunnel.
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use frame::{DropReason, FrameBatch, METADATA_WORDS, Metadata, QueueCounters, QueueError, Source};
use port::in_memory::InMemorySource;

const WORD: usize = size_of::<u64>();

/// The bytes in front of each frame in the queue of a tunnel: its metadata.
pub(crate) const FRONT_BYTES: usize = METADATA_WORDS * WORD;

/// The bytes of metadata.
pub(crate) fn front(metadata: &Metadata) -> [u8; FRONT_BYTES] {
    let mut bytes = [0; FRONT_BYTES];
    for (into, word) in bytes.chunks_exact_mut(WORD).zip(metadata) {
        into.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

fn metadata(front: &[u8; FRONT_BYTES]) -> Metadata {
    let mut words =
        front.chunks_exact(WORD).map(|word| word.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word)));
    std::array::from_fn(|_| words.next().unwrap_or(0))
}

/// The queue of a tunnel.
#[derive(Debug)]
pub(crate) struct TunnelSource {
    inner: InMemorySource,
    counters: Arc<QueueCounters>,
}

impl TunnelSource {
    pub fn new(inner: InMemorySource, counters: Arc<QueueCounters>) -> Self {
        TunnelSource { inner, counters }
    }
}

impl Source for TunnelSource {
    fn rx_burst(&mut self, max: usize) -> Result<&FrameBatch, QueueError> {
        self.inner.rx_burst(max)?;
        let batch = self.inner.frames_mut();
        let (mut bytes, mut into) = (0, [0; FRONT_BYTES]);
        let mut index = 0;
        while index < batch.len() {
            if !batch.take_front(index, &mut into) {
                batch.remove(index);
                self.counters.dropped(DropReason::OffloadImpossible, 1);
                continue;
            }
            batch.set_metadata(index, &metadata(&into));
            bytes += batch.frame(index).len_bytes() as u64;
            index += 1;
        }
        if !batch.is_empty() {
            self.counters.passed(batch.len() as u64, bytes);
        }
        Ok(batch)
    }

    fn needs_release(&self) -> bool {
        self.inner.needs_release()
    }

    fn release(&mut self) {
        self.inner.release();
    }

    fn sleep(&mut self) -> bool {
        self.inner.sleep()
    }

    fn wake(&mut self) {
        self.inner.wake();
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.wake_fd()
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }
}
