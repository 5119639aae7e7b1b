//! All rings of a connection, and which of their queues are attached.
use vhost_user::vring::VringBase;

use super::ring::{self, Kind, Ring, RingQueue};
use super::tokens::CONTROL;
use crate::{PortContext, Side};

/// Rings that the front-end has started, by their index.
pub(super) struct Rings {
    list: Vec<Option<Ring>>,
    /// Pairs that the driver uses, if it has said so on a control queue.
    used_pairs: Option<u16>,
    /// A queue was to be had back and was not there, though it had not stopped.
    lost: Option<(u16, Side)>,
}

impl Rings {
    /// Room for so many.
    pub fn new(count: usize) -> Self {
        Rings { list: (0..count).map(|_| None).collect(), used_pairs: None, lost: None }
    }

    /// Those that are started.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Ring)> {
        self.list.iter().enumerate().filter_map(|(index, ring)| Some((index, ring.as_ref()?)))
    }

    pub fn get_mut(&mut self, index: usize) -> Option<&mut Ring> {
        self.list.get_mut(index)?.as_mut()
    }

    /// The started ring of this kind.
    pub fn find(&self, kind: Kind) -> Option<usize> {
        self.iter().find(|(_, ring)| ring.kind == kind).map(|(index, _)| index)
    }

    /// Whether the ring's queue is to be attached. Sinks of disabled rings are not while others are
    /// enabled: frames are spread over the sinks there are, and would be lost in those.
    fn wants_attaching(&self, ring: &Ring) -> bool {
        let is_used = |ring: &Ring| match ring.kind {
            Kind::Data(pair, Side::ToGuest) => ring.enabled && self.used_pairs.is_none_or(|used| pair < used),
            _ => false,
        };
        match ring.kind {
            Kind::Data(_, Side::FromGuest) => true,
            Kind::Data(_, Side::ToGuest) => is_used(ring) || !self.iter().any(|(_, other)| is_used(other)),
            Kind::Control => false,
        }
    }

    /// Takes the queue of a ring out, from wherever it is; its last batch released.
    pub fn take(&mut self, index: usize, context: &mut dyn PortContext) -> Option<RingQueue> {
        let ring = self.get_mut(index)?;
        let kind = ring.kind;
        let taken = ring.parked.take().or_else(|| RingQueue::detach(kind, context));
        let has_stopped = ring.broken || ring.stopped_at.get().is_some();
        if taken.is_none()
            && !has_stopped
            && let Kind::Data(pair, side) = kind
        {
            self.lost.get_or_insert((pair, side));
        }
        taken
    }

    /// A worker that was given up while this port asked for a queue has it: nobody else says so.
    pub fn take_lost(&mut self) -> Option<(u16, Side)> {
        self.lost.take()
    }

    /// Puts it back to work, or aside.
    pub fn put(&mut self, index: usize, running: RingQueue, context: &mut dyn PortContext) {
        let Some(ring) = self.list.get(index).and_then(Option::as_ref) else { return };
        let running =
            if self.wants_attaching(ring) { running.attach(ring.kind, context) } else { Some(running) };
        if let Some(ring) = self.get_mut(index) {
            ring.parked = running;
        }
    }

    /// Changes a queue between two bursts; nothing happens if it does not run. A sink stays attached, so that no frame
    /// for it is lost.
    pub fn change(&mut self, index: usize, context: &mut dyn PortContext, how: impl FnOnce(&mut RingQueue)) {
        let Some(ring) = self.get_mut(index) else { return };
        let mut how = Some(how);
        if let (Kind::Data(pair, Side::ToGuest), None) = (ring.kind, &ring.parked)
            && context.change_sink(pair, Box::new(|sink| RingQueue::change_sink(sink, how.take())))
        {
            return;
        }
        if let (Some(mut running), Some(how)) = (self.take(index, context), how) {
            how(&mut running);
            self.put(index, running, context);
        }
    }

    /// Attaches a queue or puts it aside, as is wanted now.
    fn arrange(&mut self, index: usize, context: &mut dyn PortContext) {
        if let Some(running) = self.take(index, context) {
            self.put(index, running, context);
        }
    }

    /// Changes all queues that run.
    pub fn change_all(&mut self, context: &mut dyn PortContext, mut how: impl FnMut(&mut RingQueue)) {
        for index in 0..self.list.len() {
            self.change(index, context, &mut how);
        }
    }

    /// A ring has started.
    pub fn start(&mut self, index: usize, ring: Ring, running: RingQueue, context: &mut dyn PortContext) {
        self.list[index] = Some(ring);
        self.put(index, running, context);
        self.settle(context);
    }

    /// A ring ends.
    pub fn stop(&mut self, index: usize, context: &mut dyn PortContext) -> (Option<RingQueue>, Option<Ring>) {
        let running = self.take(index, context);
        let ring = self.list.get_mut(index).and_then(Option::take);
        if ring.as_ref().is_some_and(|ring| ring.kind == Kind::Control) {
            context.unwatch(CONTROL);
        }
        self.settle(context);
        (running, ring)
    }

    /// Lets data pass a ring, or not.
    pub fn enable(&mut self, index: usize, enabled: bool, context: &mut dyn PortContext) {
        if let Some(ring) = self.get_mut(index) {
            ring.enabled = enabled;
        }
        self.change(index, context, |running| running.set_enabled(enabled));
        self.settle(context);
    }

    /// Pairs that the driver uses; `None`: those that are enabled.
    pub fn used_pairs(&self) -> Option<u16> {
        self.used_pairs
    }

    /// Sets that.
    pub fn use_pairs(&mut self, pairs: Option<u16>, context: &mut dyn PortContext) {
        self.used_pairs = pairs;
        self.settle(context);
    }

    /// Stops all rings.
    pub fn clear(&mut self, context: &mut dyn PortContext) {
        for index in 0..self.list.len() {
            drop(self.take(index, context));
        }
        context.unwatch(CONTROL);
        self.list.iter_mut().for_each(|ring| *ring = None);
        self.used_pairs = None;
    }

    /// Takes all queues from the workers; what they hold is given back.
    pub fn park(&mut self, context: &mut dyn PortContext) {
        for index in 0..self.list.len() {
            let running = self.take(index, context);
            if let Some(ring) = self.get_mut(index) {
                ring.parked = running;
            }
        }
        context.unwatch(CONTROL);
    }

    /// Puts them back to work, where another process did not go on with them.
    pub fn unpark(&mut self, context: &mut dyn PortContext) {
        self.change_all(context, |running| {
            if let RingQueue::Sink(sink) = running {
                sink.note_start();
            }
        });
    }

    /// Where the rings of parked queues stand; of one that stopped by itself, where it did.
    pub fn bases(&mut self) -> Vec<(usize, VringBase)> {
        let mut bases = Vec::new();
        for (index, ring) in self.list.iter_mut().enumerate() {
            let Some(ring) = ring else { continue };
            let position = match &mut ring.parked {
                Some(running) => Some(running.queue().position()),
                None => ring.stopped_at.get(),
            };
            bases.push((index, position.map_or(ring.config.base, ring::base)));
        }
        bases
    }

    /// Attaches what is to be attached now, and puts aside what is not.
    fn settle(&mut self, context: &mut dyn PortContext) {
        for index in 0..self.list.len() {
            let Some(ring) = &self.list[index] else { continue };
            let is_attached = ring.parked.is_none();
            if matches!(ring.kind, Kind::Data(..)) && is_attached != self.wants_attaching(ring) {
                self.arrange(index, context);
            }
        }
    }
}
