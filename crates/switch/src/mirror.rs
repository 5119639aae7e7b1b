//! A mirror: a port that receives copies of another port's traffic. The copies go to one port and nowhere else.
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use frame::{PairCounters, QueueCounters, QueueError, Side};
use port::{Port, PortContext, PortError, Token};

use crate::PortId;
use crate::copies::{Copied, CopiesId};

/// The token on which the mirror looks for new queues.
pub(crate) const LOOK: Token = Token(0);

/// The time between two checks for new queues: a new queue is mirrored with this delay.
const INTERVAL: Duration = Duration::from_millis(100);

/// The ports of a mirror.
pub(crate) struct Mirrored {
    pub from: PortId,
    pub to: PortId,
    /// The mirror's own port.
    pub by: PortId,
    pub copies: CopiesId,
}

pub(crate) struct Mirror {
    name: String,
    pairs: u16,
    copied: Receiver<Copied>,
    /// For each pair of the mirror: copies that were forwarded, and copies for which the ring had no room.
    counters: Vec<PairCounters>,
}

impl Mirror {
    pub fn new(from: &str, to: &str, pairs: u16, copied: Receiver<Copied>) -> Self {
        let counters = (0..2 * pairs).map(|_| Default::default()).collect();
        Mirror { name: format!("mirror of '{from}' to '{to}'"), pairs: 2 * pairs, copied, counters }
    }
}

impl Port for Mirror {
    fn queue_pairs(&self) -> u16 {
        self.pairs
    }

    fn describe(&self) -> String {
        self.name.clone()
    }

    fn counters(&self, pair: u16, side: Side) -> Option<Arc<QueueCounters>> {
        Some(Arc::clone(self.counters.get(usize::from(pair))?.of(side)))
    }

    fn start(&mut self, context: &mut dyn PortContext) -> Result<(), PortError> {
        self.ready(LOOK, context)
    }

    fn ready(&mut self, _token: Token, context: &mut dyn PortContext) -> Result<(), PortError> {
        while let Ok(Copied { pair, side, source, counters }) = self.copied.try_recv() {
            let own = mirror_pair(pair, side);
            let Some(place) = self.counters.get_mut(usize::from(own)) else { continue };
            // Forwarding counts on the source; copies that found no room are on the other side.
            let source = source.counting(Arc::clone(&place.from_guest));
            place.to_guest = counters;
            context.attach_source(own, Box::new(source));
        }
        context.after(LOOK, INTERVAL);
        Ok(())
    }

    fn stopped(&mut self, pair: u16, _side: Side, why: QueueError, context: &mut dyn PortContext) {
        context.log(&format_args!("{}: queue {pair} stopped: {why}", self.name));
    }

    fn end(&mut self, context: &mut dyn PortContext) {
        for pair in 0..self.pairs {
            context.detach_source(pair);
        }
    }
}

/// A queue's place in a mirror: the two directions of a pair are neighbours.
fn mirror_pair(pair: u16, side: Side) -> u16 {
    2 * pair + u16::from(side == Side::ToGuest)
}
