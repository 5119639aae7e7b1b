//! A change of a frame's first bytes on its way to a receiver.

/// A change of a frame's first bytes: `removed` bytes from `at` on give way to the bytes `inserted`. Tags and tunnel
/// headers that are pushed or popped, and fields that are set, are such changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadEdit<'a> {
    /// In bytes from the frame's start.
    pub at: usize,
    /// Bytes that go.
    pub removed: usize,
    /// Bytes that come, at most [`HeadEdit::MAX_INSERTED_BYTES`].
    pub inserted: &'a [u8],
}

impl HeadEdit<'_> {
    /// No change.
    pub const NONE: HeadEdit<'static> = HeadEdit { at: 0, removed: 0, inserted: &[] };

    /// As many as a window has, so that an edit can replace all that was read.
    pub const MAX_INSERTED_BYTES: usize = crate::WINDOW_BYTES;

    /// Length of a frame after the edit, in bytes.
    #[inline(always)]
    pub fn edited_bytes(&self, frame_bytes: usize) -> usize {
        (frame_bytes + self.inserted.len()).saturating_sub(self.removed)
    }
}
