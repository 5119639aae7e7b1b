//! What an earlier process had noted of the burst that it did not complete.
use crate::area::FRAME_WORDS;
use crate::receiver::ReceiverLog;

/// Frames that a note can name.
const MAX_BURST: usize = 64 * FRAME_WORDS;

/// One publication that was about to happen.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    /// Which receiveq, and where it stood: see [`ReceiverLog::name`].
    pub to: [u64; 2],
    /// Of the burst.
    pub frames: Frames,
}

/// Some frames of a burst.
#[derive(Clone, Debug)]
pub(crate) enum Frames {
    /// All from the first to the last.
    Run { first: u16, last: u16 },
    /// A bit for each.
    Set([u64; FRAME_WORDS]),
}

impl Frames {
    fn contains(&self, frame: usize) -> bool {
        match self {
            Frames::Run { first, last } => (usize::from(*first)..=usize::from(*last)).contains(&frame),
            Frames::Set(words) => words.get(frame / 64).is_some_and(|word| word >> (frame % 64) & 1 != 0),
        }
    }
}

/// The notes of a burst that its sender gets back only now.
#[derive(Clone, Debug)]
pub struct Past {
    process: u64,
    notes: Vec<Note>,
    /// Frames of it that this process has had already, and those that it has now.
    had: usize,
    now: usize,
}

impl Past {
    pub(crate) fn new(process: u64, notes: Vec<Note>) -> Self {
        Past { process, notes, had: 0, now: 0 }
    }

    /// So many frames come now. False if the notes say nothing of them, nor of any later.
    pub(crate) fn advance(&mut self, frames: usize) -> bool {
        self.had += std::mem::replace(&mut self.now, frames);
        (self.had..MAX_BURST).any(|frame| self.notes.iter().any(|note| note.frames.contains(frame)))
    }

    /// Which of these frames of the burst at hand a receiver has not got yet.
    pub fn left_for(&self, receiver: Option<&ReceiverLog>, which: &[u16]) -> Vec<u16> {
        let notes = self
            .notes
            .iter()
            .filter(|note| receiver.is_some_and(|receiver| receiver.has_got(self.process, note.to)));
        let got: Vec<&Note> = notes.collect();
        let has = |index: &u16| got.iter().any(|note| note.frames.contains(self.had + usize::from(*index)));
        which.iter().copied().filter(|index| !has(index)).collect()
    }
}
