//! One flow of a table, its counters and its age.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use flow::{Action, Flow, Timeouts};

use crate::compared::of_actions;
use crate::words::Words;

/// The frames and bytes that a flow has counted, and the time of its last use.
#[derive(Debug, Default)]
pub struct Counters {
    packets: AtomicU64,
    bytes: AtomicU64,
    used_ms: AtomicU64,
}

impl Counters {
    /// The counters of a new flow.
    pub(crate) fn new(now_ms: u64) -> Arc<Self> {
        Arc::new(Self { used_ms: now_ms.into(), ..Self::default() })
    }

    /// The numbers of frames and bytes.
    pub fn get(&self) -> (u64, u64) {
        (self.packets.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// The time when the last frame was counted or the flow was added, in ms.
    pub fn used_ms(&self) -> u64 {
        self.used_ms.load(Ordering::Relaxed)
    }
}

/// A flow in its table.
#[derive(Debug)]
pub struct Entry {
    /// The flow.
    pub flow: Flow,
    /// The time when the flow was added, in ms.
    pub added_ms: u64,
    /// The input port of the frame that learned the flow; `None` for a controller's flow.
    pub learned_from: Option<u16>,
    /// The time when the flow was added, modified or learned again, in ms; its hard time begins then.
    modified_ms: AtomicU64,
    counters: Arc<Counters>,
    /// The bits that the actions read or write.
    touched: Words,
    /// The times that hold when a frame has ended its TCP connection, if the flow has such times.
    ended: Option<Timeouts>,
    has_ended: AtomicBool,
    /// Whether the flow has an idle time, or may get one.
    may_idle: bool,
}

/// The times of a flow whose connection has ended.
fn ended(flow: &Flow) -> Option<Timeouts> {
    let shorter = |now: u16, then: u16| match (now, then) {
        (now, 0) => now,
        (0, then) => then,
        (now, then) => now.min(then),
    };
    let Timeouts { idle, hard } = flow.actions.iter().find_map(|action| match action {
        Action::FinTimeout(timeouts) => Some(*timeouts),
        _ => None,
    })?;
    Some(Timeouts { idle: shorter(flow.timeouts.idle, idle), hard: shorter(flow.timeouts.hard, hard) })
}

impl Entry {
    /// A flow that is added now. The flow takes the counters of the flow that it replaces, if these are given.
    pub(crate) fn new(
        flow: Flow,
        learned_from: Option<u16>,
        now_ms: u64,
        counters: Option<Arc<Counters>>,
    ) -> Self {
        let counters = counters.unwrap_or_default();
        counters.used_ms.store(now_ms, Ordering::Relaxed);
        Self::at(flow, [now_ms, now_ms], learned_from, counters)
    }

    /// This flow with the actions of `flow` and with these counters.
    pub(crate) fn modified(&self, flow: Flow, now_ms: u64, counters: Arc<Counters>) -> Self {
        Self::at(flow, [self.added_ms, now_ms], self.learned_from, counters)
    }

    fn at(flow: Flow, times: [u64; 2], learned_from: Option<u16>, counters: Arc<Counters>) -> Self {
        let ([added_ms, modified_ms], ended) = (times, ended(&flow));
        let may_idle = flow.timeouts.idle != 0 || ended.is_some();
        let touched = Words::of(&of_actions(&flow.actions));
        let (modified_ms, has_ended) = (modified_ms.into(), AtomicBool::new(false));
        Self { flow, added_ms, learned_from, modified_ms, counters, ended, has_ended, may_idle, touched }
    }

    /// Counts a frame of this number of bytes.
    pub fn count(&self, frame_bytes: usize, now_ms: u64) {
        self.count_all(1, frame_bytes as u64, now_ms);
    }

    /// Counts frames with this number of bytes in all.
    pub(crate) fn count_all(&self, packets: u64, bytes: u64, now_ms: u64) {
        self.counters.packets.fetch_add(packets, Ordering::Relaxed);
        self.counters.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.counters.used_ms.fetch_max(now_ms, Ordering::Relaxed);
    }

    /// The bits that the actions read or write.
    pub(crate) fn touched(&self) -> &Words {
        &self.touched
    }

    /// The flow's counters.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// The time when the flow was added or modified, in ms.
    pub fn modified_ms(&self) -> u64 {
        self.modified_ms.load(Ordering::Relaxed)
    }

    /// Lets the idle and the hard time begin again.
    pub(crate) fn refresh(&self, now_ms: u64) {
        self.modified_ms.fetch_max(now_ms, Ordering::Relaxed);
        self.counters.used_ms.fetch_max(now_ms, Ordering::Relaxed);
        // As a flow that is added again, which has its own times.
        self.has_ended.store(false, Ordering::Relaxed);
    }

    /// The present idle and hard time.
    pub fn timeouts(&self) -> Timeouts {
        self.ended.filter(|_| self.has_ended.load(Ordering::Relaxed)).unwrap_or(self.flow.timeouts)
    }

    /// A frame has ended the flow's TCP connection: its times are shorter from here on.
    pub(crate) fn end_connection(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    /// Whether the flow has an idle time, or may get one.
    pub(crate) fn may_idle(&self) -> bool {
        self.may_idle
    }

    /// Whether the flow has an idle or a hard time, or may get one.
    pub(crate) fn is_timed(&self) -> bool {
        self.flow.timeouts != Timeouts::default() || self.ended.is_some()
    }

    /// Whether the flow's idle or hard time has passed.
    pub(crate) fn is_over(&self, now_ms: u64) -> bool {
        let over = |since: u64, seconds: u16| {
            seconds != 0 && now_ms.saturating_sub(since) >= u64::from(seconds) * 1000
        };
        let Timeouts { idle, hard } = self.timeouts();
        over(self.modified_ms(), hard) || over(self.counters.used_ms(), idle)
    }

    /// The flow in a trace: table, match, priority and cookie.
    pub(crate) fn title(&self) -> String {
        let flow = &self.flow;
        let wanted = match flow.wanted.to_string() {
            wanted if wanted.is_empty() => wanted,
            wanted => format!("{wanted}, "),
        };
        let cookie = if flow.cookie == 0 { String::new() } else { format!(", cookie {:#x}", flow.cookie) };
        format!("{:2}. {wanted}priority {}{cookie}", flow.table, flow.priority)
    }
}
