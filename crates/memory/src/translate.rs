//! Translation from an address in a descriptor to bytes in this process.
#![allow(unsafe_code)]

use std::sync::Arc;

use crate::lines::prefetch;
use crate::sg_run::{SgRun, Window};
use crate::{Access, AddressSpace, DirtyLog, Fault, LogTooSmall, SgArena, SharedSlice};

/// Translates addresses for one queue. It has a snapshot of the memory, and the last window used for each kind of
/// access.
///
/// A guest's buffers nearly always lie in one region, so the common case is one comparison. All other cases use the
/// table.
#[derive(Debug)]
pub struct Translator {
    space: Arc<AddressSpace>,
    read: Window,
    write: Window,
    /// The window of [`SgBuilder::read`]. Tables seldom lie near buffers, and would otherwise replace the window
    /// `read`.
    table: Window,
}

// SAFETY: the windows point into mappings that `space` keeps, and such memory may be used by any thread.
unsafe impl Send for Translator {}

impl Translator {
    /// A translator for a snapshot.
    pub fn new(space: Arc<AddressSpace>) -> Self {
        Translator { space, read: Window::EMPTY, write: Window::EMPTY, table: Window::EMPTY }
    }

    /// Changes to another snapshot. Slices that were handed out stay valid.
    pub fn set_space(&mut self, space: Arc<AddressSpace>) {
        *self = Self::new(space);
    }

    /// The snapshot in use.
    pub fn space(&self) -> &Arc<AddressSpace> {
        &self.space
    }

    /// Begins a burst that appends to `arena`.
    #[inline(always)]
    pub fn builder<'a>(&'a mut self, arena: &'a mut SgArena) -> SgBuilder<'a> {
        arena.keep(&self.space);
        SgBuilder { translator: self, arena }
    }

    /// Marks the first `written` bytes of `slices` in the log.
    ///
    /// # Errors
    /// A written page lies past the end of the log. The pages before it are marked.
    pub fn mark_dirty(
        &self,
        log: &DirtyLog,
        slices: &[SharedSlice<'_>],
        written: u64,
    ) -> Result<(), LogTooSmall> {
        let mut left = written;
        for slice in slices {
            if left == 0 {
                break;
            }
            let len = left.min(slice.len_bytes() as u64);
            // A slice of an older snapshot whose region is gone has no page to send any more.
            if let Some(guest) = self.space.guest_of_host(slice.as_ptr()) {
                log.mark(guest, len)?;
            }
            left -= len;
        }
        Ok(())
    }
}

/// A burst that is being built.
#[derive(Debug)]
pub struct SgBuilder<'a> {
    translator: &'a mut Translator,
    arena: &'a mut SgArena,
}

impl SgBuilder<'_> {
    /// Number of slices in the arena.
    #[inline(always)]
    pub fn len(&self) -> u32 {
        self.arena.len()
    }

    /// Whether the arena is empty.
    pub fn is_empty(&self) -> bool {
        self.arena.is_empty()
    }

    /// The slice that was appended last.
    #[inline(always)]
    pub fn last(&self) -> Option<SharedSlice<'_>> {
        self.arena.slice(self.len().checked_sub(1)?)
    }

    /// Removes everything after the first `len` slices.
    pub fn truncate(&mut self, len: u32) {
        self.arena.truncate(len);
    }

    /// Copies `N` bytes at `address` out of the peer's memory. A table of descriptors must be read once before it is
    /// checked and used, so the copy is made now.
    ///
    /// # Errors
    /// A byte of the range is in no region, or the IOTLB has no entry that permits reading it.
    #[inline(always)]
    pub fn read<const N: usize>(&mut self, address: u64, into: &mut [u8; N]) -> Result<(), Fault> {
        let mut run = SgRun { window: self.translator.table, run: self.arena.run(1) };
        if let Some(bytes) = run.push(address, N as u32) {
            bytes.read_array(0, into);
            run.take_back(1);
            return Ok(());
        }
        drop(run);
        self.read_through_table(address, into)
    }

    /// Prefetches the line at an address that is to be [read](SgBuilder::read) soon, if the address is in the same
    /// window as the last one.
    #[inline(always)]
    pub fn prefetch(&self, address: u64) {
        let Window { start, size, host } = self.translator.table;
        let offset = address.wrapping_sub(start);
        if offset < size {
            prefetch(host.as_ptr().wrapping_add(offset as usize));
        }
    }

    #[cold]
    #[inline(never)]
    fn read_through_table(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let first = self.len();
        let windows = &mut *self.translator;
        std::mem::swap(&mut windows.read, &mut windows.table);
        let pushed = self.push(address, into.len() as u32, Access::Read);
        let windows = &mut *self.translator;
        std::mem::swap(&mut windows.read, &mut windows.table);
        if pushed.is_ok() {
            let mut at = 0;
            for slice in self.arena.slices(first..self.arena.len()) {
                at += slice.read(&mut into[at..]);
            }
        }
        self.truncate(first);
        pushed
    }

    /// Appends `address .. address + len` as one slice, or as more where regions meet. Appends nothing if `len` is 0.
    ///
    /// # Errors
    /// A byte of the range is in no region, or the IOTLB has no entry that permits the access. Slices before that
    /// byte may have been appended.
    #[inline(always)]
    pub fn push(&mut self, address: u64, len: u32, access: Access) -> Result<(), Fault> {
        self.push_up_to(u32::MAX, address, len, access)
    }

    /// As [`SgBuilder::push`], for buffers that a peer may spread over many regions. The range is not split further
    /// once the arena holds `most` slices.
    ///
    /// # Errors
    /// The causes of [`SgBuilder::push`], or the range has to be split further when the arena holds `most` slices
    /// already.
    #[inline(always)]
    pub fn push_up_to(&mut self, most: u32, address: u64, len: u32, access: Access) -> Result<(), Fault> {
        if self.run(access, 1).push(address, len).is_some() {
            return Ok(());
        }
        self.push_through_table(most, address, len, access)
    }

    /// Begins a run of at most `max` slices that all lie in the last window of this access.
    #[inline(always)]
    pub fn run(&mut self, access: Access, max: usize) -> SgRun<'_> {
        let window = match access {
            Access::Read => self.translator.read,
            Access::Write => self.translator.write,
        };
        SgRun { window, run: self.arena.run(max) }
    }

    #[cold]
    #[inline(never)]
    fn push_through_table(
        &mut self,
        most: u32,
        mut address: u64,
        len: u32,
        access: Access,
    ) -> Result<(), Fault> {
        let space = &self.translator.space;
        let mut left = u64::from(len);
        while left > 0 {
            if self.arena.len() >= most {
                return Err(Fault::Scattered { address, len: left });
            }
            let window =
                space.window(address, access).map_err(|kind| space.fault(kind, address, left, access))?;
            let offset = address - window.start;
            let here = left.min(window.size - offset);
            // SAFETY: `offset + here` lies in the window, which came from the snapshot that `builder` kept.
            unsafe { self.arena.run(1).push(window.host.add(offset as usize), here as usize) };
            match access {
                Access::Read => self.translator.read = window,
                Access::Write => self.translator.write = window,
            }
            left -= here;
            if left > 0 {
                let next = address.checked_add(here);
                address = next.ok_or(Fault::Outside { address: u64::MAX, len: left })?;
            }
        }
        Ok(())
    }
}
