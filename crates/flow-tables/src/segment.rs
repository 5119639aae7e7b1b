//! The segments into which connection tracking cuts the execution of a frame.
//!
//! The action `ct` with a table makes a copy of the frame and tracks it. The copy goes on in that table when all actions of
//! the present segment are done. A segment depends on the fields with which it begins, and the fields of the connection are
//! among them. So a cache can keep the outcome of each segment.
use std::ops::Range;

use flow::Key;

use crate::fields::{set_connection, take_frame};
use crate::{Connection, HeaderWindow};

/// Where a tracked frame goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Then {
    pub(crate) table: u8,
    /// The queue that an action has set.
    pub(crate) queue: u32,
}

/// The stack and the action set of a frame that waits: their places in the lists of the execution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Saved {
    pub(crate) stack: Range<usize>,
    pub(crate) action_set: Range<usize>,
}

impl Saved {
    pub(crate) fn is_empty(&self) -> bool {
        self.stack.is_empty() && self.action_set.is_empty()
    }
}

/// The beginning of a segment, without the bytes of the frame.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) then: Then,
    /// How many segments came before, each by a `ct` of the one before.
    pub(crate) depth: u32,
    pub(crate) saved: Saved,
    /// All fields, also those of the frame.
    pub(crate) key: Key,
}

impl Start {
    /// A number for the table and the queue, which is not zero.
    pub(crate) fn number(&self) -> u64 {
        1 << 63 | u64::from(self.then.queue) << 8 | u64::from(self.then.table)
    }

    /// The first segment of a frame.
    pub(crate) fn first(metadata: &Key, window: &HeaderWindow) -> Self {
        let mut key = *metadata;
        take_frame(&mut key, window.held());
        Self { then: Then::default(), depth: 0, saved: Saved::default(), key }
    }

    /// The segment begins with the fields of this connection and of the frame in the window, which was tracked.
    pub(crate) fn take(&mut self, connection: &Connection, zone: u16, window: &mut HeaderWindow) {
        window.refresh();
        take_frame(&mut self.key, window.held());
        set_connection(&mut self.key, connection, zone);
    }
}

/// A frame that waits until the present segment has ended.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) window: HeaderWindow,
    pub(crate) start: Start,
}
