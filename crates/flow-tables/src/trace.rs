//! Describes the execution of a frame as text, in the form of Open vSwitch's `ofproto/trace`.
use std::fmt::Write as _;

use flow::{Action, Field, Key, Match};

use crate::cache::{MAX_HITS, MAX_STEPS};
use crate::fields::has;
use crate::segment::Start;
use crate::{Delivery, Effect, HeaderWindow, Outcome, Surroundings, Tables, Uncached};

/// The fields of a frame, as a match. Registers and other metadata are left out where they are zero.
fn shown(key: &Key) -> Match {
    let mut shown = Match::ANY;
    for field in Field::ALL {
        let value = key.get(*field);
        let is_part =
            field.name().starts_with('x') || matches!(field, Field::VlanVid | Field::VlanPcp | Field::InPort);
        let is_inner = matches!(field, Field::VlanTpid | Field::InnerTpid | Field::InnerTci);
        let is_there = match field.needs() {
            flow::Needs::Nothing => value != 0 || matches!(field, Field::InPortOxm | Field::VlanTci),
            needs => has(key, needs),
        };
        if is_there && !is_part && !is_inner {
            shown.set(*field, value);
        }
    }
    shown
}

fn delivery(delivery: &Delivery) -> String {
    let mut text = delivery.port.to_string();
    if delivery.queue != 0 {
        let _ = write!(text, " (queue {})", delivery.queue);
    }
    if let Some(bytes) = delivery.cut {
        let _ = write!(text, " (cut to {bytes} bytes)");
    }
    text
}

fn effect(effect: &Effect) -> String {
    match effect {
        Effect::PacketIn(packet) => Action::Controller(Box::new(packet.controller.clone())).to_string(),
        Effect::Normal(_) => "NORMAL".to_owned(),
        Effect::Sample(sample, _) => Action::Sample(Box::new(*sample)).to_string(),
    }
}

/// The fields by which the cache tells frames apart: those of the frame when it comes, all of them behind `ct`.
fn compared(mask: &Key, is_first: bool) -> String {
    let mut named = Vec::new();
    let mut left = *mask;
    for field in Field::ALL {
        let is_there = !is_first || Field::FRAME_WORDS.contains(&field.place().0);
        let bits = if is_there { left.get(*field) } else { 0 };
        if bits != 0 {
            named.push(match bits == field.all_bits() {
                true => field.name().to_owned(),
                false => format!("{}/{bits:#x}", field.name()),
            });
            left.set(*field, 0);
        }
    }
    named.join(", ")
}

/// Whether the outcome of a segment with this number of flows is kept.
fn cached(outcome: &Outcome, flows: usize, compared: &str) -> String {
    let steps = outcome.steps.len();
    let why = match outcome.uncached.or((steps > MAX_STEPS || flows > MAX_HITS).then_some(Uncached::Long)) {
        None => return format!("frames with the same {compared} ({steps} steps, {flows} flows)"),
        Some(Uncached::Meter) => "a meter has dropped the frame",
        Some(Uncached::Controller) => "a controller gets each frame",
        Some(Uncached::Learning) => "each frame makes a flow, or ends the connection of one",
        Some(Uncached::Connection) => "more than the fields of the connection matters behind ct",
        Some(Uncached::Label) => "a label could not be added or removed",
        Some(Uncached::Long) => "the outcome is longer than a place of the cache",
    };
    format!("none: {why}")
}

impl Outcome {
    /// Notes that a tracked frame goes on.
    pub(crate) fn note_segment(&mut self, start: &Start) {
        if start.depth > 0 {
            let mut connection = Key::ZERO;
            connection.copy_words(&start.key, Field::CONNECTION_WORDS);
            self.note(0, || format!("\nTracked: {}, to table {}", shown(&connection), start.then.table));
        }
    }

    /// Notes the fields at the end of a segment, and whether its outcome is kept. `before` flows belong to earlier segments.
    pub(crate) fn end_of_trace(&mut self, key: &Key, tables: &Tables, before: usize) {
        let Some(mut trace) = self.trace.take() else { return };
        trace.last = Some(*key);
        let compared = compared(&self.consulted.among(tables.compared()), trace.cached.is_empty());
        trace.cached.push(cached(self, self.hits.len() - before, &compared));
        self.trace = Some(trace);
    }
}

impl Tables {
    /// Takes a frame through the tables and describes it: the tables that it visits, the actions, its fields at the
    /// end, the ports by which it leaves, and whether its outcome is kept. No flow counts the frame.
    pub fn trace<S: Surroundings>(
        &self,
        window: &[u8],
        frame_bytes: usize,
        metadata: &Key,
        around: &mut S,
    ) -> String {
        let mut outcome = Outcome::traced();
        let mut window = HeaderWindow::new(window, frame_bytes, self.max_tags());
        let mut before = *metadata;
        crate::fields::take_frame(&mut before, window.held());
        self.execute_window(&mut window, metadata, around, &mut outcome);
        let trace = outcome.trace.take().unwrap_or_default();
        let mut text = format!("Flow: {}\n\n{}\n", shown(&before), trace.text);
        let after = trace.last.filter(|after| *after != before);
        let after = after.map_or_else(|| "unchanged".to_owned(), |after| shown(&after).to_string());
        let _ = writeln!(text, "Final flow: {after}");
        let sent = outcome.effects.iter().map(effect).chain(outcome.deliveries.iter().map(delivery));
        let sent: Vec<_> = sent.collect();
        let _ = match outcome.overrun {
            Some(why) => writeln!(text, "Sent: nothing, because a limit was reached: {why:?}"),
            None if sent.is_empty() => writeln!(text, "Sent: nothing"),
            None => writeln!(text, "Sent: {}", sent.join(", ")),
        };
        for cached in trace.cached {
            let _ = writeln!(text, "Cache entry: {cached}");
        }
        text
    }
}
