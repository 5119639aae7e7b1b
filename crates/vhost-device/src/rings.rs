//! All rings of a connection, and which of their queues are attached.
use vhost_user::vring::VringBase;

use crate::Context as _;
use crate::device::{Device, ParkedQueue, RingQueue, RingSet};
use crate::ring::{self, Ring};
use crate::tokens;

/// Rings that the front-end has started, by their index.
pub(crate) struct Rings<D: Device> {
    list: Vec<Option<Ring<D>>>,
    /// A queue that was requested from a worker and not returned, although it had not stopped.
    lost: Option<D::Kind>,
}

impl<D: Device> Rings<D> {
    /// An empty list with room for `count` rings.
    pub fn new(count: usize) -> Self {
        Rings { list: (0..count).map(|_| None).collect(), lost: None }
    }

    /// The started rings, with their indices.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Ring<D>)> {
        self.list.iter().enumerate().filter_map(|(index, ring)| Some((index, ring.as_ref()?)))
    }

    pub fn get(&self, index: usize) -> Option<&Ring<D>> {
        self.list.get(index)?.as_ref()
    }

    pub fn get_mut(&mut self, index: usize) -> Option<&mut Ring<D>> {
        self.list.get_mut(index)?.as_mut()
    }

    /// The index of the started ring of this kind.
    pub fn find(&self, kind: D::Kind) -> Option<usize> {
        self.iter().find(|(_, ring)| ring.kind == kind).map(|(index, _)| index)
    }

    /// The indices of started rings that the control thread serves.
    pub fn served_here(&self) -> Vec<usize> {
        let served = self.iter().filter(|(_, ring)| D::is_served_here(ring.kind));
        served.map(|(index, _)| index).collect()
    }

    /// Which started rings have their queue with the workers, by the device.
    fn wanted(&self, device: &D) -> Vec<bool> {
        let rings: Vec<(D::Kind, bool)> = self.iter().map(|(_, ring)| (ring.kind, ring.enabled)).collect();
        let mut wanted = vec![false; self.list.len()];
        for (index, ring) in self.iter() {
            wanted[index] =
                !D::is_served_here(ring.kind) && device.is_attached((ring.kind, ring.enabled), &rings);
        }
        wanted
    }

    /// Takes the queue of a ring, from a worker or parked, after its last batch was released.
    pub fn take(&mut self, index: usize, context: &mut D::Context<'_>) -> Option<D::Queue> {
        self.take_all(&[index], context).pop().map(|(_, running)| running)
    }

    /// Takes the queues of several rings out, with their indices.
    pub fn take_all(&mut self, indices: &[usize], context: &mut D::Context<'_>) -> Vec<(usize, D::Queue)> {
        let (mut taken, mut attached, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
        for &index in indices {
            let Some(ring) = self.get_mut(index) else { continue };
            match ring.parked.take() {
                Some(running) => taken.push((index, running)),
                None if D::is_served_here(ring.kind) => {}
                None => {
                    attached.push(index);
                    kinds.push(ring.kind);
                }
            }
        }
        if kinds.is_empty() {
            return taken;
        }
        for ((index, kind), queue) in attached.into_iter().zip(&kinds).zip(D::detach(&kinds, context)) {
            if let Some(running) = queue {
                taken.push((index, running));
            } else if let Some(ring) = self.get_mut(index)
                && !ring.broken
                && ring.stopped_at.get().is_none()
            {
                self.lost.get_or_insert(*kind);
            }
        }
        taken
    }

    /// A queue that an abandoned worker kept when this device requested it; no other event reports it.
    pub fn take_lost(&mut self) -> Option<D::Kind> {
        self.lost.take()
    }

    /// Attaches queues, or parks them.
    pub fn put_all(&mut self, queues: Vec<(usize, D::Queue)>, device: &D, context: &mut D::Context<'_>) {
        let wanted = self.wanted(device);
        let mut attached = Vec::new();
        for (index, running) in queues {
            let Some(ring) = self.get_mut(index) else { continue };
            match wanted[index] {
                true => attached.push((ring.kind, running)),
                false => ring.parked = Some(running),
            }
        }
        if !attached.is_empty() {
            D::attach(attached, context);
        }
    }

    /// The indices of all rings that are started.
    pub fn indices(&self) -> Vec<usize> {
        self.iter().map(|(index, _)| index).collect()
    }

    /// Adds a ring that has started.
    pub fn start(
        &mut self,
        index: usize,
        ring: Ring<D>,
        running: D::Queue,
        device: &D,
        context: &mut D::Context<'_>,
    ) {
        self.list[index] = Some(ring);
        self.put_all(vec![(index, running)], device, context);
        self.settle(device, context);
    }

    /// A ring ends.
    pub fn stop(
        &mut self,
        index: usize,
        device: &D,
        context: &mut D::Context<'_>,
    ) -> (Option<D::Queue>, Option<Ring<D>>) {
        let running = self.take(index, context);
        let ring = self.list.get_mut(index).and_then(Option::take);
        if ring.as_ref().is_some_and(|ring| D::is_served_here(ring.kind)) {
            context.unwatch(tokens::kick(index));
        }
        self.settle(device, context);
        (running, ring)
    }

    /// Enables or disables a ring.
    pub fn enable(&mut self, index: usize, enabled: bool, device: &D, context: &mut D::Context<'_>) {
        if let Some(ring) = self.get_mut(index) {
            ring.enabled = enabled;
        }
        self.change(&[index], device, context, &mut |_, running| running.set_enabled(enabled));
        self.settle(device, context);
    }

    /// Stops all rings.
    pub fn clear(&mut self, context: &mut D::Context<'_>) {
        drop(self.take_all(&self.indices(), context));
        self.unwatch_kicks(context);
        self.list.iter_mut().for_each(|ring| *ring = None);
    }

    /// Takes all queues from the workers, after these have given back their chains.
    pub fn park(&mut self, context: &mut D::Context<'_>) {
        let taken = self.take_all(&self.indices(), context);
        self.park_all(taken);
        self.unwatch_kicks(context);
    }

    fn unwatch_kicks(&self, context: &mut D::Context<'_>) {
        self.served_here().into_iter().for_each(|index| context.unwatch(tokens::kick(index)));
    }

    /// Attaches all queues again, because another process did not take them over.
    pub fn unpark(&mut self, device: &D, context: &mut D::Context<'_>) {
        self.change(&self.indices(), device, context, &mut |_, running| D::resumed(running));
    }

    /// The positions of the rings of parked queues; for a queue that stopped by itself, the position at which it did.
    pub fn bases(&mut self) -> Vec<(usize, VringBase)> {
        let mut bases = Vec::new();
        for (index, ring) in self.list.iter_mut().enumerate() {
            let Some(ring) = ring else { continue };
            let position = match &mut ring.parked {
                Some(running) => Some(running.ring_queue().queue().position()),
                None => ring.stopped_at.get(),
            };
            bases.push((index, position.map_or(ring.config.base, ring::base)));
        }
        bases
    }

    fn park_all(&mut self, queues: Vec<(usize, D::Queue)>) {
        for (index, running) in queues {
            if let Some(ring) = self.get_mut(index) {
                ring.parked = Some(running);
            }
        }
    }
}

impl<D: Device> RingSet<D> for Rings<D> {
    fn kinds(&self) -> Vec<(usize, D::Kind)> {
        self.iter().map(|(index, ring)| (index, ring.kind)).collect()
    }

    /// Changes the queues of these rings between two bursts; nothing happens to those that do not run. A queue that its
    /// device can change where it is stays attached, so that nothing for it is lost.
    fn change(
        &mut self,
        places: &[usize],
        device: &D,
        context: &mut D::Context<'_>,
        how: &mut dyn FnMut(usize, &mut dyn RingQueue),
    ) {
        let mut others = Vec::new();
        for &index in places {
            let Some(ring) = self.get_mut(index) else { continue };
            let is_changed =
                ring.parked.is_none() && D::change(ring.kind, context, &mut |running| how(index, running));
            if !is_changed {
                others.push(index);
            }
        }
        let mut taken = self.take_all(&others, context);
        taken.iter_mut().for_each(|(index, running)| how(*index, running.ring_queue()));
        self.put_all(taken, device, context);
    }

    /// Attaches the queues that must be attached now, then parks the others: frames find a queue all the time.
    fn settle(&mut self, device: &D, context: &mut D::Context<'_>) {
        let wanted = self.wanted(device);
        let others = |is_attached: bool| {
            let rings = self.iter().filter(|(index, ring)| {
                ring.parked.is_none() == is_attached
                    && !D::is_served_here(ring.kind)
                    && wanted[*index] != is_attached
            });
            rings.map(|(index, _)| index).collect::<Vec<_>>()
        };
        let (come, go) = (others(false), others(true));
        let parked = self.take_all(&come, context);
        self.put_all(parked, device, context);
        let taken = self.take_all(&go, context);
        self.park_all(taken);
    }
}
