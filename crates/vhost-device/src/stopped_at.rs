//! What a queue leaves behind when it stops by itself.
use std::sync::OnceLock;

use virtqueue::Position;

/// Where a queue stood when it found its ring malformed. The worker that had the queue drops it then, and the
/// front-end asks later (GET_VRING_BASE): it can see there how far the ring was served, and go on from there.
#[derive(Debug, Default)]
pub struct StoppedAt(OnceLock<Position>);

impl StoppedAt {
    /// The queue stands here and goes no further.
    #[cold]
    pub fn set(&self, position: Position) {
        // A queue stops once; whatever comes later found it stopped.
        let _ = self.0.set(position);
    }

    /// Where it stopped, if it has.
    pub fn get(&self) -> Option<Position> {
        self.0.get().copied()
    }
}
