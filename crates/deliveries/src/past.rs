//! The notes of an earlier process about a burst that it did not complete.
use crate::area::FRAME_WORDS;
use crate::receiver::ReceiverLog;

/// Frames that a note can name.
const MAX_BURST: usize = 64 * FRAME_WORDS;

/// One publication that was about to happen.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    /// The name and position of the receiveq: see [`ReceiverLog::name`].
    pub to: [u64; 2],
    /// The frames, by their index in the burst.
    pub frames: Frames,
}

/// Some frames of a burst.
#[derive(Clone, Debug)]
pub(crate) enum Frames {
    /// All frames from the first to the last.
    Run { first: u16, last: u16 },
    /// A bit for each frame.
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

/// The notes about a burst that its sender gets back only in this process.
#[derive(Clone, Debug)]
pub struct Past {
    process: u64,
    notes: Vec<Note>,
    /// How many of the noted frames this process has received before, and how many it receives with the present
    /// burst.
    had: usize,
    now: usize,
}

impl Past {
    pub(crate) fn new(process: u64, notes: Vec<Note>) -> Self {
        Past { process, notes, had: 0, now: 0 }
    }

    /// Advances by a part of the burst: the next `frames` frames. Returns false if the notes concern neither these
    /// frames nor later ones.
    pub(crate) fn advance(&mut self, frames: usize) -> bool {
        self.had += std::mem::replace(&mut self.now, frames);
        (self.had..MAX_BURST).any(|frame| self.notes.iter().any(|note| note.frames.contains(frame)))
    }

    /// The frames among `which` of the present burst that a receiver has not received yet.
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
