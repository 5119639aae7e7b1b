//! Two ports that are each other's peer.
use std::io;
use std::sync::Arc;

use frame::{PairCounters, QueueCounters, QueueError, Side, Sink, Source};

use super::queue::{InMemorySink, InMemorySource, QueueOptions, queue};
use crate::{Port, PortContext, PortError, Token};

/// One of two joined ports: the other port receives what this one sends.
#[derive(Debug)]
pub struct InMemory {
    /// Queues that are not attached yet.
    ends: Vec<(InMemorySource, InMemorySink)>,
    counters: Vec<PairCounters>,
}

impl InMemory {
    /// Two ports with this many queue pairs each.
    ///
    /// # Errors
    /// The memory file of a queue cannot be made or mapped, or `eventfd` is refused, for example at the open-files
    /// limit.
    pub fn pair(queue_pairs: u16, options: QueueOptions) -> io::Result<(InMemory, InMemory)> {
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for _ in 0..queue_pairs {
            let (to_right, from_left) = queue(options)?;
            let (to_left, from_right) = queue(options)?;
            left.push((from_right, to_right));
            right.push((from_left, to_left));
        }
        Ok((InMemory::of(left), InMemory::of(right)))
    }

    /// A port of these queues: a source and a sink for each queue pair.
    pub fn of(ends: Vec<(InMemorySource, InMemorySink)>) -> InMemory {
        let both = |(source, sink): &(InMemorySource, InMemorySink)| PairCounters {
            from_guest: Arc::clone(source.counters()),
            to_guest: Arc::clone(sink.counters()),
        };
        let counters = ends.iter().map(both).collect();
        InMemory { ends, counters }
    }
}

impl Port for InMemory {
    fn queue_pairs(&self) -> u16 {
        self.counters.len() as u16
    }

    fn describe(&self) -> String {
        format!("in memory, {} queue pairs", self.counters.len())
    }

    fn counters(&self, pair: u16, side: Side) -> Option<Arc<QueueCounters>> {
        Some(Arc::clone(self.counters.get(usize::from(pair))?.of(side)))
    }

    fn start(&mut self, context: &mut dyn PortContext) -> Result<(), PortError> {
        for (pair, (source, sink)) in (0..).zip(self.ends.drain(..)) {
            context.attach_source(pair, Box::new(source));
            context.attach_sink(pair, Box::new(sink));
        }
        Ok(())
    }

    fn ready(&mut self, _token: Token, _board: &mut dyn PortContext) -> Result<(), PortError> {
        Ok(())
    }

    fn stopped(&mut self, pair: u16, _side: Side, why: QueueError, context: &mut dyn PortContext) {
        context.log(&format_args!("in-memory queue pair {pair} stopped: {why}"));
    }

    fn end(&mut self, context: &mut dyn PortContext) {
        for pair in 0..self.queue_pairs() {
            context.detach_source(pair);
            context.detach_sink(pair);
        }
    }
}
