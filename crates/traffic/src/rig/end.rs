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

/// Sets the queue of a pair, and extends the list if necessary.
pub(super) fn place<T>(queues: &mut Vec<Option<T>>, pair: u16, queue: T) {
    let at = usize::from(pair);
    if queues.len() <= at {
        queues.resize_with(at + 1, || None);
    }
    queues[at] = Some(queue);
}

/// Takes the queue of a pair out.
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
        self.numbered_sources().map(|(_, source)| source)
    }

    /// Queues from which frames come, each with its queue pair. The numbers can have gaps, because queues may have
    /// stopped.
    #[inline]
    pub fn numbered_sources(&mut self) -> impl Iterator<Item = (u16, &mut Box<dyn Source>)> {
        (0..).zip(&mut self.sources).filter_map(|(pair, source)| Some((pair, source.as_mut()?)))
    }

    /// The `index`th of the queues to which frames can be sent, with its queue pair.
    #[inline]
    pub fn numbered_sink(&mut self, index: usize) -> Option<(u16, &mut Box<dyn Sink>)> {
        (0..).zip(&mut self.sinks).filter_map(|(pair, sink)| Some((pair, sink.as_mut()?))).nth(index)
    }

    /// Both queues of one pair, if both run.
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

#[cfg(test)]
mod tests {
    use port::in_memory::{QueueOptions, queue};

    use super::*;

    #[test]
    fn queues_keep_their_pairs_numbers_whichever_run() {
        let (sink, source) = queue(QueueOptions::default()).unwrap();
        let mut end = End::default();
        place(&mut end.sinks, 1, Box::new(sink) as Box<dyn Sink>);
        place(&mut end.sources, 1, Box::new(source) as Box<dyn Source>);
        assert_eq!(end.numbered_sources().map(|(pair, _)| pair).collect::<Vec<_>>(), [1]);
        assert_eq!(end.numbered_sink(0).map(|(pair, _)| pair), Some(1));
        assert!(end.numbered_sink(1).is_none());
    }
}
