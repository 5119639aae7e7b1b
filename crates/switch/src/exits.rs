//! The sinks that one worker uses, by the port they lead to.
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use port::{Lending, QueueError, Sink};

use crate::keyed::Key;
use crate::{PortId, QueueId, flow};

/// A sink that several workers must use, for there are more of them than sinks; each claims it for a burst.
#[derive(Default)]
pub(crate) struct Claim(Mutex<Option<Box<dyn Sink>>>);

/// Attempts before the thread sleeps: a burst takes microseconds, unless its worker was preempted.
const CLAIM_SPINS: u32 = 2000;

impl Claim {
    pub fn new(sink: Box<dyn Sink>) -> Self {
        Claim(Mutex::new(Some(sink)))
    }

    fn claim(&self) -> MutexGuard<'_, Option<Box<dyn Sink>>> {
        for _ in 0..CLAIM_SPINS {
            match self.0.try_lock() {
                Ok(guard) => return guard,
                // A worker that panicked ends the switch by itself.
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the sink away from all who know it.
    pub fn take(&self) -> Option<Box<dyn Sink>> {
        self.claim().take()
    }
}

/// How a worker holds a sink.
pub(crate) enum Outlet {
    /// By itself: nothing is locked.
    Own(Box<dyn Sink>),
    /// With others.
    Shared(Arc<Claim>),
}

impl Outlet {
    /// What came of it; `None` if the sink stopped in another worker's hands.
    #[inline]
    fn accept(&mut self, lending: &Lending, which: &[u16]) -> Option<Result<(), QueueError>> {
        match self {
            Outlet::Own(sink) => Some(sink.accept(lending, which)),
            Outlet::Shared(claim) => {
                let mut sink = claim.claim();
                let result = sink.as_mut()?.accept(lending, which);
                if result.is_err() {
                    *sink = None;
                }
                Some(result)
            }
        }
    }
}

/// One sink, and the frames of the burst at hand that go there.
struct Exit {
    id: QueueId,
    outlet: Outlet,
    which: Vec<u16>,
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
#[derive(Default)]
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
}

impl Exits {
    /// For ports `0 .. ports` and bursts of this many frames.
    pub fn new(ports: usize, burst: usize) -> Self {
        Exits {
            ports: (0..ports).map(|_| Vec::new()).collect(),
            all: (0..=u16::MAX).take(burst).collect(),
            burst,
            ..Exits::default()
        }
    }

    pub fn add(&mut self, id: QueueId, outlet: Outlet) {
        let which = Vec::with_capacity(self.burst);
        if let Some(exits) = self.ports.get_mut(usize::from(id.port.0)) {
            exits.push(Exit { id, outlet, which });
            // The same flow takes the same pair whatever the order in which they were plugged in.
            exits.sort_by_key(|exit| exit.id.pair);
        }
        self.touched.reserve(self.ports.iter().map(Vec::len).sum());
    }

    pub fn remove(&mut self, id: QueueId) -> Option<Outlet> {
        let exits = self.ports.get_mut(usize::from(id.port.0))?;
        let at = exits.iter().position(|exit| exit.id == id)?;
        Some(exits.remove(at).outlet)
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
            match exit.outlet.accept(lending, &exit.which) {
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
        let handed = match exit.outlet.accept(lending, which) {
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
