//! Removes the parts that were made for an environment.

use std::sync::Arc;

use crate::Janitor;
use crate::janitor::Leftover;

/// Removes the parts that were made, in reverse order, in whatever way the start ends.
#[derive(Debug)]
pub(crate) struct Undo {
    janitor: Arc<Janitor>,
    leftovers: Vec<Leftover>,
}

impl Undo {
    pub fn new(janitor: &Arc<Janitor>) -> Self {
        Undo { janitor: janitor.clone(), leftovers: Vec::new() }
    }

    pub fn made(&mut self, leftover: Leftover) {
        self.janitor.made(&leftover);
        self.leftovers.push(leftover);
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        for leftover in self.leftovers.iter().rev() {
            self.janitor.remove(leftover);
        }
    }
}
