//! One end of the path under test: the queues of one port.
use frame::{Sink, Source};

/// Both queues of a pair.
pub type Pair<'a> = (&'a mut Box<dyn Source>, &'a mut Box<dyn Sink>);

/// A port's running queues, by queue pair.
#[derive(Default)]
pub struct End {
    pub(super) sinks: Vec<Option<Box<dyn Sink>>>,
    pub(super) sources: Vec<Option<Box<dyn Source>>>,
}

/// Puts something in its place, which is made if need be.
pub(super) fn place<T>(queues: &mut Vec<Option<T>>, pair: u16, queue: T) {
    let at = usize::from(pair);
    if queues.len() <= at {
        queues.resize_with(at + 1, || None);
    }
    queues[at] = Some(queue);
}

/// Takes something out of its place.
pub(super) fn take<T>(queues: &mut [Option<T>], pair: u16) -> Option<T> {
    queues.get_mut(usize::from(pair))?.take()
}

impl End {
    /// Queues to which frames can be sent.
    pub fn sinks(&mut self) -> impl Iterator<Item = &mut Box<dyn Sink>> {
        self.sinks.iter_mut().flatten()
    }

    /// Queues from which frames come.
    pub fn sources(&mut self) -> impl Iterator<Item = &mut Box<dyn Source>> {
        self.sources.iter_mut().flatten()
    }

    /// Both queues of one pair, where both run.
    #[inline]
    pub fn pair(&mut self, pair: u16) -> Option<Pair<'_>> {
        let at = usize::from(pair);
        Some((self.sources.get_mut(at)?.as_mut()?, self.sinks.get_mut(at)?.as_mut()?))
    }

    /// Whether `pairs` queue pairs run in both directions.
    pub fn is_up(&self, pairs: u16) -> bool {
        let running = |count: usize| count >= usize::from(pairs);
        running(self.sinks.iter().flatten().count()) && running(self.sources.iter().flatten().count())
    }
}
