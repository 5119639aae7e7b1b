//! All rings of a connection, and which of their queues are attached.
use frame::Side;
use vhost_user::vring::VringBase;

use super::ring::{self, Kind, Ring, RingQueue};
use super::tokens::CONTROL;
use crate::PortContext;

/// Rings that the front-end has started, by their index.
pub(super) struct Rings {
    list: Vec<Option<Ring>>,
    /// Pairs that the driver uses, if it has said so on a control queue.
    used_pairs: Option<u16>,
    /// A queue was to be had back and was not there, though it had not stopped.
    lost: Option<(u16, Side)>,
}

/// Which queues are to be attached. Sinks of disabled rings are not while others are enabled: frames are spread over
/// the sinks that are attached, and would be lost in those.
#[derive(Clone, Copy)]
struct Wanted {
    used_pairs: Option<u16>,
    /// A sink is there whose ring is enabled, and whose pair the driver uses.
    any_used: bool,
}

impl Wanted {
    fn is_used(self, ring: &Ring) -> bool {
        match ring.kind {
            Kind::Data(pair, Side::ToGuest) => ring.enabled && self.used_pairs.is_none_or(|used| pair < used),
            _ => false,
        }
    }

    fn attached(self, ring: &Ring) -> bool {
        match ring.kind {
            Kind::Data(_, Side::FromGuest) => true,
            Kind::Data(_, Side::ToGuest) => self.is_used(ring) || !self.any_used,
            Kind::Control => false,
        }
    }
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

    pub fn get(&self, index: usize) -> Option<&Ring> {
        self.list.get(index)?.as_ref()
    }

    pub fn get_mut(&mut self, index: usize) -> Option<&mut Ring> {
        self.list.get_mut(index)?.as_mut()
    }

    /// The started ring of this kind.
    pub fn find(&self, kind: Kind) -> Option<usize> {
        self.iter().find(|(_, ring)| ring.kind == kind).map(|(index, _)| index)
    }

    fn wanted(&self) -> Wanted {
        let wanted = Wanted { used_pairs: self.used_pairs, any_used: true };
        Wanted { any_used: self.iter().any(|(_, ring)| wanted.is_used(ring)), ..wanted }
    }

    /// Takes the queue of a ring out, from wherever it is; its last batch released.
    pub fn take(&mut self, index: usize, context: &mut dyn PortContext) -> Option<RingQueue> {
        self.take_all(&[index], context).pop().map(|(_, running)| running)
    }

    /// Takes the queues of several rings out, with their indices.
    pub fn take_all(&mut self, indices: &[usize], context: &mut dyn PortContext) -> Vec<(usize, RingQueue)> {
        let (mut taken, mut attached, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for &index in indices {
            let Some(ring) = self.get_mut(index) else { continue };
            match (ring.parked.take(), ring.kind) {
                (Some(running), _) => taken.push((index, running)),
                (None, Kind::Data(pair, side)) => {
                    attached.push(index);
                    places.push((pair, side));
                }
                (None, Kind::Control) => {}
            }
        }
        if places.is_empty() {
            return taken;
        }
        for ((index, place), queue) in attached.into_iter().zip(&places).zip(context.detach(&places)) {
            if let Some(running) = queue.and_then(RingQueue::from_workers) {
                taken.push((index, running));
            } else if let Some(ring) = self.get_mut(index)
                && !ring.broken
                && ring.stopped_at.get().is_none()
            {
                self.lost.get_or_insert(*place);
            }
        }
        taken
    }

    /// A worker that was given up while this port asked for a queue has it: nobody else says so.
    pub fn take_lost(&mut self) -> Option<(u16, Side)> {
        self.lost.take()
    }

    /// Puts queues back to work, or aside.
    pub fn put_all(&mut self, queues: Vec<(usize, RingQueue)>, context: &mut dyn PortContext) {
        let wanted = self.wanted();
        let mut attached = Vec::new();
        for (index, running) in queues {
            let Some(ring) = self.get_mut(index) else { continue };
            match ring.kind {
                Kind::Data(pair, _) if wanted.attached(ring) => match running.for_workers() {
                    Ok(queue) => attached.push((pair, queue)),
                    Err(running) => ring.parked = Some(running),
                },
                _ => ring.parked = Some(running),
            }
        }
        if !attached.is_empty() {
            context.attach(attached);
        }
    }

    /// Changes the queues of these rings between two bursts; nothing happens to those that do not run. A sink stays
    /// attached, so that no frame for it is lost.
    pub fn change(
        &mut self,
        indices: &[usize],
        context: &mut dyn PortContext,
        mut how: impl FnMut(usize, &mut RingQueue),
    ) {
        let mut others = Vec::new();
        for &index in indices {
            let Some(ring) = self.get_mut(index) else { continue };
            let is_changed = match (ring.kind, &ring.parked) {
                (Kind::Data(pair, Side::ToGuest), None) => context.change_sink(
                    pair,
                    Box::new(|sink| RingQueue::change_sink(sink, |running| how(index, running))),
                ),
                _ => false,
            };
            if !is_changed {
                others.push(index);
            }
        }
        let mut taken = self.take_all(&others, context);
        taken.iter_mut().for_each(|(index, running)| how(*index, running));
        self.put_all(taken, context);
    }

    /// The indices of all rings that are started.
    pub fn indices(&self) -> Vec<usize> {
        self.iter().map(|(index, _)| index).collect()
    }

    /// The indices of all started rings that lead to the guest.
    pub fn sinks(&self) -> Vec<usize> {
        let sinks = self.iter().filter(|(_, ring)| matches!(ring.kind, Kind::Data(_, Side::ToGuest)));
        sinks.map(|(index, _)| index).collect()
    }

    /// A ring has started.
    pub fn start(&mut self, index: usize, ring: Ring, running: RingQueue, context: &mut dyn PortContext) {
        self.list[index] = Some(ring);
        self.put_all(vec![(index, running)], context);
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
        self.change(&[index], context, |_, running| running.set_enabled(enabled));
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
        drop(self.take_all(&self.indices(), context));
        context.unwatch(CONTROL);
        self.list.iter_mut().for_each(|ring| *ring = None);
        self.used_pairs = None;
    }

    /// Takes all queues from the workers; what they hold is given back.
    pub fn park(&mut self, context: &mut dyn PortContext) {
        let taken = self.take_all(&self.indices(), context);
        self.park_all(taken);
        context.unwatch(CONTROL);
    }

    /// Puts them back to work, where another process did not go on with them.
    pub fn unpark(&mut self, context: &mut dyn PortContext) {
        self.change(&self.indices(), context, |_, running| {
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

    /// Attaches what is to be attached now, then puts aside what is not: frames find a queue all the while.
    fn settle(&mut self, context: &mut dyn PortContext) {
        let wanted = self.wanted();
        let others = |is_attached: bool| {
            let rings = self.iter().filter(move |(_, ring)| {
                ring.parked.is_none() == is_attached
                    && matches!(ring.kind, Kind::Data(..))
                    && wanted.attached(ring) != is_attached
            });
            rings.map(|(index, _)| index).collect::<Vec<_>>()
        };
        let (come, go) = (others(false), others(true));
        let parked = self.take_all(&come, context);
        self.put_all(parked, context);
        let taken = self.take_all(&go, context);
        self.park_all(taken);
    }

    fn park_all(&mut self, queues: Vec<(usize, RingQueue)>) {
        for (index, running) in queues {
            if let Some(ring) = self.get_mut(index) {
                ring.parked = Some(running);
            }
        }
    }
}
