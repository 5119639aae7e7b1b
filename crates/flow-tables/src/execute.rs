//! Takes one frame through the tables, as Open vSwitch does.
mod buckets;
mod connections;
mod controllers;
mod fields;
mod labels;
mod visits;

use std::ops::Range;
use std::sync::Arc;

use flow::{Action, Controller, Field, Key, port};

use crate::classifier::Cost;
use crate::fields::{frame_words, read};
use crate::lists::{Lists, put_in_order};
use crate::outcome::{Answer, HeaderRange, Step};
use crate::segment::Start;
use crate::{
    Continuation, Delivery, Effect, Entry, HeaderWindow, Outcome, Overrun, Surroundings, Tables, Uncached,
};

/// The largest number of visits to tables. (Open vSwitch's name for it: `MAX_RESUBMITS`.)
pub const MAX_RESUBMITS: u32 = 4096;
/// The largest number of nested visits to earlier tables. (Open vSwitch's name for it: `MAX_DEPTH`.)
pub const MAX_DEPTH: u32 = 64;
/// The largest number of copies of one frame that leave. (Open vSwitch has no such limit.)
pub const MAX_DELIVERIES: usize = 8192;
/// The largest number of values on the stack when another table is visited. (Open vSwitch allows 65,536 bytes.)
pub const MAX_STACK: usize = 1024;
/// The largest number of copies of one frame that wait in front of their tables while others go on.
pub const MAX_WAITING: usize = 256;
/// The most levels of actions in actions, which `MAX_DEPTH` does not limit.
const MAX_NESTED: u32 = 256;
/// The cookie of actions that no flow has: those of a controller's frame, as in Open vSwitch.
const NO_FLOW: u64 = u64::MAX;

/// The effect of an action on the actions behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Go,
    /// The rest of this list is skipped.
    Stop,
    /// All lists of this copy end: a meter drops it.
    Drop,
    /// All lists end, those around a copy among them.
    Exit,
    /// All lists wait for a controller.
    Freeze,
}

/// A list of actions that is executed.
#[derive(Clone, Debug)]
pub(crate) enum List<'a> {
    /// The actions of a flow or of an action.
    Given(&'a [Action]),
    /// The actions in this range of [`Lists::order`].
    Ordered(Range<usize>),
}

/// The execution of one segment of a frame.
pub(crate) struct Run<'a, 'r, S: Surroundings> {
    pub(crate) tables: &'a Tables,
    pub(crate) around: &'r mut S,
    pub(crate) outcome: &'r mut Outcome,
    pub(crate) window: &'r mut HeaderWindow,
    pub(crate) key: Key,
    pub(crate) lists: &'r mut Lists<'a>,
    pub(crate) cost: Cost,
    /// How many segments came before.
    segments: u32,
    /// The deliveries and flows of the segments before.
    deliveries: usize,
    hits: usize,
    /// Whether an address translation or a change of labels may have changed fields, and no action has depended on them since.
    is_translated: bool,
    table: u8,
    /// The flow whose actions are executed.
    entry: Option<&'a Arc<Entry>>,
    /// The cookie of actions that no flow has.
    cookie: u64,
    resubmits: u32,
    depth: u32,
    nested: u32,
    queue: u32,
    frozen: Option<Continuation>,
}

/// Whether the effect of an action may depend on the fields of the frame.
fn depends_on_fields(action: &Action) -> bool {
    match action {
        Action::Output(to) | Action::OutputSized(to, _) | Action::OutputCut(to, _) => *to == port::TABLE,
        Action::SetQueue(_) | Action::PopQueue | Action::CtClear | Action::Exit | Action::ClearActions => {
            false
        }
        _ => true,
    }
}

impl<'a, 'r, S: Surroundings> Run<'a, 'r, S> {
    pub(crate) fn new(
        tables: &'a Tables,
        start: &Start,
        window: &'r mut HeaderWindow,
        around: &'r mut S,
        outcome: &'r mut Outcome,
        lists: &'r mut Lists<'a>,
    ) -> Self {
        lists.resume(&start.saved);
        outcome.begin_segment();
        outcome.consulted.begin();
        outcome.note_segment(start);
        let visits = if start.depth == 0 { 0 } else { outcome.visits };
        Self {
            tables,
            around,
            deliveries: outcome.deliveries.len(),
            hits: outcome.hits.len(),
            outcome,
            window,
            key: start.key,
            lists,
            cost: Cost::default(),
            segments: start.depth,
            is_translated: false,
            table: start.then.table,
            entry: None,
            cookie: 0,
            // All segments of a frame have the visits of one.
            resubmits: visits,
            depth: 0,
            nested: 0,
            queue: start.then.queue,
            frozen: None,
        }
    }

    /// Executes the flow of the table with which the segment begins, and what follows. Returns the cost of all look-ups.
    pub(crate) fn begin(mut self) -> Cost {
        let next = self.visit(self.table, self.in_port());
        self.finish(next)
    }

    /// Executes the actions of a controller's frame, or continues the execution of a frame that a controller returns.
    pub(crate) fn resume(mut self, rest: &'a Continuation) -> Cost {
        self.cookie = NO_FLOW;
        self.lists.stack.extend(rest.stack.iter().copied());
        self.lists.action_set.extend(&rest.action_set);
        let mut lists = rest.rest.iter();
        let mut next = Next::Go;
        while !matches!(next, Next::Drop | Next::Exit)
            && let Some((table, actions)) = lists.next()
        {
            self.table = *table;
            next = self.list(List::Given(actions));
            if next == Next::Freeze {
                self.frozen.get_or_insert_default().rest.extend(lists.by_ref().cloned());
            }
        }
        self.finish(next)
    }

    fn in_port(&self) -> u16 {
        self.key.get(Field::InPort) as u16
    }

    /// Executes the action set, or gives it to a waiting packet-in, and ends the execution.
    fn finish(mut self, next: Next) -> Cost {
        self.execute_set(next);
        self.end_of_copy();
        self.outcome.visits = self.resubmits;
        let steps = &mut self.outcome.steps;
        if self.outcome.overrun.is_some() {
            // A frame that is dropped was tracked nevertheless, and others may not come to the limit.
            if steps.iter().any(|step| matches!(step, Step::Track(..)) || step.is_guard()) {
                self.outcome.uncached.get_or_insert(Uncached::Connection);
            }
            steps.clear();
        }
        // A change of the window after the last copy has left has no effect.
        while let Some(Step::Copy | Step::Return | Step::Write(_)) = steps.last() {
            steps.pop();
        }
        self.outcome.end_of_trace(&self.key, self.tables, self.hits);
        self.cost
    }

    /// Executes the action set at the end of a pipeline or of a copy, unless `exit` has ended it.
    fn execute_set(&mut self, next: Next) {
        if matches!(next, Next::Go | Next::Stop) && !self.lists.action_set.present().is_empty() {
            let Lists { action_set, order, .. } = &mut *self.lists;
            let from = order.len();
            put_in_order(action_set.present().iter().copied(), order);
            let before = action_set.begin();
            self.ordered_from(from);
            self.lists.action_set.restore(before);
            self.lists.action_set.clear();
        }
    }

    /// Executes and forgets the actions of [`Lists::order`] from this place on.
    fn ordered_from(&mut self, from: usize) -> Next {
        let next = self.list(List::Ordered(from..self.lists.order.len()));
        self.lists.order.truncate(from);
        next
    }

    fn overrun(&mut self, why: Overrun) -> Next {
        self.outcome.overrun.get_or_insert(why);
        Next::Exit
    }

    /// Indents the lines of a trace.
    fn deepen(&mut self, by: isize) {
        if let Some(trace) = &mut self.outcome.trace {
            trace.level = trace.level.saturating_add_signed(by);
        }
    }

    /// The action at this place of a list.
    fn action_at(&self, list: &List<'a>, at: usize) -> Option<&'a Action> {
        match list {
            List::Given(actions) => actions.get(at),
            List::Ordered(range) => self.lists.order.get(range.clone())?.get(at).copied(),
        }
    }

    /// Executes actions in order. A visit at the end of a list goes on with the flow of that table in the place of the list,
    /// so that a pipeline of many tables is no deeper than one list.
    pub(crate) fn list(&mut self, mut list: List<'a>) -> Next {
        if self.nested >= MAX_NESTED {
            return self.overrun(Overrun::Depth);
        }
        self.nested += 1;
        let (before, depth) = ((self.table, self.entry), self.depth);
        let (mut next, mut at, mut entered) = (Next::Go, 0, 0);
        while let Some(action) = self.action_at(&list, at) {
            at += 1;
            self.outcome.note(0, || action.to_string());
            let last = self.visited(action).filter(|_| self.action_at(&list, at).is_none());
            if let Some((table, input)) = last {
                self.expect_fields(action);
                if let Err(why) = self.count_visit(table) {
                    self.overrun(why);
                    break;
                }
                let Some(actions) = self.enter(table, input) else { break };
                (list, at, entered) = (List::Given(actions), 0, entered + 1);
                continue;
            }
            next = self.one(action);
            if next == Next::Freeze {
                let rest = (at..).map_while(|at| self.action_at(&list, at)).cloned().collect();
                self.frozen.get_or_insert_default().rest.push((self.table, rest));
            }
            if next != Next::Go || self.outcome.overrun.is_some() {
                break;
            }
        }
        self.nested -= 1;
        ((self.table, self.entry), self.depth) = (before, depth);
        if entered > 0 {
            self.deepen(-entered);
            // The end of a flow's list ends the lists of flows before it, too.
            next = if next == Next::Stop { Next::Go } else { next };
        }
        if self.outcome.overrun.is_some() { Next::Exit } else { next }
    }

    /// Does something with a copy: frame, fields, stack and action set are as before afterwards.
    fn on_copy(&mut self, act: impl FnOnce(&mut Self) -> Next) -> Next {
        let before = (self.lists.stack.copy(), self.lists.action_set.copy());
        let next = self.on_copy_of_frame(act);
        self.lists.stack.restore(before.0);
        self.lists.action_set.restore(before.1);
        next
    }

    /// Executes `act` on a copy of the frame and its fields. The stack and the action set keep the changes of `act`.
    pub(crate) fn on_copy_of_frame(&mut self, act: impl FnOnce(&mut Self) -> Next) -> Next {
        self.lists.copies.push((self.window.clone(), self.key));
        let frozen = self.frozen.take();
        self.outcome.steps.push(Step::Copy);
        let next = act(self);
        self.end_of_copy();
        self.outcome.steps.push(Step::Return);
        if let Some(before) = self.lists.copies.pop() {
            (*self.window, self.key) = before;
        }
        self.frozen = frozen;
        next
    }

    /// Gives the remaining actions to the waiting packet-in.
    fn end_of_copy(&mut self) {
        let Some(mut rest) = self.frozen.take() else { return };
        rest.stack = self.lists.stack.present().to_vec();
        rest.action_set = self.lists.action_set.present().iter().copied().cloned().collect();
        let waiting = self.outcome.effects.iter_mut().rev().find_map(|effect| match effect {
            Effect::PacketIn(packet) => packet.continuation.as_mut(),
            _ => None,
        });
        if let Some(continuation) = waiting {
            **continuation = rest;
        }
    }

    /// Notes the fields that a translation may have changed, if the effect of an action may depend on them.
    fn expect_fields(&mut self, action: &Action) {
        if self.is_translated && depends_on_fields(action) {
            self.is_translated = false;
            self.outcome.steps.push(Step::Expect(*frame_words(&self.key)));
        }
    }

    fn one(&mut self, action: &'a Action) -> Next {
        self.expect_fields(action);
        if self.on_fields(action) {
            return Next::Go;
        }
        match action {
            Action::Output(to) | Action::OutputSized(to, _) => return self.output(*to, None),
            Action::OutputCut(to, bytes) => return self.output(*to, Some(*bytes)),
            Action::OutputField(bits) => {
                if let Ok(to) = u16::try_from(read(&self.key, *bits)) {
                    return self.output(to, None);
                }
            }
            Action::Controller(controller) => return self.controller(controller),
            Action::SetQueue(queue) => self.queue = *queue,
            Action::PopQueue => self.queue = 0,
            Action::Group(group) => return self.group(*group),
            Action::Meter(meter) => {
                self.write_window();
                self.outcome.steps.push(Step::Meter(*meter));
                if !self.passes(*meter) {
                    self.uncached(Uncached::Meter);
                    self.lists.action_set.clear();
                    return Next::Drop;
                }
            }
            Action::Resubmit { port, table, original } => {
                return self.resubmit(*port, *table, *original);
            }
            Action::GotoTable(table) => return self.table(*table, self.in_port()),
            Action::PushMpls(kind) => return self.push_mpls(*kind),
            Action::PopMpls(kind) => return self.pop_mpls(*kind),
            Action::DecMplsTtl => return self.dec_mpls_ttl(),
            Action::DecTtl(ids) => return self.dec_ttl(ids.as_deref().unwrap_or(&[0])),
            Action::Clone(actions) => return self.clone_of(actions),
            Action::Learn(learn) => self.learn(learn),
            Action::FinTimeout(_) => self.fin_timeout(),
            Action::Ct(ct) => self.ct(ct),
            Action::Bundle(bundle) => return self.bundle(bundle),
            Action::Sample(sample) => {
                let header = self.keep_window();
                self.outcome.effect(Effect::Sample(self.observed(sample), header));
            }
            Action::Exit => return Next::Exit,
            Action::WriteActions(actions) => self.lists.action_set.extend(actions),
            Action::ClearActions => self.lists.action_set.clear(),
            _ => {} // notes and parts of conjunctions
        }
        Next::Go
    }

    /// Executes actions on a copy. An `exit` and a pause in it end the lists around the copy, too, as in Open vSwitch.
    fn clone_of(&mut self, actions: &'a [Action]) -> Next {
        let next = self.on_copy(|run| {
            let next = run.list(List::Given(actions));
            run.execute_set(next);
            next
        });
        if matches!(next, Next::Exit | Next::Freeze) { Next::Exit } else { Next::Go }
    }

    /// Whether a meter lets the frame pass. Meters that are not there, and all meters in a trace, let all frames pass.
    fn passes(&mut self, meter: u32) -> bool {
        if let Some(Answer::Passes(passes)) = self.outcome.answers.next() {
            return *passes;
        }
        let Some(meter) = self.tables.meter(meter).filter(|_| self.outcome.trace.is_none()) else {
            return true;
        };
        meter.passes(self.window.frame_bytes(), self.around.now_ms())
    }

    fn uncached(&mut self, why: Uncached) {
        self.outcome.uncached.get_or_insert(why);
    }

    fn observed(&self, sample: &flow::Sample) -> flow::Sample {
        use flow::Observation::{Number, Of};
        let number = |of| match of {
            Number(number) => Number(number),
            Of(bits) => Number(read(&self.key, bits) as u32),
        };
        flow::Sample { domain: number(sample.domain), point: number(sample.point), ..*sample }
    }

    /// Writes the fields into the header window.
    fn write_window(&mut self) {
        if self.window.write(&self.key) {
            self.outcome.steps.push(Step::Write(*frame_words(&self.key)));
            if self.window.is_full() {
                self.overrun(Overrun::Header);
            }
        }
    }

    fn keep_window(&mut self) -> HeaderRange {
        self.write_window();
        self.outcome.keep(self.window)
    }

    fn deliver(&mut self, port: u16, cut: Option<u32>) {
        if self.outcome.deliveries.len() - self.deliveries >= MAX_DELIVERIES {
            self.overrun(Overrun::Deliveries);
            return;
        }
        let header = self.keep_window();
        let tunnel = self.around.is_tunnel(port).then(|| self.key.tunnel());
        self.outcome.deliver(Delivery { port, queue: self.queue, cut, header, tunnel });
    }

    pub(crate) fn output(&mut self, to: u16, cut: Option<u32>) -> Next {
        match to {
            port::IN_PORT => self.deliver(self.in_port(), cut),
            port::TABLE => return self.table(0, self.in_port()),
            port::NORMAL => {
                let header = self.keep_window();
                self.outcome.effect(Effect::Normal(header));
            }
            port::FLOOD | port::ALL => {
                for index in 0..self.around.ports().len() {
                    let port = self.around.ports()[index];
                    if port != self.in_port() {
                        self.deliver(port, cut);
                    }
                }
            }
            port::CONTROLLER => return self.controller(&Controller::default()),
            port::ANY | port::UNSET => {}
            port if port == self.in_port() => {}
            port => self.deliver(port, cut),
        }
        Next::Go
    }
}
