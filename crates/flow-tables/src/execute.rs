//! Takes one frame through the tables, as Open vSwitch does.
mod buckets;
mod connections;
mod fields;

use std::sync::Arc;

use flow::{Action, Controller, Field, Flow, Key, Learn, Reason, port};

use crate::fields::{has, read, swap_original, take_frame, write};
use crate::learn::learned;
use crate::outcome::Step;
use crate::{
    Continuation, Delivery, Effect, HeaderWindow, Outcome, Overrun, PacketIn, Surroundings, Tables, Uncached,
};

/// The largest number of visits to tables. (Open vSwitch's name for it: `MAX_RESUBMITS`.)
pub const MAX_RESUBMITS: u32 = 4096;
/// The largest number of nested visits to earlier tables. (Open vSwitch's name for it: `MAX_DEPTH`.)
pub const MAX_DEPTH: u32 = 64;
/// The largest number of copies of one frame that leave. (Open vSwitch has no such limit.)
pub const MAX_DELIVERIES: usize = 8192;
/// The stack, at most; a value takes at least a byte.
const MAX_STACK: usize = 65536;
/// Actions in actions: limits the recursion that depth does not.
const MAX_NESTED: u32 = 256;

/// The effect of an action on the actions behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Go,
    /// The rest of this list is skipped.
    Stop,
    /// All lists end.
    Exit,
    /// All lists wait for a controller.
    Freeze,
}

/// The execution of one frame.
pub(crate) struct Run<'a, S: Surroundings> {
    pub(crate) tables: &'a Tables,
    pub(crate) around: &'a mut S,
    pub(crate) outcome: &'a mut Outcome,
    pub(crate) window: HeaderWindow,
    pub(crate) key: Key,
    pub(crate) stack: Vec<u128>,
    pub(crate) action_set: Vec<Action>,
    table: u8,
    cookie: u64,
    resubmits: u32,
    depth: u32,
    nested: u32,
    queue: u32,
    frozen: Option<Continuation>,
}

/// A flow in a trace.
fn line(flow: &Flow) -> String {
    let wanted = match flow.wanted.to_string() {
        wanted if wanted.is_empty() => wanted,
        wanted => format!("{wanted}, "),
    };
    let cookie = if flow.cookie == 0 { String::new() } else { format!(", cookie {:#x}", flow.cookie) };
    format!("{:2}. {wanted}priority {}{cookie}", flow.table, flow.priority)
}

impl Tables {
    /// Executes the tables on a frame: `window` has its first bytes, `metadata` has its input port, tunnel and
    /// registers.
    pub fn execute<S: Surroundings>(
        &self,
        window: &[u8],
        frame_bytes: usize,
        metadata: &Key,
        around: &mut S,
        outcome: &mut Outcome,
    ) {
        outcome.clear();
        self.execute_window(
            HeaderWindow::new(window, frame_bytes, self.max_tags()),
            metadata,
            around,
            outcome,
        );
    }

    /// The outcome must be empty before the call.
    pub(crate) fn execute_window<S: Surroundings>(
        &self,
        window: HeaderWindow,
        metadata: &Key,
        around: &mut S,
        outcome: &mut Outcome,
    ) {
        let mut run = Run::new(self, around, outcome, window, metadata);
        let next = run.visit(0, run.in_port());
        run.finish(next);
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
        let window = HeaderWindow::new(window, frame_bytes, self.max_tags());
        let mut run = Run::new(self, around, outcome, window, metadata);
        (run.stack, run.action_set) = (rest.stack, rest.action_set);
        let mut lists = rest.rest.into_iter();
        let mut next = Next::Go;
        while next != Next::Exit
            && let Some((table, actions)) = lists.next()
        {
            run.table = table;
            next = run.list(&actions);
            if next == Next::Freeze {
                run.frozen.get_or_insert_default().rest.extend(lists.by_ref());
            }
        }
        run.finish(next);
    }
}

impl<'a, S: Surroundings> Run<'a, S> {
    fn new(
        tables: &'a Tables,
        around: &'a mut S,
        outcome: &'a mut Outcome,
        window: HeaderWindow,
        metadata: &Key,
    ) -> Self {
        let mut key = *metadata;
        take_frame(&mut key, window.held());
        Self {
            tables,
            around,
            outcome,
            window,
            key,
            stack: Vec::new(),
            action_set: Vec::new(),
            table: 0,
            cookie: 0,
            resubmits: 0,
            depth: 0,
            nested: 0,
            queue: 0,
            frozen: None,
        }
    }

    fn in_port(&self) -> u16 {
        self.key.get(Field::InPort) as u16
    }

    /// The action set, or what is left for later.
    fn finish(&mut self, next: Next) {
        self.execute_set(next);
        self.end_of_copy();
        if let Some(trace) = &mut self.outcome.trace {
            trace.last = Some(self.key);
        }
        if self.outcome.overrun.is_some() {
            self.outcome.steps.clear();
            self.outcome.deliveries.clear();
            self.outcome.effects.clear();
        }
    }

    /// Executes the action set at the end of a pipeline or of a copy, unless `exit` has ended it.
    fn execute_set(&mut self, next: Next) {
        if matches!(next, Next::Go | Next::Stop) {
            let set = std::mem::take(&mut self.action_set);
            self.ordered(&set);
        }
    }

    fn overrun(&mut self, why: Overrun) -> Next {
        self.outcome.overrun.get_or_insert(why);
        Next::Exit
    }

    /// The limit that is reached before another table or group is visited.
    fn exhausted(&self) -> Option<Overrun> {
        if self.depth >= MAX_DEPTH {
            Some(Overrun::Depth)
        } else if self.resubmits >= MAX_RESUBMITS {
            Some(Overrun::Resubmits)
        } else if self.stack.len() >= MAX_STACK {
            Some(Overrun::Stack)
        } else {
            None
        }
    }

    /// Actions of the flow of a table that matches, with this input port.
    fn table(&mut self, table: u8, input: u16) -> Next {
        let deepens = table <= self.table;
        if let Some(why) = self.exhausted() {
            return self.overrun(why);
        }
        self.resubmits += 1;
        self.depth += u32::from(deepens);
        let next = self.visit(table, input);
        self.depth -= u32::from(deepens);
        next
    }

    /// The fields that flows are matched with. Fragments have no ports there (OpenFlow 1.5 §7.3.2, `OFPC_FRAG_NORMAL`).
    fn looked_up(&self, input: u16) -> Key {
        let mut key = self.key;
        key.set(Field::InPortOxm, input.into());
        if key.get(Field::IpFrag) != 0 {
            key.set(Field::TcpSrc, 0);
            key.set(Field::TcpDst, 0);
        }
        key
    }

    /// Indents the lines of a trace.
    fn deepen(&mut self, by: isize) {
        if let Some(trace) = &mut self.outcome.trace {
            trace.level = trace.level.saturating_add_signed(by);
        }
    }

    fn visit(&mut self, table: u8, input: u16) -> Next {
        let found = self.tables.lookup(table, &self.looked_up(input));
        let Some(entry) = found else {
            self.outcome.note(0, || format!("{table:2}. No match."));
            return Next::Go;
        };
        self.outcome.note(0, || line(&entry.flow));
        self.outcome.hits.push(Arc::clone(&entry));
        let before = (self.table, self.cookie);
        (self.table, self.cookie) = (table, entry.flow.cookie);
        self.deepen(1);
        let next = self.list(&entry.flow.actions);
        self.deepen(-1);
        (self.table, self.cookie) = before;
        if next == Next::Stop { Next::Go } else { next }
    }

    /// Executes actions in order.
    pub(crate) fn list(&mut self, actions: &[Action]) -> Next {
        if self.nested >= MAX_NESTED {
            return self.overrun(Overrun::Depth);
        }
        self.nested += 1;
        let mut next = Next::Go;
        for (at, action) in actions.iter().enumerate() {
            self.outcome.note(0, || action.to_string());
            next = self.one(action);
            if next == Next::Freeze {
                let rest = actions[at + 1..].to_vec();
                self.frozen.get_or_insert_default().rest.push((self.table, rest));
            }
            if next != Next::Go || self.outcome.overrun.is_some() {
                break;
            }
        }
        self.nested -= 1;
        if self.outcome.overrun.is_some() { Next::Exit } else { next }
    }

    /// Does something with a copy: frame, fields, stack and action set are as before afterwards.
    fn on_copy(&mut self, act: impl FnOnce(&mut Self) -> Next) {
        let before = (self.stack.clone(), self.action_set.clone());
        self.on_copy_of_frame(act);
        (self.stack, self.action_set) = before;
    }

    /// Executes `act` on a copy of the frame and its fields. The stack and the action set keep the changes of `act`.
    pub(crate) fn on_copy_of_frame(&mut self, act: impl FnOnce(&mut Self) -> Next) {
        let before = (self.window.clone(), self.key);
        let frozen = self.frozen.take();
        self.outcome.steps.push(Step::Copy);
        act(self);
        self.end_of_copy();
        self.outcome.steps.push(Step::Return);
        (self.window, self.key) = before;
        self.frozen = frozen;
    }

    /// Gives what is left to the packet-in that waits.
    fn end_of_copy(&mut self) {
        let Some(mut rest) = self.frozen.take() else { return };
        (rest.stack, rest.action_set) = (self.stack.clone(), self.action_set.clone());
        let waiting = self.outcome.effects.iter_mut().rev().find_map(|effect| match effect {
            Effect::PacketIn(packet) => packet.continuation.as_mut(),
            _ => None,
        });
        if let Some(continuation) = waiting {
            **continuation = rest;
        }
    }

    fn one(&mut self, action: &Action) -> Next {
        if self.on_fields(action) {
            return Next::Go;
        }
        match action {
            Action::Output(to) => return self.output(*to, None),
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
                self.uncached(Uncached::Meter);
                if !self.around.meter(*meter, self.window.frame_bytes()) {
                    self.action_set.clear();
                    return Next::Exit;
                }
            }
            Action::Resubmit { port, table, original } => {
                return self.resubmit(*port, *table, *original);
            }
            Action::GotoTable(table) => return self.table(*table, self.in_port()),
            Action::DecTtl(ids) => return self.dec_ttl(ids.as_deref().unwrap_or(&[0])),
            Action::Clone(actions) => self.on_copy(|run| {
                let next = run.list(actions);
                run.execute_set(next);
                next
            }),
            Action::Learn(learn) => self.learn(learn),
            Action::Ct(ct) => self.ct(ct),
            Action::Bundle(bundle) => return self.bundle(bundle),
            Action::Sample(sample) => {
                let header = self.keep_window();
                self.outcome.effect(Effect::Sample(Box::new(self.observed(sample)), header));
            }
            Action::Exit => return Next::Exit,
            Action::WriteActions(actions) => self.action_set.extend(actions.iter().cloned()),
            Action::ClearActions => self.action_set.clear(),
            _ => {} // notes and parts of conjunctions
        }
        Next::Go
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
            self.outcome.steps.push(Step::Write(Box::new(self.key)));
        }
    }

    fn keep_window(&mut self) -> crate::outcome::HeaderRange {
        self.write_window();
        self.outcome.keep(self.window.bytes(), self.window.frame_bytes())
    }

    fn deliver(&mut self, port: u16, cut: Option<u32>) {
        if self.outcome.deliveries.len() >= MAX_DELIVERIES {
            self.overrun(Overrun::Deliveries);
            return;
        }
        let header = self.keep_window();
        let delivery = Delivery { port, queue: self.queue, cut, header, key: self.key };
        self.outcome.deliver(delivery);
    }

    pub(crate) fn output(&mut self, to: u16, cut: Option<u32>) -> Next {
        match to {
            port::IN_PORT => self.deliver(self.in_port(), cut),
            port::TABLE => return self.table(0, self.in_port()),
            port::NORMAL => {
                let header = self.keep_window();
                self.outcome.effect(Effect::Normal(header, Box::new(self.key)));
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

    fn controller(&mut self, controller: &Controller) -> Next {
        let header = self.keep_window();
        self.uncached(Uncached::Controller);
        if controller.meter != 0 && !self.around.meter(controller.meter, header.frame_bytes) {
            return Next::Go;
        }
        let packet = PacketIn {
            controller: controller.clone(),
            table: self.table,
            cookie: self.cookie,
            header,
            key: self.key,
            continuation: controller.pause.then(Box::default),
        };
        self.outcome.effect(Effect::PacketIn(Box::new(packet)));
        if controller.pause { Next::Freeze } else { Next::Go }
    }

    fn resubmit(&mut self, port: Option<u16>, table: Option<u8>, original: bool) -> Next {
        let (table, input) = (table.unwrap_or(self.table), port.unwrap_or(self.in_port()));
        if !original {
            return self.table(table, input);
        }
        if !swap_original(&mut self.key) {
            return Next::Go;
        }
        let next = self.table(table, input);
        swap_original(&mut self.key);
        next
    }

    fn dec_ttl(&mut self, controllers: &[u16]) -> Next {
        if !has(&self.key, flow::Needs::Ip) {
            return Next::Go;
        }
        let ttl = self.key.get(Field::NwTtl);
        if ttl > 1 {
            self.key.set(Field::NwTtl, ttl - 1);
            return Next::Go;
        }
        for id in controllers {
            self.controller(&Controller { id: *id, reason: Reason::InvalidTtl, ..Controller::default() });
        }
        Next::Stop
    }

    fn learn(&mut self, learn: &Learn) {
        let flow = learned(learn, &self.key);
        self.uncached(Uncached::Learning);
        let room = self.around.learn(&flow, learn, self.in_port());
        if let Some(bit) = learn.result {
            write(&mut self.key, bit.field, u128::from(room) << bit.start, bit.mask());
        }
    }
}
