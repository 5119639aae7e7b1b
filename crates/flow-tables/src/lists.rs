//! Lists that the execution of a frame needs. Their memory is reused from frame to frame.
use flow::{Action, Key};

use crate::HeaderWindow;
use crate::table::{Found, emptied};

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
}

/// The memory of [`Lists`] between two frames. All lists are empty.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    stack: Vec<u128>,
    action_set: Vec<&'static Action>,
    order: Vec<&'static Action>,
    copies: Vec<(HeaderWindow, Key)>,
    found: Found<'static>,
}

impl Memory {
    pub(crate) fn lists<'a>(self) -> Lists<'a> {
        let Self { stack, action_set, order, copies, found } = self;
        let (stack, action_set) = (Layered::new(stack), Layered::new(action_set));
        Lists { stack, action_set, order, copies, found }
    }
}

impl Lists<'_> {
    pub(crate) fn memory(self) -> Memory {
        let Self { mut stack, action_set, order, mut copies, found } = self;
        stack.all.clear();
        copies.clear();
        let (action_set, order) = (emptied(action_set.all), emptied(order));
        Memory { stack: stack.all, action_set, order, copies, found: found.emptied() }
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
    order.extend(last(|action| matches!(action, Action::PushVlan(_))));
    order.extend(last(|action| matches!(action, Action::DecTtl(_))));
    let writes = |action: &&Action| {
        matches!(
            action,
            Action::SetField(..) | Action::Move(..) | Action::ModVlanVid(_) | Action::ModVlanPcp(_)
        )
    };
    order.extend(set.clone().filter(writes));
    order.extend(last(|action| matches!(action, Action::SetQueue(_))));
    let ends: [fn(&Action) -> bool; 4] = [
        |action| matches!(action, Action::Group(_)),
        |action| matches!(action, Action::Output(_) | Action::OutputCut(..) | Action::Controller(_)),
        |action| matches!(action, Action::Resubmit { .. }),
        |action| matches!(action, Action::Ct(_)),
    ];
    order.extend(ends.into_iter().find_map(last));
}
