//! The sinks that one worker uses, by the port they lead to.
use std::ops::Range;
use std::sync::Arc;

use port::{Lending, QueueError, Sink};

use crate::heartbeat::Heartbeat;
use crate::keyed::Key;
use crate::slot::Slot;
use crate::worker_counters::WorkerCounters;
use crate::{PortId, QueueId, flow};

/// One sink, and the frames of the burst at hand that go there.
struct Exit {
    id: QueueId,
    /// This worker's alone, or shared with others where there are more of them than sinks.
    slot: Arc<Slot<dyn Sink>>,
    which: Vec<u16>,
}

/// What came of a burst; `None` if the sink is gone, or another worker does not give it back.
#[inline]
fn accept(
    slot: &Slot<dyn Sink>,
    id: QueueId,
    heartbeat: &Heartbeat,
    lending: &Lending,
    which: &[u16],
) -> Option<Result<(), QueueError>> {
    let mut claimed = slot.claim()?;
    if heartbeat.is_abandoned() {
        return None;
    }
    let sink = claimed.as_deref_mut()?;
    heartbeat.enter_sink(id);
    let result = sink.accept(lending, which);
    heartbeat.leave_sink();
    if result.is_err() {
        *claimed = None;
    }
    Some(result)
}

/// What became of a burst at its receivers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Handed {
    /// Frames that a sink was given; it has counted what became of them.
    pub accepted: u64,
    /// Frames whose sink is gone.
    pub gone: u64,
}

/// All sinks of one worker.
pub(crate) struct Exits {
    /// By port.
    ports: Vec<Vec<Exit>>,
    /// Exits that have frames of the burst at hand.
    touched: Vec<(u16, u16)>,
    /// 0, 1, 2, ...
    all: Vec<u16>,
    burst: usize,
    /// Sinks that stopped, not yet reported.
    stopped: Vec<(QueueId, QueueError)>,
    counters: Arc<WorkerCounters>,
}

impl Exits {
    /// For ports `0 .. ports` and bursts of this many frames, in the hands of the worker with these counters.
    pub fn new(ports: usize, burst: usize, counters: Arc<WorkerCounters>) -> Self {
        Exits {
            ports: (0..ports).map(|_| Vec::new()).collect(),
            touched: Vec::new(),
            all: (0..=u16::MAX).take(burst).collect(),
            burst,
            stopped: Vec::new(),
            counters,
        }
    }

    /// Adds a sink, or replaces it.
    pub fn add(&mut self, id: QueueId, slot: Arc<Slot<dyn Sink>>) {
        self.remove(id);
        let which = Vec::with_capacity(self.burst);
        if let Some(exits) = self.ports.get_mut(usize::from(id.port.0)) {
            exits.push(Exit { id, slot, which });
            // The same flow takes the same pair whatever the order in which they were plugged in.
            exits.sort_by_key(|exit| exit.id.pair);
        }
        self.touched.reserve(self.ports.iter().map(Vec::len).sum());
    }

    pub fn remove(&mut self, id: QueueId) {
        if let Some(exits) = self.ports.get_mut(usize::from(id.port.0)) {
            exits.retain(|exit| exit.id != id);
        }
    }

    /// Gives frames to a port, each to the queue of its flow. False if the port has no queue running here.
    #[inline(always)]
    pub fn push(&mut self, to: PortId, frames: Range<u16>, lending: &Lending, key: &Key) -> bool {
        let exits = &mut self.ports[usize::from(to.0)];
        let mut push = |exits: &mut [Exit], at: usize, frames: Range<u16>| {
            let which = &mut exits[at].which;
            if which.is_empty() {
                self.touched.push((to.0, at as u16));
            }
            which.extend(frames);
        };
        match exits.len() {
            0 => return false,
            1 => push(exits, 0, frames),
            n => {
                for index in frames {
                    let hash = flow::hash(lending.frame(index.into()).head(), key);
                    push(exits, ((u128::from(hash) * n as u128) >> 64) as usize, index..index + 1);
                }
            }
        }
        true
    }

    /// Hands over what was pushed: one call for each sink, in the order in which the frames came.
    #[inline]
    pub fn hand_over(&mut self, lending: &Lending) -> Handed {
        let mut handed = Handed::default();
        for (port, at) in self.touched.drain(..) {
            let exit = &mut self.ports[usize::from(port)][usize::from(at)];
            let frames = exit.which.len() as u64;
            match accept(&exit.slot, exit.id, &self.counters.heartbeat, lending, &exit.which) {
                Some(Ok(())) => handed.accepted += frames,
                Some(Err(why)) => {
                    handed.accepted += frames;
                    self.stopped.push((exit.id, why));
                }
                None => handed.gone += frames,
            }
            exit.which.clear();
        }
        self.take_out_stopped();
        handed
    }

    /// Hands all frames to a port that has one queue here, without a look at any of them; `None` if it has
    /// several or none.
    #[inline]
    pub fn hand_over_all(&mut self, lending: &Lending, to: PortId) -> Option<Handed> {
        let [exit] = &mut self.ports[usize::from(to.0)][..] else { return None };
        let frames = lending.len();
        let which = self.all.get(..frames)?;
        let frames = frames as u64;
        let handed = match accept(&exit.slot, exit.id, &self.counters.heartbeat, lending, which) {
            Some(Ok(())) => Handed { accepted: frames, gone: 0 },
            Some(Err(why)) => {
                self.stopped.push((exit.id, why));
                Handed { accepted: frames, gone: 0 }
            }
            None => Handed { accepted: 0, gone: frames },
        };
        self.take_out_stopped();
        Some(handed)
    }

    #[inline]
    fn take_out_stopped(&mut self) {
        for i in 0..self.stopped.len() {
            let id = self.stopped[i].0;
            self.remove(id);
        }
    }

    /// Sinks that stopped since the last call; they are out already.
    #[inline(always)]
    pub fn stopped(&mut self) -> impl Iterator<Item = (QueueId, QueueError)> + '_ {
        self.stopped.drain(..)
    }
}
