//! Lists that the execution of a frame needs. Their memory is reused from frame to frame.
use flow::{Action, Key};

use crate::HeaderWindow;
use crate::segment::Saved;
use crate::table::{Found, emptied};

/// The most values of all stacks that wait, and the most actions of all action sets.
const MAX_SAVED: usize = 1 << 16;

/// A list of which copies are made and dropped. A copy stands behind its original, in the same memory.
#[derive(Debug)]
pub(crate) struct Layered<T> {
    all: Vec<T>,
    /// The place where the present copy begins.
    from: usize,
}

impl<T: Copy> Layered<T> {
    fn new(all: Vec<T>) -> Self {
        Self { all, from: 0 }
    }

    /// The values of the present copy.
    pub(crate) fn present(&self) -> &[T] {
        &self.all[self.from..]
    }

    pub(crate) fn push(&mut self, value: T) {
        self.all.push(value);
    }

    pub(crate) fn extend(&mut self, values: impl IntoIterator<Item = T>) {
        self.all.extend(values);
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.all.len() > self.from { self.all.pop() } else { None }
    }

    pub(crate) fn clear(&mut self) {
        self.all.truncate(self.from);
    }

    /// Begins a copy. The result is for [`Layered::restore`].
    pub(crate) fn copy(&mut self) -> usize {
        let (before, end) = (self.from, self.all.len());
        self.all.extend_from_within(before..);
        self.from = end;
        before
    }

    /// Begins an empty list. The result is for [`Layered::restore`].
    pub(crate) fn begin(&mut self) -> usize {
        std::mem::replace(&mut self.from, self.all.len())
    }

    /// Drops the present copy. The list is as it was before the copy.
    pub(crate) fn restore(&mut self, before: usize) {
        self.all.truncate(self.from);
        self.from = before;
    }
}

/// The lists of one frame.
#[derive(Debug)]
pub(crate) struct Lists<'a> {
    pub(crate) stack: Layered<u128>,
    pub(crate) action_set: Layered<&'a Action>,
    /// Actions in the order in which they are executed; nested lists stand behind each other.
    pub(crate) order: Vec<&'a Action>,
    /// Frames before a copy was made.
    pub(crate) copies: Vec<(HeaderWindow, Key)>,
    pub(crate) found: Found<'a>,
    /// The stacks and action sets of frames that wait.
    saved_stacks: Vec<u128>,
    saved_sets: Vec<&'a Action>,
}

/// The memory of [`Lists`] between two frames. All lists are empty.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    stack: Vec<u128>,
    action_set: Vec<&'static Action>,
    order: Vec<&'static Action>,
    copies: Vec<(HeaderWindow, Key)>,
    found: Found<'static>,
    saved_stacks: Vec<u128>,
    saved_sets: Vec<&'static Action>,
}

impl Memory {
    pub(crate) fn lists<'a>(self) -> Lists<'a> {
        let Self { stack, action_set, order, copies, found, saved_stacks, saved_sets } = self;
        let (stack, action_set) = (Layered::new(stack), Layered::new(action_set));
        Lists { stack, action_set, order, copies, found, saved_stacks, saved_sets }
    }
}

impl Lists<'_> {
    pub(crate) fn memory(self) -> Memory {
        let Self { mut stack, action_set, order, mut copies, found, mut saved_stacks, saved_sets } = self;
        stack.all.clear();
        copies.clear();
        saved_stacks.clear();
        let (action_set, order) = (emptied(action_set.all), emptied(order));
        let (found, saved_sets) = (found.emptied(), emptied(saved_sets));
        Memory { stack: stack.all, action_set, order, copies, found, saved_stacks, saved_sets }
    }

    /// Keeps the stack and the action set for a frame that waits. `None` if there is no room.
    pub(crate) fn save(&mut self) -> Option<Saved> {
        let (stack, set) = (self.stack.present(), self.action_set.present());
        let (stacks, sets) = (self.saved_stacks.len(), self.saved_sets.len());
        if stacks + stack.len() > MAX_SAVED || sets + set.len() > MAX_SAVED {
            return None;
        }
        self.saved_stacks.extend_from_slice(stack);
        self.saved_sets.extend_from_slice(set);
        Some(Saved { stack: stacks..self.saved_stacks.len(), action_set: sets..self.saved_sets.len() })
    }

    /// Begins a segment with this stack and this action set.
    pub(crate) fn resume(&mut self, saved: &Saved) {
        self.stack.clear();
        self.action_set.clear();
        self.stack.extend(self.saved_stacks[saved.stack.clone()].iter().copied());
        self.action_set.extend(self.saved_sets[saved.action_set.clone()].iter().copied());
    }
}

/// Adds the actions in the order of an action set (OpenFlow 1.5 §5.6): the last of each kind, all that write fields, and
/// at the end a group, or else an output, a visit to a table, or a connection's action.
pub(crate) fn put_in_order<'a>(
    set: impl DoubleEndedIterator<Item = &'a Action> + Clone,
    order: &mut Vec<&'a Action>,
) {
    let last = |is: fn(&Action) -> bool| set.clone().rev().find(|action| is(action));
    order.extend(last(|action| matches!(action, Action::PopVlan)));
    order.extend(last(|action| matches!(action, Action::PopMpls(_))));
    order.extend(last(|action| matches!(action, Action::PushMpls(_))));
    order.extend(last(|action| matches!(action, Action::PushVlan(_))));
    order.extend(last(|action| matches!(action, Action::DecTtl(_))));
    order.extend(last(|action| matches!(action, Action::DecMplsTtl)));
    let writes = |action: &&Action| {
        matches!(
            action,
            Action::SetField(..)
                | Action::SetOwn(..)
                | Action::Move(..)
                | Action::ModVlanVid(_)
                | Action::ModVlanPcp(_)
        )
    };
    order.extend(set.clone().filter(writes));
    order.extend(last(|action| matches!(action, Action::SetQueue(_))));
    let ends: [fn(&Action) -> bool; 4] = [
        |action| matches!(action, Action::Group(_)),
        |action| {
            matches!(
                action,
                Action::Output(_) | Action::OutputSized(..) | Action::OutputCut(..) | Action::Controller(_)
            )
        },
        |action| matches!(action, Action::Resubmit { .. }),
        |action| matches!(action, Action::Ct(_)),
    ];
    order.extend(ends.into_iter().find_map(last));
}
