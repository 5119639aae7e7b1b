//! The sinks that one worker uses, by the port they lead to.
use std::collections::BTreeSet;
use std::io;
use std::ops::{AddAssign, Range};
use std::sync::Arc;
use std::time::Instant;

use flow_tables::Tables;
use frame::{Frame, FrameBatch, LARGEST_FRAME_BYTES, OwnFrames, QueueError, Sink, WINDOW_BYTES};
use pipeline::{Key, TablesId, WorkerFlows, flow};

use crate::edits::{Edits, SLOTS};
use crate::flow_sets::MAX_TABLES;
use crate::heartbeat::Heartbeat;
use crate::mailbox::FormerFlows;
use crate::shared_queue::SharedQueue;
use crate::worker_counters::WorkerCounters;
use crate::{PortId, QueueId};

/// One sink, and the frames of the burst at hand that go there.
struct TxQueue {
    id: QueueId,
    /// The sink, which is this worker's alone or is shared if there are more workers than sinks.
    queue: Arc<SharedQueue<dyn Sink>>,
    which: Vec<u16>,
    /// Indices in [`Edits`] of frames that go to this sink with another head.
    edited: [Vec<u16>; SLOTS],
}

/// The result of a burst; `None` if the sink is gone, or another worker does not release it.
#[inline]
fn accept(
    queue: &SharedQueue<dyn Sink>,
    id: QueueId,
    heartbeat: &Heartbeat,
    batch: &FrameBatch,
    which: &[u16],
) -> Option<Result<(), QueueError>> {
    let mut claimed = queue.claim()?;
    if heartbeat.is_abandoned() {
        return None;
    }
    let sink = claimed.as_deref_mut()?;
    heartbeat.enter_sink(id);
    let result = sink.accept(batch, which);
    heartbeat.leave_sink();
    if result.is_err() {
        *claimed = None;
    }
    Some(result)
}

/// The queue of a frame among `queues` queues: all frames of one flow take the same queue.
#[inline(always)]
fn queue_of(frame: &Frame<'_>, queues: usize, key: &Key) -> usize {
    ((u128::from(flow::of_frame(frame, key)) * queues as u128) >> 64) as usize
}

/// The counts of a burst after it was given to sinks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Frames given to a sink. The sink has counted whether it dropped them.
    pub accepted: u64,
    /// Frames whose sink no longer exists.
    pub gone: u64,
}

impl AddAssign for Sent {
    #[inline(always)]
    fn add_assign(&mut self, more: Sent) {
        self.accepted += more.accepted;
        self.gone += more.gone;
    }
}

/// All sinks of one worker.
pub(crate) struct TxQueues {
    /// The sinks of each port.
    ports: Vec<Vec<TxQueue>>,
    /// Queues with frames of the present burst.
    touched: Vec<(u16, u16)>,
    /// Queues with edited frames, and the slot of these in `edits`.
    touched_edited: Vec<(u16, u16, u16)>,
    pub edits: Edits,
    /// 0, 1, 2, ...
    all: Vec<u16>,
    burst: usize,
    /// Sinks that have stopped and are not reported yet.
    stopped: Vec<(QueueId, QueueError)>,
    counters: Arc<WorkerCounters>,
    /// Flow tables, by their number.
    pub flows: Vec<Option<Box<WorkerFlows>>>,
    /// Frames that programs have held and that go on; `None` while they are forwarded.
    pub held: Option<Box<OwnFrames>>,
}

impl TxQueues {
    /// Sinks for ports `0 .. ports` and bursts of this many frames, used by the worker with these counters.
    ///
    /// # Errors
    /// The memory for edited frames cannot be made or mapped.
    pub fn new(ports: usize, burst: usize, counters: Arc<WorkerCounters>) -> io::Result<Self> {
        Ok(TxQueues {
            edits: Edits::new(burst)?,
            // One datagram at least, in fragments with headers of a window each.
            held: Some(Box::new(OwnFrames::new(burst, LARGEST_FRAME_BYTES + 2 * WINDOW_BYTES * burst)?)),
            touched_edited: Vec::new(),
            ports: (0..ports).map(|_| Vec::new()).collect(),
            touched: Vec::new(),
            all: (0..=u16::MAX).take(burst).collect(),
            burst,
            stopped: Vec::new(),
            counters,
            flows: (0..MAX_TABLES).map(|_| None).collect(),
        })
    }

    /// Replaces, adds or removes the flow tables of this number.
    pub fn set_flows(&mut self, id: TablesId, tables: Option<Arc<Tables>>) -> FormerFlows {
        let place = &mut self.flows[usize::from(id.0)];
        match (place.as_mut(), tables) {
            (Some(flows), Some(tables)) => FormerFlows::Tables(flows.set_tables(tables, Instant::now())),
            (None, Some(tables)) => {
                *place = Some(Box::new(WorkerFlows::new(tables)));
                FormerFlows::None
            }
            (_, None) => {
                let mut former = place.take();
                former.iter_mut().for_each(|flows| flows.flush(Instant::now()));
                former.map_or(FormerFlows::None, FormerFlows::All)
            }
        }
    }

    /// Adds sinks that are not present yet.
    pub fn add(&mut self, sinks: impl Iterator<Item = (QueueId, Arc<SharedQueue<dyn Sink>>)>) {
        let mut ports = BTreeSet::new();
        for (id, queue) in sinks {
            let which = Vec::with_capacity(self.burst);
            if let Some(tx_queues) = self.ports.get_mut(usize::from(id.port.0)) {
                let edited = std::array::from_fn(|_| Vec::with_capacity(self.burst));
                tx_queues.push(TxQueue { id, queue, which, edited });
                ports.insert(usize::from(id.port.0));
            }
        }
        for port in ports {
            // Thus a flow takes the same pair in whatever order the pairs were attached.
            self.ports[port].sort_by_key(|tx_queue| tx_queue.id.pair);
        }
        let queues = self.ports.iter().map(Vec::len).sum();
        self.touched.reserve(queues);
        self.touched_edited.reserve(queues * SLOTS);
    }

    pub fn remove(&mut self, id: QueueId) {
        if let Some(tx_queues) = self.ports.get_mut(usize::from(id.port.0)) {
            tx_queues.retain(|tx_queue| tx_queue.id != id);
        }
    }

    /// Queues frames for a port, each for the sink of its flow. Returns false if the port has no running queue
    /// here.
    #[inline(always)]
    pub fn push(&mut self, to: PortId, frames: Range<u16>, batch: &FrameBatch, key: &Key) -> bool {
        let tx_queues = &mut self.ports[usize::from(to.0)];
        let mut push = |tx_queues: &mut [TxQueue], at: usize, frames: Range<u16>| {
            let which = &mut tx_queues[at].which;
            if which.is_empty() {
                self.touched.push((to.0, at as u16));
            }
            which.extend(frames);
        };
        match tx_queues.len() {
            0 => return false,
            1 => push(tx_queues, 0, frames),
            n => {
                for index in frames {
                    let at = queue_of(&batch.frame(index.into()), n, key);
                    push(tx_queues, at, index..index + 1);
                }
            }
        }
        true
    }

    /// As [`TxQueues::push`], for the frames of the last edit.
    pub fn push_edited(&mut self, to: PortId, key: &Key) -> bool {
        let tx_queues = &mut self.ports[usize::from(to.0)];
        let (slot, which) = self.edits.last();
        let batch = self.edits.batch(slot);
        let queues = tx_queues.len();
        for index in which {
            let at = if queues > 1 { queue_of(&batch.frame((*index).into()), queues, key) } else { 0 };
            let Some(tx_queue) = tx_queues.get_mut(at) else { return false };
            let edited = &mut tx_queue.edited[slot];
            if edited.is_empty() {
                self.touched_edited.push((to.0, at as u16, slot as u16));
            }
            edited.push(*index);
        }
        queues > 0
    }

    /// Hands over all queued frames: one call for each sink, in the order in which the frames came.
    #[inline]
    pub fn flush(&mut self, batch: &FrameBatch) -> Sent {
        let mut sent = Sent::default();
        for (port, at) in self.touched.drain(..) {
            let tx_queue = &mut self.ports[usize::from(port)][usize::from(at)];
            let frames = tx_queue.which.len() as u64;
            match accept(&tx_queue.queue, tx_queue.id, &self.counters.heartbeat, batch, &tx_queue.which) {
                Some(Ok(())) => sent.accepted += frames,
                Some(Err(why)) => {
                    sent.accepted += frames;
                    self.stopped.push((tx_queue.id, why));
                }
                None => sent.gone += frames,
            }
            tx_queue.which.clear();
        }
        if !self.touched_edited.is_empty() {
            sent += self.flush_edited();
        }
        self.edits.clear();
        self.take_out_stopped();
        sent
    }

    #[inline(never)] // the code for frames that go as they are is not to be longer for it
    fn flush_edited(&mut self) -> Sent {
        let mut sent = Sent::default();
        for (port, at, slot) in self.touched_edited.drain(..) {
            let tx_queue = &mut self.ports[usize::from(port)][usize::from(at)];
            let (batch, which) = (self.edits.batch(slot.into()), &mut tx_queue.edited[usize::from(slot)]);
            let frames = which.len() as u64;
            let result = accept(&tx_queue.queue, tx_queue.id, &self.counters.heartbeat, batch, which);
            which.clear();
            match result {
                Some(Ok(())) => sent.accepted += frames,
                Some(Err(why)) => {
                    sent.accepted += frames;
                    self.stopped.push((tx_queue.id, why));
                }
                None => sent.gone += frames,
            }
        }
        sent
    }

    /// Hands all frames to a port that has exactly one queue here, without reading any. `None` if the port has
    /// several queues or none.
    #[inline]
    pub fn send_all(&mut self, batch: &FrameBatch, to: PortId) -> Option<Sent> {
        let [tx_queue] = &mut self.ports[usize::from(to.0)][..] else { return None };
        let frames = batch.len();
        let which = self.all.get(..frames)?;
        let frames = frames as u64;
        let sent = match accept(&tx_queue.queue, tx_queue.id, &self.counters.heartbeat, batch, which) {
            Some(Ok(())) => Sent { accepted: frames, gone: 0 },
            Some(Err(why)) => {
                self.stopped.push((tx_queue.id, why));
                Sent { accepted: frames, gone: 0 }
            }
            None => Sent { accepted: 0, gone: frames },
        };
        self.take_out_stopped();
        Some(sent)
    }

    #[inline]
    fn take_out_stopped(&mut self) {
        for i in 0..self.stopped.len() {
            let id = self.stopped[i].0;
            self.remove(id);
        }
    }

    /// Sinks that stopped since the last call. They are removed already.
    #[inline(always)]
    pub fn stopped(&mut self) -> impl Iterator<Item = (QueueId, QueueError)> + '_ {
        self.stopped.drain(..)
    }
}
