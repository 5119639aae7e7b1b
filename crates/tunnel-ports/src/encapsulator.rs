//! Frames to a tunnel.
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::{Field, Key};
use frame::{
    DropReason, EditedFrames, FrameBatch, HeadEdit, Metadata, QueueCounters, QueueError, Sink, WINDOW_BYTES,
};
use tunnels::bfd;
use tunnels::{Header, Kind, MARK, Outer, PartialSum, Sum, mark_of_frame, source_port};
use virtio::net::segment::{Headers, Plan};
use virtio::net::{Offload, PartialChecksum};

use crate::bytes::add_bytes;
use crate::registry::{self, Reader};
use crate::view::{Link, Tunnel, View};

/// The most frames of one burst.
pub(crate) const BURST: usize = 64;
/// An address that is not known is asked for at most this often by one sink.
const PATIENCE: Duration = Duration::from_secs(1);
const ETHERNET_BYTES: usize = 14;
/// The sender's pieces of memory times segments, of a frame that is segmented: the start of each segment is searched among
/// the pieces from the first one on.
const MAX_SEGMENT_STEPS: usize = 1 << 16;

/// The sink of a tunnel.
pub(crate) struct Encapsulator {
    tunnel: Arc<Tunnel>,
    reader: Reader,
    header: Header,
    edited: EditedFrames,
    /// The frames in `edited` that are not sent yet, their bytes, and the underlay of all of them.
    pending: Vec<u16>,
    pending_bytes: u64,
    link: Option<Arc<Link>>,
    /// The neighbour that was asked for last.
    asked: Option<(IpAddr, Instant)>,
    /// The number of the last frame that was segmented. It marks fragments (RFC 8200 §4.5).
    identification: u32,
    /// Whether frames that the other end would take for packets of this end's session (BFD) are dropped.
    guards_session: bool,
    counters: Arc<QueueCounters>,
}

/// Where a frame goes.
struct Way {
    link: Arc<Link>,
    neighbour: tunnels::Mac,
    from: IpAddr,
    to: IpAddr,
}

/// Where frames with these fields go.
struct Addressed<'a> {
    view: &'a View,
    way: &'a Way,
    key: &'a Key,
}

/// A frame that gets outer headers, or a segment of one.
struct Inner<'a> {
    /// The known start. The headers are in it, unless the frame is made of other ones.
    window: &'a [u8],
    bytes: usize,
    /// The offload that is left to be done.
    offload: &'a Offload,
}

/// The address in the fields of a tunnel, if there is one.
fn address(key: &Key, v4: Field, v6: Field) -> Option<IpAddr> {
    match (key.get(v4) as u32, key.get(v6)) {
        (0, 0) => None,
        (0, v6) => Some(Ipv6Addr::from(v6).into()),
        (v4, _) => Some(IpAddr::V4(v4.into())),
    }
}

impl Encapsulator {
    /// The sink of a tunnel.
    ///
    /// # Errors
    /// The memory for heads cannot be made or mapped.
    pub fn new(tunnel: Arc<Tunnel>, counters: Arc<QueueCounters>) -> io::Result<Self> {
        Ok(Encapsulator {
            reader: Reader::default(),
            header: Header::new(),
            edited: EditedFrames::new(BURST)?,
            pending: Vec::with_capacity(BURST),
            pending_bytes: 0,
            link: None,
            asked: None,
            // The keys of a hasher are random.
            identification: RandomState::new().hash_one("the number of a frame") as u32,
            guards_session: tunnel.inbox.is_some(),
            tunnel,
            counters,
        })
    }

    /// Sends packets of the session with the other end.
    pub fn of_session(self) -> Self {
        Encapsulator { guards_session: false, ..self }
    }

    /// Whether the other end may take a frame with this key for a packet of the session with this end. The headers decide,
    /// which are this process's copy: the sender may change the rest until it is sent.
    fn is_of_session(&self, key: Option<u64>, inner: &Inner<'_>) -> bool {
        let field = inner.offload.checksum.map(|sum| usize::from(sum.start) + usize::from(sum.offset));
        key.unwrap_or(0) == self.tunnel.settings.key.unwrap_or(0) && bfd::may_be_control(inner.window, field)
    }

    /// Where a frame with these fields goes.
    fn way(&mut self, view: &View, key: &Key) -> Result<Way, DropReason> {
        let settings = &self.tunnel.settings;
        let to = settings.remote.or_else(|| address(key, Field::TunnelDst, Field::TunnelIpv6Dst));
        let hop = to.and_then(|to| Some((to, view.routes.hop(to, settings.local)?)));
        let (to, hop) = hop.ok_or(DropReason::NoRoute)?;
        let link = view.links.get(hop.link).ok_or(DropReason::NoRoute)?;
        let Some(neighbour) = link.neighbour(hop.neighbour) else {
            self.ask(link, hop.neighbour);
            return Err(DropReason::NoNeighbour);
        };
        Ok(Way { link: Arc::clone(link), neighbour, from: hop.source, to })
    }

    #[cold]
    fn ask(&mut self, link: &Link, address: IpAddr) {
        let now = Instant::now();
        let was_asked = |(asked, at): (IpAddr, Instant)| asked == address && now - at < PATIENCE;
        if self.asked.is_some_and(was_asked) {
            return;
        }
        self.asked = Some((address, now));
        if registry::want(&link.name, address) {
            link.wake();
        }
    }

    /// Writes the outer headers of a frame that needs no segmentation. Returns what is left to be done of the frame with them.
    fn write_header(&mut self, to: &Addressed<'_>, inner: &Inner<'_>) -> Result<Offload, DropReason> {
        let Addressed { view, way, key } = to;
        let settings = &self.tunnel.settings;
        let outer = Outer {
            next_hop: way.neighbour,
            source: way.link.mac,
            from: way.from,
            to: way.to,
            tos: settings.tos & !MARK | mark_of_frame(inner.window),
            ttl: settings.ttl,
            kind: settings.kind,
            ports: [source_port(inner.window), settings.port],
            key: settings.key.or(Some(key.get(Field::TunnelId) as u64)).filter(|key| {
                // Without a key, as Open vSwitch sends it.
                settings.kind != Kind::Gre || settings.key.is_none() || *key != 0
            }),
            checksum: settings.checksum,
            options: view.options_of(&self.tunnel.network),
            fields: key,
        };
        if self.guards_session && self.is_of_session(outer.key, inner) {
            return Err(DropReason::Spoofed);
        }
        if !self.header.write(&outer, inner.bytes) {
            return Err(DropReason::TooLong);
        }
        if self.header.bytes().len() + inner.bytes > ETHERNET_BYTES + way.link.mtu {
            return Err(DropReason::PathTooNarrow);
        }
        self.offload(inner).ok_or(DropReason::OffloadImpossible)
    }

    /// What is left to be done of a frame with outer headers. One checksum may stay partial: the inner one, with which the
    /// outer one is known, or the outer one.
    fn offload(&mut self, inner: &Inner<'_>) -> Option<Offload> {
        let header_bytes = self.header.bytes().len();
        let moved = inner.offload.edited(0, 0, header_bytes, header_bytes + inner.bytes)?;
        let Some(PartialSum { start, offset }) = self.header.checksum else { return Some(moved) };
        let Some(partial) = inner.offload.checksum else {
            return Some(Offload { checksum: Some(PartialChecksum { start, offset }), ..Offload::NONE });
        };
        // When the inner checksum is complete, what it covers has the complement of its pseudo header as sum.
        let (start, field) =
            (usize::from(partial.start), usize::from(partial.start) + usize::from(partial.offset));
        let pseudo = inner.window.get(field..)?.first_chunk().map(|sum| u16::from_be_bytes(*sum))?;
        let mut sum = Sum::default();
        sum.add(inner.window.get(..start)?);
        sum.add_sum(!pseudo);
        self.header.complete(sum.folded());
        Some(moved)
    }

    /// Adds outer headers to a frame that needs no segmentation.
    fn encapsulate(&mut self, to: &Addressed<'_>, batch: &FrameBatch, index: u16) -> Result<(), DropReason> {
        let frame = batch.frame(index.into());
        let mut window = [0; WINDOW_BYTES];
        let window = match frame.offload().checksum {
            None => frame.snapshot(),
            // The sum of the bytes before the partial checksum is needed.
            Some(_) => {
                let known = frame.read(0, &mut window);
                &window[..known]
            }
        };
        let inner = Inner { window, bytes: frame.len_bytes(), offload: frame.offload() };
        let offload = self.write_header(to, &inner)?;
        let edit = HeadEdit { at: 0, removed: 0, inserted: self.header.bytes() };
        self.edited.push_with(batch, index.into(), window, &edit, offload)
    }

    /// Adds the segment with these headers, in front of which are outer headers. The payload stays where the sender put it.
    /// Returns the length of the segment in bytes.
    fn encapsulate_segment(
        &mut self,
        to: &Addressed<'_>,
        batch: &FrameBatch,
        index: u16,
        plan: &Plan<'_>,
        number: u32,
    ) -> Result<usize, DropReason> {
        let frame = batch.frame(index.into());
        let mut headers = Headers::new();
        let segment = plan.write(number, &mut headers).ok_or(DropReason::OffloadImpossible)?;
        let payload = segment.payload.start as usize..segment.payload.end as usize;
        let offload = match headers.leave_partial() {
            Some(offload) => offload,
            // The checksum of a datagram is in its first fragment, and covers all of them.
            None => {
                let mut sum = Sum::default();
                if !add_bytes(&mut sum, &frame, payload.start..frame.len_bytes()) {
                    return Err(DropReason::OffloadImpossible);
                }
                headers.finish(sum.folded());
                Offload::NONE
            }
        };
        let bytes = segment.bytes() as usize;
        let inner = Inner { window: headers.bytes(), bytes, offload: &offload };
        let offload = self.write_header(to, &inner)?;
        let head = [self.header.bytes(), headers.bytes()];
        self.edited.push_part(batch, index.into(), head, payload, offload)?;
        Ok(bytes)
    }

    fn key(metadata: Option<&Metadata>) -> Key {
        let mut key = Key::ZERO;
        if let Some(metadata) = metadata {
            key.set_tunnel(metadata);
        }
        key
    }

    /// Sends a frame that needs no segmentation with the next flush.
    fn push(&mut self, to: &Addressed<'_>, batch: &FrameBatch, index: u16) {
        self.turn_to(&to.way.link);
        if usize::from(index) < self.edited.batch().len() {
            // Not in ascending order.
            self.flush();
        }
        let added = self.encapsulate(to, batch, index);
        self.pushed(to, index, added.map(|()| batch.frame(index.into()).len_bytes()));
    }

    /// Sends the pending frames if they leave by another underlay.
    fn turn_to(&mut self, link: &Arc<Link>) {
        if self.link.as_ref().is_some_and(|last| !Arc::ptr_eq(last, link)) {
            self.send();
        }
    }

    /// Takes note of an edited frame with this length without outer headers.
    fn pushed(&mut self, to: &Addressed<'_>, index: u16, added: Result<usize, DropReason>) {
        match added {
            Ok(bytes) => {
                self.link = Some(Arc::clone(&to.way.link));
                self.pending.push(index);
                self.pending_bytes += bytes as u64;
            }
            Err(reason) => self.counters.dropped(reason, 1),
        }
    }

    /// Sends the segments of a frame, the last of them with the next flush.
    fn push_segments(&mut self, to: &Addressed<'_>, batch: &FrameBatch, index: u16) {
        self.turn_to(&to.way.link);
        let frame = batch.frame(index.into());
        let mut window = [0; WINDOW_BYTES];
        let known = frame.read(0, &mut window);
        self.identification = self.identification.wrapping_add(1);
        let plan =
            Plan::new(&window[..known], frame.len_bytes() as u32, frame.offload(), self.identification);
        let is_short = |plan: &Plan<'_>| frame.slices().0.len() * plan.pieces() as usize <= MAX_SEGMENT_STEPS;
        let Some(plan) = plan.ok().filter(is_short) else {
            return self.counters.dropped(DropReason::OffloadImpossible, 1);
        };
        for number in 0..plan.pieces() {
            if self.edited.batch().len() == BURST {
                self.flush();
            }
            let place = self.edited.batch().len() as u16;
            let added = self.encapsulate_segment(to, batch, index, &plan, number);
            self.pushed(to, place, added);
        }
    }

    /// Sends the pending frames.
    fn send(&mut self) {
        if let Some(link) = self.link.take() {
            let frames = self.pending.len() as u64;
            let sent = link.entrance.put(self.edited.batch(), &self.pending).map_or(0, |put| put.frames);
            let bytes =
                if sent == frames { self.pending_bytes } else { self.pending_bytes * sent / frames.max(1) };
            self.counters.passed(sent, bytes);
            if sent < frames {
                self.counters.dropped(DropReason::ReceiverFull, frames - sent);
            }
        }
        self.pending.clear();
        self.pending_bytes = 0;
    }

    fn flush(&mut self) {
        self.send();
        self.edited.clear();
    }
}

impl Sink for Encapsulator {
    fn accept(&mut self, batch: &FrameBatch, which: &[u16]) -> Result<(), QueueError> {
        self.reader.refresh();
        let view = Arc::clone(&self.reader.view);
        for index in which {
            let key = Self::key(batch.metadata(usize::from(*index)));
            match self.way(&view, &key) {
                Err(reason) => self.counters.dropped(reason, 1),
                Ok(way) => {
                    let to = Addressed { view: &view, way: &way, key: &key };
                    match batch.frame(usize::from(*index)).offload().segmentation {
                        Some(_) => self.push_segments(&to, batch, *index),
                        None => self.push(&to, batch, *index),
                    }
                }
            }
        }
        self.flush();
        Ok(())
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }
}

#[cfg(test)]
mod tests;
