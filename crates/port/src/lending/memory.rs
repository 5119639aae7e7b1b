//! Frames that are lent from memory of this process.
use memory::SgArena;
use virtio::net::HeaderLayout;

use super::{Arena, ImagesId, Lending};
use crate::DropReason;
use crate::frame::Meta;

impl Lending {
    /// As [`Lending::of_memory`], for a traffic generator: what it lends never changes but for the heads, and
    /// frames of one length are the same behind them. A port that keeps frames in buffers of its own then
    /// copies the bytes behind the head once, and not for each frame.
    pub fn of_images(max: usize) -> Self {
        Lending { images: Some(ImagesId::new()), ..Self::of_memory(max) }
    }

    /// Which images the frames are made of.
    #[inline(always)]
    pub(crate) fn images(&self) -> Option<ImagesId> {
        self.images
    }

    /// The arena to lend pieces to before they are [pushed](Lending::push); `None` unless made by
    /// [`Lending::of_memory`].
    #[inline(always)]
    pub fn lent_mut(&mut self) -> Option<&mut SgArena> {
        match &mut self.arena {
            Arena::Own(lent) => Some(lent),
            Arena::Queue(_) => None,
        }
    }

    /// Makes a frame, with a net header in front, of the pieces from `first` on that were lent to
    /// [`Lending::lent_mut`].
    #[inline]
    pub fn push(&mut self, first: u32, layout: HeaderLayout) -> Result<(), DropReason> {
        let Arena::Own(lent) = &self.arena else { return Err(DropReason::NotConnected) };
        self.push_pieces((first, lent.len()), layout)
    }

    /// As [`Lending::push`], but one of each piece; `refused` hears of each that holds none.
    #[inline]
    pub fn push_each(&mut self, first: u32, layout: HeaderLayout, mut refused: impl FnMut(DropReason)) {
        let Arena::Own(lent) = &self.arena else { return };
        for at in first..lent.len() {
            if let Err(reason) = self.push_pieces((at, at + 1), layout) {
                refused(reason);
            }
        }
    }

    #[inline(always)]
    fn push_pieces(&mut self, (first, end): (u32, u32), layout: HeaderLayout) -> Result<(), DropReason> {
        let Arena::Own(lent) = &self.arena else { return Err(DropReason::NotConnected) };
        let pieces = lent.slices(first..end);
        let meta = next(&mut self.metas, self.len);
        let simple = matches!(pieces, [whole] if meta.look_simple(*whole, layout));
        if !simple {
            let bytes = pieces.iter().map(|piece| piece.len_bytes() as u32).sum();
            meta.look(pieces, bytes, layout)?;
            self.segments = self.segments.saturating_add(meta.segments());
        }
        (meta.first, meta.end) = (first, end);
        self.len += 1;
        Ok(())
    }
}

/// The one behind the last; makes it if it is the first of its kind.
#[inline(always)]
fn next(metas: &mut Vec<Meta>, len: usize) -> &mut Meta {
    if len == metas.len() {
        metas.push(Meta::EMPTY);
    }
    &mut metas[len]
}
