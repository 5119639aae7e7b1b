//! The position that a queue leaves when it stops by itself.
use std::sync::OnceLock;

use virtqueue::Position;

/// The position of a queue when it found its ring malformed. The worker drops such a queue. When the front-end asks
/// later (GET_VRING_BASE), this position shows how far the ring was served, and the front-end can continue from it.
#[derive(Debug, Default)]
pub struct StoppedAt(OnceLock<Position>);

impl StoppedAt {
    /// Notes that the queue has stopped at this position.
    #[cold]
    pub fn set(&self, position: Position) {
        // A queue stops once; whatever comes later found it stopped.
        let _ = self.0.set(position);
    }

    /// The position, if the queue has stopped.
    pub fn get(&self) -> Option<Position> {
        self.0.get().copied()
    }
}
