//! Edits of a frame's first bytes on the path to a receiver.

/// A change of a frame's first bytes: `removed` bytes from `at` on are replaced by `inserted`. Pushing and popping
/// tags or tunnel headers and setting fields are such changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadEdit<'a> {
    /// The position in bytes from the frame's start.
    pub at: usize,
    /// The number of bytes to remove.
    pub removed: usize,
    /// The bytes to insert, at most [`HeadEdit::MAX_INSERTED_BYTES`].
    pub inserted: &'a [u8],
}

impl HeadEdit<'_> {
    /// No change.
    pub const NONE: HeadEdit<'static> = HeadEdit { at: 0, removed: 0, inserted: &[] };

    /// The size of a window, so that an edit can replace everything that was read.
    pub const MAX_INSERTED_BYTES: usize = crate::WINDOW_BYTES;

    /// Length of a frame after the edit, in bytes.
    #[inline(always)]
    pub fn edited_bytes(&self, frame_bytes: usize) -> usize {
        (frame_bytes + self.inserted.len()).saturating_sub(self.removed)
    }
}
