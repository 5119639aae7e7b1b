//! Where the frames of a burst go.
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use frame::{DropReason, Frame, FrameBatch, QueueCounters};
use virtio::net::MacAddress;

use crate::PortId;
use crate::keyed::Key;
use crate::policing::Policer;
use crate::rate_limit::RateLimit;
use crate::table::{MacTable, Refused};
use crate::tx_queues::{Sent, TxQueues};
use crate::worker_counters::Outcome;

/// Where the frames of one port go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// By address, among these other ports.
    Learn(Vec<PortId>),
    /// All to one port: a wire, which neither looks at addresses nor learns them.
    Wire(PortId),
    /// Nothing goes anywhere, and nobody is learned behind it.
    Nowhere,
}

/// What holds for the frames of one port.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub port: PortId,
    pub route: Route,
    /// Source addresses that its frames may have; `None` for any. Sorted.
    pub addresses: Option<Vec<MacAddress>>,
    /// Longest frame in bytes; of those that are still to be segmented, longest segment without headers.
    pub max_frame_bytes: Option<u32>,
    /// Whether 01:80:c2:00:00:00 to 0f are forwarded.
    pub link_local: bool,
    /// How many of its frames may go to several others in a second.
    pub floods: Option<Arc<RateLimit>>,
    /// How many of its frames may come at all.
    pub policer: Option<Arc<Policer>>,
}

/// What forwarding needs beside the burst.
pub(crate) struct Forwarder<'a> {
    pub table: &'a MacTable,
    pub key: &'a Key,
    pub rules: &'a Rules,
    pub tx_queues: &'a mut TxQueues,
    /// Of the queue that the burst came from: what the switch drops is counted there.
    pub counters: &'a QueueCounters,
}

#[derive(Clone, Copy)]
enum Egress {
    Port(PortId),
    Flood,
    Nowhere,
}

impl From<Refused> for DropReason {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Owned => DropReason::Spoofed,
            Refused::MovesTooOften => DropReason::MovesTooOften,
        }
    }
}

impl Rules {
    fn is_plain(&self) -> bool {
        self.addresses.is_none() && self.max_frame_bytes.is_none() && self.policer.is_none()
    }

    /// Whether a frame may come from this port at all.
    #[inline(always)]
    fn admit(&self, frame: &Frame<'_>) -> Result<(), DropReason> {
        let source = frame.source();
        // No station has a group address (IEEE 802.3 §3.2.3), and a bridge that learns it sends all of the
        // group's frames to one port.
        if source.is_group() {
            return Err(DropReason::Spoofed);
        }
        if let Some(allowed) = &self.addresses
            && allowed.binary_search(&source).is_err()
        {
            return Err(DropReason::Spoofed);
        }
        match self.max_frame_bytes {
            Some(max) if wire_bytes(frame) > max as usize => Err(DropReason::TooLong),
            _ => Ok(()),
        }
    }
}

/// Length on the wire, as far as it is known: headers are found when a frame is segmented, not before.
fn wire_bytes(frame: &Frame<'_>) -> usize {
    let whole = frame.len_bytes();
    frame.offload().segmentation.map_or(whole, |gso| whole.min(usize::from(gso.segment_bytes.get())))
}

/// 01:80:c2:00:00:00 to 0f belong to the link and are not forwarded (IEEE 802.1Q §8.6.3).
fn is_link_local(address: MacAddress) -> bool {
    address.to_u64() & !0xf == 0x0180_c200_0000
}

impl Forwarder<'_> {
    /// Gives every frame to the sinks it goes to, or counts why not.
    #[inline]
    pub fn forward(&mut self, batch: &FrameBatch) -> Outcome {
        if let Route::Wire(to) = self.rules.route
            && self.rules.is_plain()
            && let Some(sent) = self.tx_queues.send_all(batch, to)
        {
            return self.outcome(sent, 0, 0);
        }
        self.forward_each(batch)
    }

    fn forward_each(&mut self, batch: &FrameBatch) -> Outcome {
        let (mut flooded, mut flood_copies) = (0, 0);
        let mut last_seen = None;
        let admitted =
            self.rules.policer.as_deref().map_or(batch.len(), |policer| self.police(policer, batch));
        let mut at = 0;
        while at < admitted {
            let frame = batch.frame(at);
            // What differs from frame to frame of such a run is their length.
            let run = if self.rules.max_frame_bytes.is_some() { 1 } else { batch.same_address_run(at) };
            let run = run.min(admitted - at);
            let frames = at as u16..(at + run) as u16;
            at += run;
            let dropped = |reason| self.counters.dropped(reason, run as u64);
            match self.decide(&frame, &mut last_seen) {
                Ok(Egress::Port(port)) if self.tx_queues.push(port, frames.clone(), batch, self.key) => {}
                Ok(Egress::Port(_)) => dropped(DropReason::NotConnected),
                Ok(Egress::Nowhere) => dropped(DropReason::NowhereToGo),
                Ok(Egress::Flood) => {
                    let frames = self.limit_floods(frames);
                    let count = frames.len() as u64;
                    let receivers = if count > 0 { self.flood(frames, batch) } else { 0 };
                    flooded += if receivers > 0 { count } else { 0 };
                    flood_copies += receivers * count;
                }
                Err(reason) => dropped(reason),
            }
        }
        let sent = self.tx_queues.flush(batch);
        self.outcome(sent, flooded, flood_copies)
    }

    /// Where a frame goes, and all with the same addresses. `last_seen` is the last source that was learned of
    /// this burst.
    #[inline(always)]
    fn decide(&self, frame: &Frame<'_>, last_seen: &mut Option<MacAddress>) -> Result<Egress, DropReason> {
        match &self.rules.route {
            Route::Wire(to) => {
                if !self.rules.is_plain() {
                    self.rules.admit(frame)?;
                }
                Ok(Egress::Port(*to))
            }
            Route::Nowhere => Ok(Egress::Nowhere),
            Route::Learn(_) => {
                self.rules.admit(frame)?;
                if *last_seen != Some(frame.source()) {
                    self.table.learn(frame.source(), self.rules.port).map_err(DropReason::from)?;
                    *last_seen = Some(frame.source());
                }
                Ok(self.target(frame.destination()))
            }
        }
    }

    #[inline]
    fn target(&self, destination: MacAddress) -> Egress {
        if destination.is_group() {
            return match is_link_local(destination) && !self.rules.link_local {
                true => Egress::Nowhere,
                false => Egress::Flood,
            };
        }
        match self.table.lookup(destination) {
            Some(port) if port == self.rules.port => Egress::Nowhere,
            Some(port) => Egress::Port(port),
            None => Egress::Flood,
        }
    }

    /// How many of the burst may come; the others, which are its last, are counted.
    #[inline(never)]
    fn police(&self, policer: &Policer, batch: &FrameBatch) -> usize {
        let admitted = policer.admit(batch, Instant::now());
        if admitted < batch.len() {
            self.counters.dropped(DropReason::Policed, (batch.len() - admitted) as u64);
        }
        admitted
    }

    /// Those of the frames that may still go to everybody; the others are counted.
    fn limit_floods(&self, frames: Range<u16>) -> Range<u16> {
        let Some(floods) = &self.rules.floods else { return frames };
        let passed = floods.take(frames.len() as u64, Instant::now()) as u16;
        let refused = frames.len() as u64 - u64::from(passed);
        if refused > 0 {
            self.counters.dropped(DropReason::FloodLimit, refused);
        }
        frames.start..frames.start + passed
    }

    /// To all others that have a queue running, and how many these are; counted if there is none.
    fn flood(&mut self, frames: Range<u16>, batch: &FrameBatch) -> u64 {
        let Route::Learn(others) = &self.rules.route else { return 0 };
        let mut receivers = 0;
        for port in others {
            receivers += u64::from(self.tx_queues.push(*port, frames.clone(), batch, self.key));
        }
        if receivers == 0 {
            let none = others.is_empty();
            let reason = if none { DropReason::NowhereToGo } else { DropReason::NotConnected };
            self.counters.dropped(reason, frames.len() as u64);
        }
        receivers
    }

    fn outcome(&self, sent: Sent, flooded: u64, flood_copies: u64) -> Outcome {
        if sent.gone > 0 {
            self.counters.dropped(DropReason::NotConnected, sent.gone);
        }
        Outcome { flooded, flood_copies, copies: sent.accepted }
    }
}
