//! What a frame is, by its net header and its first bytes: read once, checked, kept.
use memory::{SgList, SharedSlice};
use virtio::net::{HeaderLayout, NetHeader, Offload};

use crate::DropReason;
use crate::frame::{ETHERNET_HEADER_BYTES, HEAD_BYTES, LARGEST_FRAME_BYTES, Meta, SHORTEST_FRAME_BYTES};

impl Meta {
    /// As [`Meta::look`], of a simple frame that is no shorter than a head, or the shortest of Ethernet, which is a
    /// little shorter. False, and nothing is to be believed of this, for others.
    #[inline(always)]
    pub fn look_simple(&mut self, whole: SharedSlice<'_>, layout: HeaderLayout) -> bool {
        let skip = layout.bytes();
        let len = whole.len_bytes().wrapping_sub(skip);
        // Too short and too long in one comparison.
        if len.wrapping_sub(SHORTEST_FRAME_BYTES) > LARGEST_FRAME_BYTES - SHORTEST_FRAME_BYTES {
            return false;
        }
        // Of a header that says nothing the other fields mean nothing.
        if !whole.begins_with(&[0, NetHeader::GSO_NONE]) {
            return false;
        }
        let is_read = match self.head.first_chunk_mut::<SHORTEST_FRAME_BYTES>() {
            Some(shortest) if len == SHORTEST_FRAME_BYTES => whole.read_array(skip, shortest),
            _ => whole.read_array(skip, &mut self.head),
        };
        (self.offload, self.simple) = (Offload::NONE, true);
        (self.skip, self.len) = (skip as u32, len as u32);
        is_read
    }

    /// Into how many frames it may be cut.
    pub fn segments(&self) -> u32 {
        self.offload.segmentation.map_or(1, |cut| self.len.div_ceil(u32::from(cut.segment_bytes.get())))
    }

    /// Reads net header and head, once, and checks them.
    #[inline(never)] // the loops around it keep their registers for the simple frames
    pub fn look(
        &mut self,
        pieces: &[SharedSlice<'_>],
        bytes: u32,
        layout: HeaderLayout,
    ) -> Result<(), DropReason> {
        let skip = layout.bytes() as u32;
        let len = bytes.checked_sub(skip).filter(|len| *len >= ETHERNET_HEADER_BYTES as u32);
        let len = len.ok_or(DropReason::TooShort)?;
        if len > LARGEST_FRAME_BYTES as u32 {
            return Err(DropReason::TooLong);
        }
        let mut header = [0; NetHeader::BYTES];
        match pieces {
            // Nearly always. Of what follows a legacy header nothing is kept here.
            [whole]
                if len >= HEAD_BYTES as u32
                    && whole.read_array(0, &mut header)
                    && whole.read_array(skip as usize, &mut self.head) => {}
            // The header in a piece of its own, as drivers do it that cannot write in front of the data.
            [front, whole, ..]
                if front.len_bytes() == skip as usize
                    && front.read_array(0, &mut header)
                    && whole.read_array(0, &mut self.head) => {}
            _ => read_head(pieces, &mut header, layout, &mut self.head),
        }
        let header = NetHeader::from_bytes(&header, layout);
        self.offload = Offload::parse(header, len).map_err(|_| DropReason::MalformedHeader)?;
        self.simple = self.offload == Offload::NONE;
        (self.skip, self.len) = (skip, len);
        Ok(())
    }
}

#[inline(never)]
fn read_head(
    pieces: &[SharedSlice<'_>],
    header: &mut [u8; NetHeader::BYTES],
    layout: HeaderLayout,
    head: &mut [u8; HEAD_BYTES],
) {
    let skip = layout.bytes();
    SgList::new(pieces).read(&mut header[..skip]);
    SgList::new(pieces).skip(skip).read(head);
}
