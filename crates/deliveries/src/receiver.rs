//! The position of a receiveq when this process started it.
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

use virtqueue::Position;

use crate::area::{self, Area, Words};

/// Words of a receiveq: the process that has it, the process that had it before, the position at the change, and the
/// last process that was about to publish to it at another position.
const PROCESS: usize = 0;
const PREVIOUS: usize = 1;
const STOOD_AT: usize = 2;
const MOVED_BY: usize = 3;

/// The log of one receiveq.
#[derive(Clone, Debug)]
pub struct ReceiverLog {
    area: Arc<Area>,
    pair: u16,
    words: Arc<Words>,
}

impl ReceiverLog {
    /// The log of a pair in these words; `None` if there is no such pair.
    pub fn new(area: &Arc<Area>, pair: u16) -> Option<Self> {
        Some(ReceiverLog { area: Arc::clone(area), pair, words: Arc::new(area.receiver(pair)?) })
    }

    /// Notes that the ring starts, at position `at`. Only the first start in a process shows what the previous process
    /// has done. A process that has delivered nothing does not count: the notes then still describe the process before
    /// it.
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

    /// Notes that frames are about to be published at position `at`.
    #[inline]
    pub(crate) fn moves(&self, at: Position) {
        let process = self.area.process();
        if self.words[MOVED_BY].load(Relaxed) != process
            && self.words[STOOD_AT].load(Relaxed) != area::mark(at)
        {
            self.words[MOVED_BY].store(process, Relaxed);
        }
    }

    /// Two words: the identity of this receiveq, and its position.
    pub(crate) fn name(&self, at: Position) -> [u64; 2] {
        [self.area.id(), u64::from(self.pair) << 32 | area::mark(at)]
    }

    /// Whether a receiveq of this port got the frames that process `process` was about to publish to it. It did if
    /// its position was another when the next process, which is this one, started it.
    pub(crate) fn has_got(&self, process: u64, [area, place]: [u64; 2]) -> bool {
        let Some(words) = self.area.receiver((place >> 32) as u16) else { return false };
        area == self.area.id()
            && words[PROCESS].load(Relaxed) == self.area.process()
            && words[PREVIOUS].load(Relaxed) == process
            && words[STOOD_AT].load(Relaxed) != place & u64::from(u32::MAX)
    }
}
