//! The latest events of a guest, which are kept while its host may ask for them.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use super::latency::Latency;
use crate::events::{Event, Kind, Pid, Trace};

/// The most events in memory, some MiB: two seconds at ten thousand events a second.
const MOST_EVENTS: usize = 20_000;
/// The most events in one answer, which goes through a serial port.
const MOST_ANSWERED: usize = 4_000;

/// A span of time, including both ends, on any clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Its beginning.
    pub from: u64,
    /// Its end.
    pub until: u64,
}

impl Span {
    /// The span of a latency, extended by `margin_ns` on both sides.
    pub fn around(latency: &Latency, margin_ns: u64) -> Self {
        let (from, until) =
            (latency.began.saturating_sub(margin_ns), latency.ended.saturating_add(margin_ns));
        Self { from, until }
    }

    fn has(&self, time: u64) -> bool {
        (self.from..=self.until).contains(&time)
    }

    /// Whether the events cover the whole latency.
    pub fn holds(&self, latency: &Latency) -> bool {
        self.has(latency.began) && self.has(latency.ended)
    }
}

/// Events in order, with their threads' names and without gaps.
#[derive(Clone, Debug, Default)]
pub struct Latest(VecDeque<(Event, String)>);

impl Latest {
    /// Keeps an event. If there is no room, the oldest is removed.
    pub fn keep(&mut self, event: Event, name: String) {
        if self.0.len() >= MOST_EVENTS {
            self.0.pop_front();
        }
        self.0.push_back((event, name));
    }

    /// Notes that events are missing here. All earlier events are discarded.
    pub fn gap(&mut self) {
        self.0.clear();
    }

    /// The events in some spans of time, and the names of their threads. If there are too many, only the latest.
    pub fn of(&self, spans: &[Span]) -> Trace {
        let is_wanted = |event: &&(Event, String)| spans.iter().any(|span| span.has(event.0.time));
        let mut found: Vec<&(Event, String)> =
            self.0.iter().rev().filter(is_wanted).take(MOST_ANSWERED).collect();
        // The kernel merges its CPUs' events nearly by time.
        found.sort_by_key(|(event, _)| event.time);
        let events: Vec<Event> = found.into_iter().map(|(event, _)| event.clone()).collect();
        let seen: BTreeSet<Pid> = events.iter().flat_map(threads).filter(|pid| *pid != 0).collect();
        // A thread that only begins to run in there says its name later.
        let named = self.0.iter().filter(|(event, _)| seen.contains(&event.pid));
        let names = named.map(|(event, name)| (event.pid, name.clone())).collect();
        Trace { events, names, ..Trace::default() }
    }
}

/// The threads that an event is about.
fn threads(event: &Event) -> impl Iterator<Item = Pid> {
    let others = match event.kind {
        Kind::Switch { previous, next, .. } => [Some(previous), Some(next)],
        Kind::Waking { target } => [Some(target), None],
        _ => [None, None],
    };
    std::iter::once(event.pid).chain(others.into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Context;

    fn event(time: u64, pid: Pid, kind: Kind) -> Event {
        Event { time, cpu: 0, pid, context: Context::Task, kind }
    }

    #[test]
    fn what_is_asked_for_is_told_with_its_threads_names() {
        let mut latest = Latest::default();
        let to = |next| Kind::Switch { previous: 0, runnable: true, next, priority: 120 };
        for (time, pid, kind, name) in [
            (10, 0, Kind::Timer, "idle"),
            (20, 0, to(42), "idle"),
            (30, 42, Kind::SyscallExit { number: 230 }, "sleep"),
            (40, 43, Kind::SyscallExit { number: 1 }, "make"),
            (50, 0, Kind::Timer, "idle"),
        ] {
            latest.keep(event(time, pid, kind), name.into());
        }
        let times = |trace: &Trace| trace.events.iter().map(|event| event.time).collect::<Vec<_>>();
        let trace = latest.of(&[Span { from: 15, until: 20 }, Span { from: 50, until: 90 }]);
        assert_eq!(times(&trace), [20, 50]);
        assert_eq!(trace.names, [(42, "sleep".to_owned())].into());
        assert!(latest.of(&[]).events.is_empty());
        latest.gap();
        latest.keep(event(60, 42, Kind::SyscallExit { number: 1 }), "sleep".into());
        assert_eq!(
            times(&latest.of(&[Span { from: 0, until: u64::MAX }])),
            [60],
            "nothing goes across a gap"
        );
    }

    #[test]
    fn memory_and_answers_are_bounded() {
        let mut latest = Latest::default();
        for time in 0..MOST_EVENTS as u64 + 7 {
            latest.keep(event(time, 0, Kind::Timer), "idle".into());
        }
        assert_eq!(latest.0.len(), MOST_EVENTS);
        let trace = latest.of(&[Span { from: 0, until: u64::MAX }]);
        assert_eq!(trace.events.len(), MOST_ANSWERED);
        assert_eq!(trace.events.last().unwrap().time, MOST_EVENTS as u64 + 6);
    }

    #[test]
    fn a_span_holds_a_latency_with_its_margins() {
        let latency = Latency { pid: 7, vcpu: 0, began: 100, ended: 200 };
        assert_eq!(Span::around(&latency, 30), Span { from: 70, until: 230 });
        assert!(Span::around(&latency, 0).holds(&latency));
        assert!(
            !Span { from: 101, until: 900 }.holds(&latency) && !Span { from: 0, until: 199 }.holds(&latency)
        );
    }
}
