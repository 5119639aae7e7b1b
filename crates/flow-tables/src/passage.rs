//! Takes a frame through the tables, segment by segment.
use flow::Key;

use crate::execute::{MAX_DELIVERIES, MAX_DEPTH, MAX_RESUBMITS, Run};
use crate::lists::Lists;
use crate::segment::Start;
use crate::{Continuation, Cost, HeaderWindow, Outcome, Overrun, Surroundings, Tables};

/// Executes a frame. `segment` executes the segment with the given start of the frame in the window, the first one if there
/// is no start. It replaces the start by that of the next segment if the window has the frame of that segment and no other
/// frame of the present segment waits, and by none otherwise.
pub(crate) fn execute_all(
    window: &mut HeaderWindow,
    outcome: &mut Outcome,
    mut segment: impl FnMut(&mut Option<Start>, &mut HeaderWindow, &mut Outcome),
) {
    let (mut start, mut segments) = (None::<Start>, 0);
    loop {
        let waiting = outcome.waiting.len();
        segment(&mut start, window, outcome);
        if outcome.overrun.is_some() || outcome.deliveries.len() > MAX_DELIVERIES {
            outcome.overrun.get_or_insert(Overrun::Deliveries);
            break;
        }
        if start.is_none() && outcome.waiting.is_empty() {
            return;
        }
        // Copies go on in the order of the actions, each before those that were made earlier.
        outcome.waiting[waiting..].reverse();
        if start.is_none()
            && let Some(next) = outcome.waiting.pop()
        {
            *window = next.window;
            start = Some(next.start);
        }
        let Some(start) = &start else { return };
        segments += 1;
        if start.depth > MAX_DEPTH || segments > MAX_RESUBMITS {
            outcome.overrun = Some(if start.depth > MAX_DEPTH { Overrun::Depth } else { Overrun::Resubmits });
            break;
        }
    }
    outcome.waiting.clear();
    outcome.deliveries.clear();
    outcome.effects.clear();
}

impl Tables {
    /// The frames that have visited a table so far, and those of them that have matched a flow which is there. Frames of
    /// removed flows do not count.
    pub fn visits(&self, table: u8) -> (u64, u64) {
        let matched = self.all(table).map(|entry| entry.counters().get().0).fold(0, u64::saturating_add);
        (matched.saturating_add(self.missed.count(table)), matched)
    }

    /// Executes the tables on a frame: `window` has its first bytes, `metadata` has its input port, tunnel and
    /// registers. Returns the cost of all look-ups.
    pub fn execute<S: Surroundings>(
        &self,
        window: &[u8],
        frame_bytes: usize,
        metadata: &Key,
        around: &mut S,
        outcome: &mut Outcome,
    ) -> Cost {
        outcome.clear();
        let mut window = HeaderWindow::new(window, frame_bytes, self.max_tags());
        self.execute_window(&mut window, metadata, around, outcome)
    }

    /// Executes the tables on the frame of a window and counts it in its flows. The outcome does not list the flows. A
    /// frame that waits for other fragments ([`Surroundings::waits`]) is not counted.
    pub fn execute_once<S: Surroundings>(
        &self,
        window: &HeaderWindow,
        metadata: &Key,
        around: &mut S,
        outcome: &mut Outcome,
    ) {
        outcome.clear();
        self.execute_window(&mut window.clone(), metadata, around, outcome);
        if !around.waits() {
            outcome.count(window.frame_bytes(), || around.now_ms());
        }
        outcome.hits.clear();
    }

    /// The outcome must be empty before the call. Returns the cost of all look-ups.
    pub(crate) fn execute_window<S: Surroundings>(
        &self,
        window: &mut HeaderWindow,
        metadata: &Key,
        around: &mut S,
        outcome: &mut Outcome,
    ) -> Cost {
        let first = Start::first(metadata, window);
        let mut lists = std::mem::take(&mut outcome.memory).lists();
        let mut cost = Cost::default();
        execute_all(window, outcome, |start, window, outcome| {
            cost += self.segment(start.as_ref().unwrap_or(&first), window, around, outcome, &mut lists);
            *start = None;
        });
        outcome.memory = lists.memory();
        cost
    }

    /// Executes one segment of a frame. Returns the cost of its look-ups.
    pub(crate) fn segment<'a, S: Surroundings>(
        &'a self,
        start: &Start,
        window: &mut HeaderWindow,
        around: &mut S,
        outcome: &mut Outcome,
        lists: &mut Lists<'a>,
    ) -> Cost {
        Run::new(self, start, window, around, outcome, lists).begin()
    }

    /// Continues the execution of a frame that a controller returns. The actions of a controller's packet-out are
    /// such a continuation too.
    pub fn resume<S: Surroundings>(
        &self,
        window: &[u8],
        frame_bytes: usize,
        metadata: &Key,
        rest: Continuation,
        around: &mut S,
        outcome: &mut Outcome,
    ) {
        outcome.clear();
        let mut window = HeaderWindow::new(window, frame_bytes, self.max_tags());
        let first = Start::first(metadata, &window);
        let mut lists = std::mem::take(&mut outcome.memory).lists();
        execute_all(&mut window, outcome, |start, window, outcome| {
            match &*start {
                Some(start) => self.segment(start, window, around, outcome, &mut lists),
                None => Run::new(self, &first, window, around, outcome, &mut lists).resume(&rest),
            };
            *start = None;
        });
        outcome.memory = lists.memory();
    }
}
