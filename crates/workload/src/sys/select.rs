//! Calls select(2), whose arguments are sets that the caller fills with descriptors.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::event::{FdSetElement, Timespec, fd_set_insert, select};
use rustix::io;

/// The highest number of descriptors that select supports (select(2), FD_SETSIZE).
pub(crate) const MOST_DESCRIPTORS: usize = 1024;
const ELEMENTS: usize = MOST_DESCRIPTORS / 8 / size_of::<FdSetElement>();

/// Descriptors that are to be polled for reading; they stay open as long as this value lives.
#[derive(Clone)]
pub(crate) struct ReadSet<'a> {
    elements: [FdSetElement; ELEMENTS],
    /// One more than the highest descriptor.
    end: i32,
    _descriptors: std::marker::PhantomData<BorrowedFd<'a>>,
}

impl<'a> ReadSet<'a> {
    /// Returns `None` if a descriptor is too high.
    pub(crate) fn new(descriptors: impl IntoIterator<Item = &'a (impl AsFd + 'a)>) -> Option<Self> {
        let mut set = ReadSet {
            elements: [FdSetElement::default(); ELEMENTS],
            end: 0,
            _descriptors: std::marker::PhantomData,
        };
        for descriptor in descriptors {
            let descriptor = descriptor.as_fd().as_raw_fd();
            if descriptor >= MOST_DESCRIPTORS as i32 {
                return None;
            }
            fd_set_insert(&mut set.elements, descriptor);
            set.end = set.end.max(descriptor + 1);
        }
        Some(set)
    }

    /// The number of descriptors that can be read now.
    pub(crate) fn ready(&self) -> io::Result<usize> {
        let at_once = Timespec::default();
        let mut elements = self.elements;
        // SAFETY: all descriptors of the set are open: they are borrowed for as long as it lives.
        let ready = unsafe { select(self.end, Some(&mut elements), None, None, Some(&at_once)) }?;
        Ok(ready as usize)
    }
}
