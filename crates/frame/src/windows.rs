//! More of a frame's start than its snapshot, for programs that ask for it.
use memory::SgList;

use crate::Frame;

/// The longest window, in bytes. Ethernet, two tags, IPv6, UDP and VXLAN or Geneve without options, followed by an
/// inner Ethernet, IPv6 and UDP header, take less than 200 bytes.
pub const WINDOW_BYTES: usize = 256;

/// The header windows of the present burst. A window begins with the frame's snapshot. The bytes behind it are
/// read once from the sender's memory, when a program asks for them. A frame whose window was extended must be
/// delivered through [`EditedFrames`](crate::EditedFrames), so that the window's bytes are delivered and not later
/// ones of the sender.
#[derive(Debug)]
pub struct Windows {
    /// By frame.
    bytes: Box<[[u8; WINDOW_BYTES]]>,
    /// For each frame, the number of bytes that were read; 0 if only the snapshot is known.
    known: Box<[u16]>,
    any: bool,
}

impl Windows {
    /// Windows for bursts of this many frames.
    pub fn new(frames: usize) -> Self {
        Windows { bytes: vec![[0; WINDOW_BYTES]; frames].into(), known: vec![0; frames].into(), any: false }
    }

    /// Whether a frame's window is longer than its snapshot.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.any
    }

    /// Whether the window of the frame at `index` was extended.
    #[inline(always)]
    pub fn is_extended(&self, index: usize) -> bool {
        self.any && self.known.get(index).is_some_and(|known| *known > 0)
    }

    /// The first bytes of the frame at `index` of the burst: at least `bytes`, but not more than the frame has or
    /// [`WINDOW_BYTES`].
    pub fn extend<'a>(&'a mut self, index: usize, frame: Frame<'a>, bytes: usize) -> &'a [u8] {
        let wanted = bytes.min(WINDOW_BYTES).min(frame.len_bytes());
        let (Some(window), Some(known)) = (self.bytes.get_mut(index), self.known.get_mut(index)) else {
            return frame.snapshot();
        };
        let mut have = usize::from(*known);
        if wanted > have.max(frame.snapshot().len()) {
            if have == 0 {
                have = frame.snapshot().len();
                window[..have].copy_from_slice(frame.snapshot());
            }
            let (slices, skip) = frame.slices();
            have += SgList::new(slices).skip(skip + have).read(&mut window[have..wanted]);
            *known = have as u16;
            self.any = true;
        }
        self.window(index, frame)
    }

    /// The known start of a frame.
    #[inline(always)]
    pub fn window<'a>(&'a self, index: usize, frame: Frame<'a>) -> &'a [u8] {
        match (self.bytes.get(index), self.known.get(index)) {
            (Some(window), Some(&known)) if known > 0 => &window[..usize::from(known)],
            _ => frame.snapshot(),
        }
    }

    /// Forgets the windows at the end of the burst.
    #[inline(always)]
    pub fn clear(&mut self) {
        if self.any {
            self.known.fill(0);
            self.any = false;
        }
    }
}
