//! Two ports of one process that are the ends of one cable, so that two networks of a switch reach each other.
//!
//! Both ports name the same cable. While both are there, each has a queue to the other. A port whose cable has no other
//! end has no queue. All control sides of a process run on one thread, so ends find each other without waiting.
mod cable;

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use frame::{PairCounters, QueueCounters, QueueError, Side};
use rustix::event::{EventfdFlags, eventfd};

use self::cable::{End, Found};
use crate::spec::{Spec, SpecError};
use crate::{Interest, Port, PortContext, PortError, SharedFd, Token};

/// The only queue pair.
const PAIR: u16 = 0;
/// The other end has come or gone.
const WAKE: Token = Token(0);

/// `patch:CABLE`, without options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchOptions {
    /// The name of the cable. Two ports of one process may name it.
    pub cable: String,
}

impl TryFrom<Spec> for PatchOptions {
    type Error = SpecError;

    fn try_from(spec: Spec) -> Result<Self, SpecError> {
        spec.options.finish("patch")?;
        Ok(PatchOptions { cable: spec.target })
    }
}

/// One end of a cable as a port of one queue pair.
#[derive(Debug)]
pub struct Patch {
    cable: String,
    counters: PairCounters,
    end: Option<End>,
    is_joined: bool,
}

impl Patch {
    /// A port at the end of this cable, which is not plugged in before the port is started.
    pub fn new(options: PatchOptions) -> Self {
        Patch { cable: options.cable, counters: PairCounters::default(), end: None, is_joined: false }
    }

    /// Takes the queues to an end that has come, and gives up those to an end that has gone.
    fn look(&mut self, context: &mut dyn PortContext) {
        let Some(Found { is_cut, queues }) = self.end.as_ref().map(End::look) else { return };
        if is_cut {
            self.detach(context);
        }
        if let Some((source, sink)) = queues {
            context.attach_source(PAIR, Box::new(source.counting(Arc::clone(&self.counters.from_guest))));
            context.attach_sink(PAIR, Box::new(sink.counting(Arc::clone(&self.counters.to_guest))));
            self.is_joined = true;
        }
    }

    fn detach(&mut self, context: &mut dyn PortContext) {
        context.detach_source(PAIR);
        context.detach_sink(PAIR);
        self.is_joined = false;
    }

    fn plug_in(&mut self, context: &mut dyn PortContext) -> io::Result<()> {
        let waker = SharedFd::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let end = End::plug_in(&self.cable, waker.clone())?;
        context.watch(WAKE, &waker, Interest::Readable)?;
        self.end = Some(end);
        Ok(())
    }
}

impl Port for Patch {
    fn queue_pairs(&self) -> u16 {
        1
    }

    fn describe(&self) -> String {
        let state = if self.is_joined { "connected" } else { "no other end" };
        format!("patch {}, {state}", self.cable)
    }

    fn counters(&self, pair: u16, side: Side) -> Option<Arc<QueueCounters>> {
        (pair == PAIR).then(|| Arc::clone(self.counters.of(side)))
    }

    fn start(&mut self, context: &mut dyn PortContext) -> Result<(), PortError> {
        self.plug_in(context).map_err(|error| {
            let remedy = "name another cable, or raise the open-files limit (ulimit -n)";
            PortError::new(format!("plug into cable '{}'", self.cable), error, remedy)
        })?;
        self.look(context);
        Ok(())
    }

    fn ready(&mut self, _token: Token, context: &mut dyn PortContext) -> Result<(), PortError> {
        if let Some(end) = &self.end {
            let mut count = [0; 8];
            // The next call sees changes that happen during this one.
            let _ = rustix::io::read(end.waker().as_fd(), &mut count);
        }
        self.look(context);
        Ok(())
    }

    fn stopped(&mut self, _pair: u16, _side: Side, why: QueueError, context: &mut dyn PortContext) {
        context.log(&format_args!("patch {}: a queue stopped: {why}", self.cable));
    }

    fn end(&mut self, context: &mut dyn PortContext) {
        context.unwatch(WAKE);
        self.detach(context);
        self.end = None;
    }
}

#[cfg(test)]
mod tests;
