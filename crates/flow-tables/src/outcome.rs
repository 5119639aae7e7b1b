//! The outcome of one frame.
use std::ops::Range;
use std::sync::Arc;

use flow::{Action, Controller, Key, Sample};

use crate::fields::FRAME_WORDS;
use crate::lists::Memory;
use crate::segment::{Then, Waiting};
use crate::words::Consulted;
use crate::{Connection, Entry, HeaderWindow, Surroundings, Track};

/// The place of a frame's header window in an outcome: [`Outcome::header`] reads the bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderRange {
    range: Range<usize>,
    /// The length of the whole frame with this window.
    pub frame_bytes: usize,
    /// Whether the window may differ from the frame's own.
    pub is_changed: bool,
}

/// A frame that leaves by a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The port.
    pub port: u16,
    /// The queue of the port; 0 unless an action has set one.
    pub queue: u32,
    /// The number of bytes to which the frame is cut.
    pub cut: Option<u32>,
    /// The bytes that replace the given window.
    pub header: HeaderRange,
    /// The tunnel fields of the frame ([`Key::tunnel`]), for a port that is a tunnel.
    pub tunnel: Option<[u64; Key::TUNNEL_WORDS]>,
}

/// The remaining execution of a frame that waits for a controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Continuation {
    /// The stack, from its lowest entry.
    pub stack: Vec<u128>,
    /// The action set.
    pub action_set: Vec<Action>,
    /// The remaining actions, each with its table.
    pub rest: Vec<(u8, Vec<Action>)>,
}

/// A frame for a controller.
#[derive(Clone, Debug)]
pub struct PacketIn {
    /// The fields of the action `controller`.
    pub controller: Controller,
    /// The table of the flow.
    pub table: u8,
    /// The cookie of the flow.
    pub cookie: u64,
    /// The frame's header window.
    pub header: HeaderRange,
    /// The frame's fields.
    pub key: Key,
    /// The remaining execution, if the frame waits.
    pub continuation: Option<Box<Continuation>>,
}

/// An effect of a frame other than a delivery.
#[derive(Clone, Debug)]
pub enum Effect {
    /// A frame is sent to a controller.
    PacketIn(Box<PacketIn>),
    /// The frame is forwarded by a switch that learns addresses.
    Normal(HeaderRange),
    /// The frame is sampled for IPFIX. The domain and the point are numbers.
    Sample(Sample, HeaderRange),
}

/// The reason why a frame was dropped although its flows forward it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overrun {
    /// The frame visited more than [`crate::MAX_RESUBMITS`] tables, or more than [`crate::MAX_WAITING`] copies of it wait.
    Resubmits,
    /// The frame had more than [`crate::MAX_DEPTH`] nested visits to earlier tables.
    Depth,
    /// The stack has grown too large.
    Stack,
    /// The frame's header would be longer than a window with two tags. Or labels of MPLS cannot be added or removed: the
    /// frame has no whole label, or is still to be cut into segments.
    Header,
    /// The frame would leave more than [`crate::MAX_DELIVERIES`] times.
    Deliveries,
}

/// The reason why the outcome of a frame is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncached {
    /// A meter has dropped the frame.
    Meter,
    /// A controller gets the frame.
    Controller,
    /// The frame learns a flow, or ends the connection of one.
    Learning,
    /// Connection tracking was used while the stack or the action set was not empty. Or a limit was reached by a frame that
    /// was tracked, metered or measured before, or that segments of the frame share.
    Connection,
    /// The outcome is longer than a place of the cache.
    Long,
    /// A label of MPLS could not be added or removed.
    Label,
}

/// A step on the header window, repeated for frames with the same compared fields.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// The fields were written: the words of the frame's fields.
    Write([u64; FRAME_WORDS]),
    /// A copy was made.
    Copy,
    /// The window before the last copy was restored.
    Return,
    /// The tunnel fields of the delivery that follows.
    Tunnel([u64; Key::TUNNEL_WORDS]),
    /// The frame was delivered.
    Deliver { port: u16, queue: u32, cut: Option<u32> },
    /// The frame was given to a switch that learns addresses.
    Normal,
    /// A label was put in front, with this type.
    PushMpls(u16),
    /// The outermost label was removed, and this type written.
    PopMpls(u16),
    /// Connection tracking took the frame, or a copy of it that continues in a table.
    Track(Track, Option<Then>),
    /// This meter was asked, and let the frame pass.
    Meter(u32),
    /// The length was compared: whether the frame is larger than this number of bytes.
    Larger(u16, bool),
    /// An address translation or a change of labels was made. Its frame has these words: the steps that follow hold for such frames alone.
    Expect([u64; FRAME_WORDS]),
}

impl Step {
    /// Whether the steps that follow hold only for some of the frames with the same compared fields.
    pub(crate) fn is_guard(&self) -> bool {
        use Step::{Expect, Larger, Meter, PopMpls, PushMpls};
        matches!(self, Meter(_) | Larger(..) | Expect(_) | PushMpls(_) | PopMpls(_))
    }
}

/// What a segment has asked its surroundings: it is not asked again when the segment is executed once more.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a box would be allocated for each frame")]
pub(crate) enum Answer {
    /// Whether a meter lets the frame pass.
    Passes(bool),
    /// Connection tracking, and the frame behind it.
    Tracked(HeaderWindow, Connection),
}

/// The answers to a segment, in the order of its steps. [`Answers::repeat`] gives them to the next execution.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    all: Vec<Answer>,
    /// The next answer that is repeated.
    next: usize,
}

impl Answers {
    pub(crate) fn clear(&mut self) {
        self.all.clear();
        self.next = 0;
    }

    /// Adds an answer, which is not repeated before [`Answers::repeat`].
    pub(crate) fn push(&mut self, answer: Answer) {
        self.all.push(answer);
        self.next = self.all.len();
    }

    /// The answers count for the execution that follows.
    pub(crate) fn repeat(&mut self) {
        self.next = 0;
    }

    /// The next answer, if it is known.
    pub(crate) fn next(&mut self) -> Option<&Answer> {
        let answer = self.all.get(self.next)?;
        self.next += 1;
        Some(answer)
    }

    /// Tracks a frame, or repeats what became of it.
    pub(crate) fn track<S: Surroundings>(
        &mut self,
        track: &Track,
        window: &mut HeaderWindow,
        around: &mut S,
    ) -> Connection {
        match self.next() {
            Some(Answer::Tracked(after, connection)) => {
                window.clone_from(after);
                connection.clone()
            }
            _ => around.track(track, window),
        }
    }
}

/// How far an outcome is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    deliveries: usize,
    effects: usize,
    waiting: usize,
    visits: u32,
}

/// The text about the execution of a frame.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) text: String,
    /// The number of nested visits to tables.
    pub(crate) level: usize,
    /// The fields at the end.
    pub(crate) last: Option<Key>,
    /// For each segment, whether its outcome is kept.
    pub(crate) cached: Vec<String>,
}

/// The outcome of one frame. The caller reuses an outcome from frame to frame, so that its memory is reused.
#[derive(Debug, Default)]
pub struct Outcome {
    bytes: Vec<u8>,
    /// The deliveries, in the order of the actions.
    pub deliveries: Vec<Delivery>,
    /// The effects, in the order of the actions.
    pub effects: Vec<Effect>,
    /// The flows that the frame matched, and an entry for each look-up without a flow. A flow that matched several times is
    /// listed several times.
    pub hits: Vec<Arc<Entry>>,
    /// The limit that was reached, if one was: the frame is then dropped.
    pub overrun: Option<Overrun>,
    /// The reason why a cache does not keep the outcome of the last segment; `None` if it may be kept.
    pub uncached: Option<Uncached>,
    /// The steps of the present segment.
    pub(crate) steps: Vec<Step>,
    /// The fields before each of these steps that tracks a copy.
    pub(crate) keys: Vec<Key>,
    /// The frames that go on when the present segment has ended, the next one last.
    pub(crate) waiting: Vec<Waiting>,
    /// The visits to tables in all segments so far, behind the first one. [`Outcome::clear`] does not reset them.
    pub(crate) visits: u32,
    /// What the present segment has asked.
    pub(crate) answers: Answers,
    /// The bits on which the present segment depends.
    pub(crate) consulted: Consulted,
    pub(crate) trace: Option<Trace>,
    /// The memory of the lists of an execution.
    pub(crate) memory: Memory,
}

impl Outcome {
    /// An empty outcome with a trace.
    pub(crate) fn traced() -> Self {
        Self { trace: Some(Trace::default()), ..Self::default() }
    }

    /// Adds a line to the trace, if there is one.
    pub(crate) fn note(&mut self, indent: usize, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            let indent = 4 * trace.level + indent;
            trace.text += &format!("{:indent$}{}\n", "", line());
        }
    }

    pub(crate) fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::PacketIn(_) => _ = self.uncached.get_or_insert(Uncached::Controller),
            // There is no collector that a repeated outcome would miss.
            Effect::Sample(..) => {}
            Effect::Normal(_) => self.steps.push(Step::Normal),
        }
        self.effects.push(effect);
    }

    pub(crate) fn deliver(&mut self, delivery: Delivery) {
        let Delivery { port, queue, cut, tunnel, .. } = delivery;
        self.steps.extend(tunnel.map(Step::Tunnel));
        self.steps.push(Step::Deliver { port, queue, cut });
        self.deliveries.push(delivery);
    }

    /// Counts the frame in the flows that it matched.
    pub(crate) fn count(&self, frame_bytes: usize, mut read_ms: impl FnMut() -> u64) {
        let mut now_ms = None;
        for entry in &self.hits {
            let now_ms = match entry.may_idle() {
                false => 0,
                true => *now_ms.get_or_insert_with(&mut read_ms),
            };
            entry.count(frame_bytes, now_ms);
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.deliveries.clear();
        self.effects.clear();
        self.hits.clear();
        self.waiting.clear();
        self.begin_segment();
    }

    /// Forgets the data of the former segment.
    pub(crate) fn begin_segment(&mut self) {
        self.overrun = None;
        self.uncached = None;
        self.steps.clear();
        self.keys.clear();
    }

    pub(crate) fn progress(&self) -> Progress {
        Progress {
            deliveries: self.deliveries.len(),
            effects: self.effects.len(),
            waiting: self.waiting.len(),
            visits: self.visits,
        }
    }

    /// Takes back what the present segment has done. Its answers count for the next execution.
    pub(crate) fn go_back(&mut self, to: Progress) {
        self.deliveries.truncate(to.deliveries);
        self.effects.truncate(to.effects);
        self.waiting.truncate(to.waiting);
        self.visits = to.visits;
        self.answers.repeat();
    }

    /// The bytes that replace the frame's window.
    pub fn header(&self, header: &HeaderRange) -> &[u8] {
        &self.bytes[header.range.clone()]
    }

    /// Stores a header window. A window that is the same as the last one takes no memory.
    pub(crate) fn keep(&mut self, window: &HeaderWindow) -> HeaderRange {
        let bytes = window.bytes();
        let from = self.bytes.len().checked_sub(bytes.len()).filter(|from| self.bytes[*from..] == *bytes);
        let from = from.unwrap_or_else(|| {
            self.bytes.extend_from_slice(bytes);
            self.bytes.len() - bytes.len()
        });
        HeaderRange {
            range: from..from + bytes.len(),
            frame_bytes: window.frame_bytes(),
            is_changed: window.is_changed(),
        }
    }
}
