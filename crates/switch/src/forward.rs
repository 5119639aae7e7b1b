//! Where the frames of a burst go.
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use port::{DropReason, Frame, Lending, QueueCounters};
use virtio::net::MacAddress;

use crate::PortId;
use crate::exits::{Exits, Handed};
use crate::keyed::Key;
use crate::rate_limit::RateLimit;
use crate::table::{MacTable, Refused};

/// Where the frames of one port go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// By address, among these other ports.
    Learn(Vec<PortId>),
    /// All to one port: a wire, which neither looks at addresses nor learns them.
    Wire(PortId),
}

/// What holds for the frames of one port.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub port: PortId,
    pub route: Route,
    /// Source addresses that its frames may have; `None` for any. Sorted.
    pub addresses: Option<Vec<MacAddress>>,
    /// Longest frame in bytes; of those that are still to be cut, longest piece without headers.
    pub max_frame_bytes: Option<u32>,
    /// Whether 01:80:c2:00:00:00 to 0f are forwarded.
    pub link_local: bool,
    /// How many of its frames may go to several others in a second.
    pub floods: Option<Arc<RateLimit>>,
}

/// What became of a burst.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Frames that went to every other port.
    pub flooded: u64,
    /// How often they were given to sinks.
    pub flood_copies: u64,
    /// Frames given to sinks, once for each sink.
    pub copies: u64,
}

/// What forwarding needs beside the burst.
pub(crate) struct Forwarder<'a> {
    pub table: &'a MacTable,
    pub key: &'a Key,
    pub rules: &'a Rules,
    pub exits: &'a mut Exits,
    /// Of the queue that the burst came from: what the switch drops is counted there.
    pub counters: &'a QueueCounters,
}

#[derive(Clone, Copy)]
enum Target {
    Port(PortId),
    Everybody,
    Nobody,
}

impl From<Refused> for DropReason {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Owned => DropReason::Spoofed,
            Refused::Held => DropReason::MovesTooOften,
        }
    }
}

impl Rules {
    fn is_plain(&self) -> bool {
        self.addresses.is_none() && self.max_frame_bytes.is_none()
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

/// Length on the wire, as far as it is known: headers are found when a frame is cut, not before.
fn wire_bytes(frame: &Frame<'_>) -> usize {
    let whole = frame.len_bytes();
    frame.offload().segmentation.map_or(whole, |cut| whole.min(usize::from(cut.segment_bytes.get())))
}

/// 01:80:c2:00:00:00 to 0f belong to the link and are not forwarded (IEEE 802.1Q §8.6.3).
fn is_link_local(address: MacAddress) -> bool {
    address.to_u64() & !0xf == 0x0180_c200_0000
}

impl Forwarder<'_> {
    /// Gives every frame to the sinks it goes to, or counts why not.
    #[inline]
    pub fn forward(&mut self, lending: &Lending) -> Outcome {
        if let Route::Wire(to) = self.rules.route
            && self.rules.is_plain()
            && let Some(handed) = self.exits.hand_over_all(lending, to)
        {
            return self.outcome(handed, 0, 0);
        }
        self.forward_each(lending)
    }

    fn forward_each(&mut self, lending: &Lending) -> Outcome {
        let (mut flooded, mut flood_copies) = (0, 0);
        let mut heard = None;
        let mut at = 0;
        while at < lending.len() {
            let frame = lending.frame(at);
            // What differs from frame to frame of a conversation is their length.
            let run = if self.rules.max_frame_bytes.is_some() { 1 } else { lending.conversation(at) };
            let frames = at as u16..(at + run) as u16;
            at += run;
            let dropped = |reason| self.counters.dropped(reason, run as u64);
            match self.decide(&frame, &mut heard) {
                Ok(Target::Port(port)) if self.exits.push(port, frames.clone(), lending, self.key) => {}
                Ok(Target::Port(_)) => dropped(DropReason::NotConnected),
                Ok(Target::Nobody) => dropped(DropReason::NowhereToGo),
                Ok(Target::Everybody) => {
                    let frames = self.limit_floods(frames);
                    let count = frames.len() as u64;
                    let receivers = if count > 0 { self.flood(frames, lending) } else { 0 };
                    flooded += if receivers > 0 { count } else { 0 };
                    flood_copies += receivers * count;
                }
                Err(reason) => dropped(reason),
            }
        }
        let handed = self.exits.hand_over(lending);
        self.outcome(handed, flooded, flood_copies)
    }

    /// Where a frame goes, and all with the same addresses. `heard` is the last source that was learned of
    /// this burst.
    #[inline(always)]
    fn decide(&self, frame: &Frame<'_>, heard: &mut Option<MacAddress>) -> Result<Target, DropReason> {
        match &self.rules.route {
            Route::Wire(to) => {
                if !self.rules.is_plain() {
                    self.rules.admit(frame)?;
                }
                Ok(Target::Port(*to))
            }
            Route::Learn(_) => {
                self.rules.admit(frame)?;
                if *heard != Some(frame.source()) {
                    self.table.learn(frame.source(), self.rules.port).map_err(DropReason::from)?;
                    *heard = Some(frame.source());
                }
                Ok(self.target(frame.destination()))
            }
        }
    }

    #[inline]
    fn target(&self, destination: MacAddress) -> Target {
        if destination.is_group() {
            return match is_link_local(destination) && !self.rules.link_local {
                true => Target::Nobody,
                false => Target::Everybody,
            };
        }
        match self.table.lookup(destination) {
            Some(port) if port == self.rules.port => Target::Nobody,
            Some(port) => Target::Port(port),
            None => Target::Everybody,
        }
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
    fn flood(&mut self, frames: Range<u16>, lending: &Lending) -> u64 {
        let Route::Learn(others) = &self.rules.route else { return 0 };
        let mut receivers = 0;
        for port in others {
            receivers += u64::from(self.exits.push(*port, frames.clone(), lending, self.key));
        }
        if receivers == 0 {
            let none = others.is_empty();
            let reason = if none { DropReason::NowhereToGo } else { DropReason::NotConnected };
            self.counters.dropped(reason, frames.len() as u64);
        }
        receivers
    }

    fn outcome(&self, handed: Handed, flooded: u64, flood_copies: u64) -> Outcome {
        if handed.gone > 0 {
            self.counters.dropped(DropReason::NotConnected, handed.gone);
        }
        Outcome { flooded, flood_copies, copies: handed.accepted }
    }
}
