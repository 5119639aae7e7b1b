//! Where a receiveq stood when this process started it.
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

use virtqueue::Position;

use crate::area::{self, Area, Words};

/// Words of a receiveq: the process that has it, the one that had it before, where it stood in between, and the last
/// process that was about to publish to it at another place than that.
const PROCESS: usize = 0;
const PREVIOUS: usize = 1;
const STOOD_AT: usize = 2;
const MOVED_BY: usize = 3;

/// What is noted of one receiveq.
#[derive(Clone, Debug)]
pub struct ReceiverLog {
    area: Arc<Area>,
    pair: u16,
    words: Arc<Words>,
}

impl ReceiverLog {
    /// Of a pair of the port with these words; `None` if it has no such pair.
    pub fn new(area: &Arc<Area>, pair: u16) -> Option<Self> {
        Some(ReceiverLog { area: Arc::clone(area), pair, words: Arc::new(area.receiver(pair)?) })
    }

    /// The ring starts, and stands there. Only the first start in a process tells what the one before has done. One that
    /// has moved nothing was none: what the one before that has done is still to be seen.
    pub fn started(&self, at: Position) {
        let words = &self.words;
        let before = words[PROCESS].load(Relaxed);
        if before == self.area.process() {
            return;
        }
        // The place alone says little of a ring that has gone round.
        if words[MOVED_BY].load(Relaxed) == before || words[STOOD_AT].load(Relaxed) != area::mark(at) {
            // In this order: killed in between, the next process finds the one before still.
            words[PREVIOUS].store(before, Release);
            words[STOOD_AT].store(area::mark(at), Release);
        }
        words[PROCESS].store(self.area.process(), Release);
    }

    /// Something is about to be published to it there.
    #[inline]
    pub(crate) fn moves(&self, at: Position) {
        let process = self.area.process();
        if self.words[MOVED_BY].load(Relaxed) != process
            && self.words[STOOD_AT].load(Relaxed) != area::mark(at)
        {
            self.words[MOVED_BY].store(process, Relaxed);
        }
    }

    /// A word that says which receiveq this is, and one for the place at which it stands.
    pub(crate) fn name(&self, at: Position) -> [u64; 2] {
        [self.area.id(), u64::from(self.pair) << 32 | area::mark(at)]
    }

    /// Whether a receiveq of this port got what an earlier process was about to publish to the one of this name: it
    /// stood elsewhere when this process, the next one, started it.
    pub(crate) fn has_got(&self, process: u64, [area, place]: [u64; 2]) -> bool {
        let Some(words) = self.area.receiver((place >> 32) as u16) else { return false };
        area == self.area.id()
            && words[PROCESS].load(Relaxed) == self.area.process()
            && words[PREVIOUS].load(Relaxed) == process
            && words[STOOD_AT].load(Relaxed) != place & u64::from(u32::MAX)
    }
}
