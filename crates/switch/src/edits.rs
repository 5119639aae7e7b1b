//! Frames of the present burst that are sent with another head, or of which more bytes than the snapshot were read.
use std::io;
use std::ops::Range;

use frame::{DropReason, EditedFrames, FrameBatch, HeadEdit, Metadata, Windows};

/// How many different edits of one frame can be pending. Handing them over makes room for others.
pub(crate) const SLOTS: usize = 3;

/// One worker's.
pub(crate) struct Edits {
    pub windows: Windows,
    slots: [EditedFrames; SLOTS],
    any: bool,
    /// The slot of the last edit, and the indices of its frames.
    slot: usize,
    which: Vec<u16>,
}

impl Edits {
    /// Edits for bursts of this many frames.
    ///
    /// # Errors
    /// The memory for heads cannot be made or mapped.
    pub fn new(burst: usize) -> io::Result<Self> {
        let slot = || EditedFrames::new(burst);
        Ok(Edits {
            windows: Windows::new(burst),
            slots: [slot()?, slot()?, slot()?],
            any: false,
            slot: 0,
            which: Vec::with_capacity(burst),
        })
    }

    /// The first slot without frames from the one at `start` on.
    fn free(&self, start: u16) -> Option<usize> {
        self.slots.iter().position(|slot| slot.batch().len() <= start.into())
    }

    /// Whether the frames from index `start` on can be edited once more.
    pub fn has_room(&self, start: u16) -> bool {
        self.free(start).is_some()
    }

    /// Edits frames. `refused` is called for each frame that cannot be edited.
    pub fn edit(
        &mut self,
        burst: &FrameBatch,
        frames: Range<u16>,
        edit: &HeadEdit<'_>,
        mut refused: impl FnMut(DropReason),
    ) {
        self.which.clear();
        let Some(slot) = self.free(frames.start) else { return };
        (self.slot, self.any) = (slot, true);
        for index in frames {
            let at = usize::from(index);
            let window = self.windows.window(at, burst.frame(at));
            match self.slots[slot].push(burst, at, window, edit) {
                Ok(()) => self.which.push(index),
                Err(reason) => refused(reason),
            }
        }
    }

    /// Gives the frames of the last edit metadata.
    pub fn attach(&mut self, metadata: &Metadata) {
        let slot = &mut self.slots[self.slot];
        self.which.iter().for_each(|index| slot.attach(usize::from(*index), metadata));
    }

    /// The slot of the last edit, and the indices of its frames.
    pub fn last(&self) -> (usize, &[u16]) {
        (self.slot, &self.which)
    }

    /// The edited frames of a slot.
    pub fn batch(&self, slot: usize) -> &FrameBatch {
        self.slots[slot].batch()
    }

    /// Forgets all edits after they were handed over.
    #[inline(always)]
    pub fn clear(&mut self) {
        if self.any {
            self.clear_some();
        }
    }

    #[cold]
    fn clear_some(&mut self) {
        self.any = false;
        self.which.clear();
        self.slots.iter_mut().for_each(EditedFrames::clear);
    }
}
