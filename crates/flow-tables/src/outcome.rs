//! What becomes of one frame.
use std::ops::Range;
use std::sync::Arc;

use flow::{Action, Controller, Key, Sample};

use crate::Entry;

/// Which bytes of an outcome are a frame's header window: [`Outcome::header`] reads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderRange {
    range: Range<usize>,
    /// The length of the whole frame with this window.
    pub frame_bytes: usize,
}

/// A frame that leaves by a port.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The port.
    pub port: u16,
    /// The queue of the port; 0 unless an action has set one.
    pub queue: u32,
    /// The frame is cut to so many bytes.
    pub cut: Option<u32>,
    /// The bytes that replace the window that was given.
    pub header: HeaderRange,
    /// The fields at that time. A port of a tunnel reads those of the tunnel.
    pub key: Key,
}

/// What is left to do with a frame that waits for a controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Continuation {
    /// The stack, lowest first.
    pub stack: Vec<u128>,
    /// The action set.
    pub action_set: Vec<Action>,
    /// The actions that follow, each with its table.
    pub rest: Vec<(u8, Vec<Action>)>,
}

/// A frame for a controller.
#[derive(Clone, Debug)]
pub struct PacketIn {
    /// What the action says.
    pub controller: Controller,
    /// The table of the flow.
    pub table: u8,
    /// The cookie of the flow.
    pub cookie: u64,
    /// Its header window.
    pub header: HeaderRange,
    /// Its fields.
    pub key: Key,
    /// What is left to do, if it waits.
    pub continuation: Option<Box<Continuation>>,
}

/// What a frame causes besides deliveries.
#[derive(Clone, Debug)]
pub enum Effect {
    /// To a controller.
    PacketIn(Box<PacketIn>),
    /// Forwarded as a switch does that learns addresses.
    Normal(HeaderRange, Box<Key>),
    /// A sample for IPFIX. Domain and point are numbers.
    Sample(Box<Sample>, HeaderRange),
}

/// Why a frame was dropped in spite of its flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overrun {
    /// It visited more than [`crate::MAX_RESUBMITS`] tables.
    Resubmits,
    /// It visited earlier tables from within each other, more than [`crate::MAX_DEPTH`] deep.
    Depth,
    /// The stack has grown too large.
    Stack,
    /// It would leave more than [`crate::MAX_DELIVERIES`] times.
    Deliveries,
}

/// Why the outcome of a frame is not remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncached {
    /// The length of the frame was checked.
    Length,
    /// A meter was asked.
    Meter,
    /// A controller gets the frame.
    Controller,
    /// The frame makes a flow.
    Learning,
    /// Connection tracking was asked.
    Connection,
    /// The addresses that were learned decide.
    Normal,
    /// The frame is sampled.
    Sample,
    /// The outcome is longer than a place of the cache.
    Long,
}

/// What was done with the header window, for frames with the same fields.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The fields were written.
    Write(Box<Key>),
    /// A copy was made.
    Copy,
    /// The window before the last copy came back.
    Return,
    /// The frame left.
    Deliver(Box<Delivery>),
}

/// Text about a frame on its way.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) text: String,
    /// Tables that are visited from within each other.
    pub(crate) level: usize,
    /// The fields in the end.
    pub(crate) last: Option<Key>,
}

/// What becomes of one frame. It is kept from frame to frame, so that memory is reused.
#[derive(Debug, Default)]
pub struct Outcome {
    bytes: Vec<u8>,
    /// In the order of the actions.
    pub deliveries: Vec<Delivery>,
    /// In the order of the actions.
    pub effects: Vec<Effect>,
    /// Flows that the frame matched, each as often as it did.
    pub hits: Vec<Arc<Entry>>,
    /// A limit was reached: the frame is dropped.
    pub overrun: Option<Overrun>,
    /// Why a cache does not hold it; none if it may.
    pub uncached: Option<Uncached>,
    pub(crate) steps: Vec<Step>,
    pub(crate) trace: Option<Trace>,
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
        self.uncached.get_or_insert(match effect {
            Effect::PacketIn(_) => Uncached::Controller,
            Effect::Normal(..) => Uncached::Normal,
            Effect::Sample(..) => Uncached::Sample,
        });
        self.effects.push(effect);
    }

    pub(crate) fn deliver(&mut self, delivery: Delivery) {
        self.steps.push(Step::Deliver(Box::new(delivery.clone())));
        self.deliveries.push(delivery);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.deliveries.clear();
        self.effects.clear();
        self.hits.clear();
        self.overrun = None;
        self.uncached = None;
        self.steps.clear();
    }

    /// The bytes that replace the window of the frame.
    pub fn header(&self, header: &HeaderRange) -> &[u8] {
        &self.bytes[header.range.clone()]
    }

    /// Keeps a header window. One that is the same as the last takes no memory.
    pub(crate) fn keep(&mut self, bytes: &[u8], frame_bytes: usize) -> HeaderRange {
        let from = self.bytes.len().checked_sub(bytes.len()).filter(|from| self.bytes[*from..] == *bytes);
        let from = from.unwrap_or_else(|| {
            self.bytes.extend_from_slice(bytes);
            self.bytes.len() - bytes.len()
        });
        HeaderRange { range: from..from + bytes.len(), frame_bytes }
    }
}
