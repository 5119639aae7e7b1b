//! The record of chains in flight of packed rings, in a file that outlives the process.
//!
//! A split ring shows how far a device came that was killed. A packed ring does not if a chain has several
//! descriptors, because the device overwrites only the first of them (VIRTIO 1.3 §2.8.6). A vhost-user front-end keeps
//! a record for that case ("Inflight I/O tracking"). The kernel keeps none, so the record is in a file of this program.
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memory::{AtomicSlice, PeerMemory};
use rustix::fs::{FallocateFlags, fallocate};
use vhost_user::SharedFd;
use vhost_user::inflight::area_bytes;
use vhost_user::vring::{QueueSize, RingLayout};

use crate::ring::InFlight;

/// The upper half of the word behind the record; the lower half is the number and the size of the queues.
const MARK: u32 = u32::from_be_bytes(*b"TIF1");

/// The place of a record.
#[derive(Clone)]
pub(super) struct Record {
    /// The file.
    pub file: SharedFd,
    /// The offset of the record, a multiple of the page size.
    pub offset: u64,
    /// The most descriptors of a queue.
    pub queue_size: u16,
}

impl Record {
    /// Opens the record. Rings that begin get an empty record. Rings that go on get the record of the former process,
    /// or `None` if that process kept none.
    ///
    /// # Errors
    /// The file cannot be made longer or mapped, or the size is no queue size.
    pub fn open(
        &self,
        queue_count: u16,
        goes_on: bool,
        memory: &Arc<PeerMemory>,
    ) -> io::Result<Option<InFlight>> {
        let Record { file, offset, queue_size } = self;
        let size = QueueSize::new(RingLayout::Packed, u32::from(*queue_size)).map_err(io::Error::other)?;
        let bytes = area_bytes(RingLayout::Packed, queue_count, size) + 8;
        // All pages now: a page that is missing later would cost the record.
        fallocate(file, FallocateFlags::empty(), *offset, bytes)?;
        let mapping = Arc::new(memory.map(file, *offset, bytes).map_err(io::Error::other)?);
        let words = AtomicSlice::<AtomicU64>::new(&mapping, 0, (bytes / 8) as usize, 0);
        let words = words.map_err(io::Error::other)?;
        let mark = u64::from(MARK) << 32 | u64::from(queue_count) << 16 | u64::from(*queue_size);
        let last = &words[words.len() - 1];
        if goes_on {
            let is_kept = last.load(Ordering::Acquire) == mark;
            return Ok(is_kept.then_some(InFlight { mapping, queue_count, queue_size: *queue_size }));
        }
        words.iter().rev().for_each(|word| word.store(0, Ordering::Relaxed));
        last.store(mark, Ordering::Release);
        Ok(Some(InFlight { mapping, queue_count, queue_size: *queue_size }))
    }
}

#[cfg(test)]
mod tests {
    use memory::Backing;
    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;

    #[test]
    fn a_record_is_kept_for_rings_that_go_on_and_cleared_for_others() {
        let file = memfd_create(c"record", MemfdFlags::CLOEXEC).unwrap();
        let record = Record { file: SharedFd::new(Arc::new(file)), offset: 4096, queue_size: 16 };
        let memory = PeerMemory::new(1 << 20, Backing::Ram).unwrap();
        let open = |record: &Record, goes_on| record.open(2, goes_on, &memory).unwrap();
        let first = |opened: &InFlight| AtomicSlice::<AtomicU64>::new(&opened.mapping, 0, 1, 0).unwrap();
        assert!(open(&record, true).is_none(), "no process has kept one");
        let opened = open(&record, false).unwrap();
        first(&opened)[0].store(7, Ordering::Relaxed);
        let kept = open(&record, true).expect("the record");
        assert_eq!(first(&kept)[0].load(Ordering::Relaxed), 7);
        // A record of queues of another size is of no use.
        assert!(open(&Record { queue_size: 8, ..record.clone() }, true).is_none());
        let anew = open(&record, false).unwrap();
        assert_eq!(first(&anew)[0].load(Ordering::Relaxed), 0);
    }
}
