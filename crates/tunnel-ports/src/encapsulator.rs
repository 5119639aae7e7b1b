//! Frames to a tunnel.
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::{Field, Key};
use frame::{
    DropReason, EditedFrames, Frame, FrameBatch, HeadEdit, Metadata, QueueCounters, QueueError, Sink, Source,
    WINDOW_BYTES,
};
use port::in_memory::{InMemorySink, InMemorySource, QueueOptions, queue};
use tunnels::bfd::{self, Control};
use tunnels::{Header, Kind, MARK, Outer, PartialSum, Sum, mark_of_frame, source_port};
use virtio::net::{Accepts, Offload, PartialChecksum};

use crate::registry::{self, Reader};
use crate::view::{Link, Tunnel, View};

/// The most frames of one burst.
pub(crate) const BURST: usize = 64;
/// An address that is not known is asked for at most this often by one sink.
const PATIENCE: Duration = Duration::from_secs(1);
const ETHERNET_BYTES: usize = 14;
/// Segments of one frame: 64 KiB in segments of 536 bytes, the smallest usual ones (RFC 9293 §3.7.1), are 123.
const SEGMENTS: u16 = 128;
/// The longest segments of a frame that is segmented before it gets its headers.
const SEGMENT_BYTES: u32 = 10 << 10;

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
    /// The queue in which frames are segmented.
    segments: Option<(InMemorySink, InMemorySource)>,
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
    /// The memory for heads or segments cannot be made or mapped.
    pub fn new(tunnel: Arc<Tunnel>, counters: Arc<QueueCounters>) -> io::Result<Self> {
        let complete =
            QueueOptions { slots: SEGMENTS, frame_bytes: SEGMENT_BYTES, accepts: Accepts::NOTHING };
        Ok(Encapsulator {
            reader: Reader::default(),
            header: Header::new(),
            edited: EditedFrames::new(BURST)?,
            pending: Vec::with_capacity(BURST),
            pending_bytes: 0,
            link: None,
            asked: None,
            segments: Some(queue(complete)?),
            guards_session: tunnel.inbox.is_some(),
            tunnel,
            counters,
        })
    }

    /// Sends packets of the session with the other end.
    pub fn of_session(self) -> Self {
        Encapsulator { guards_session: false, ..self }
    }

    /// Whether the other end would take a frame with this key for a packet of the session with this end.
    fn is_of_session(&self, key: Option<u64>, frame: &Frame<'_>) -> bool {
        let mut bytes = [0; bfd::FRAME_BYTES];
        key.unwrap_or(0) == self.tunnel.settings.key.unwrap_or(0) && bfd::has_port(frame.snapshot()) && {
            let known = frame.read(0, &mut bytes);
            Control::of_frame(&bytes[..known]).is_some()
        }
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

    /// Adds outer headers to a frame that needs no segmentation.
    fn encapsulate(
        &mut self,
        view: &View,
        way: &Way,
        key: &Key,
        batch: &FrameBatch,
        index: u16,
    ) -> Result<(), DropReason> {
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
        let settings = &self.tunnel.settings;
        let outer = Outer {
            next_hop: way.neighbour,
            source: way.link.mac,
            from: way.from,
            to: way.to,
            tos: settings.tos & !MARK | mark_of_frame(window),
            ttl: settings.ttl,
            kind: settings.kind,
            ports: [source_port(window), settings.port],
            key: settings.key.or(Some(key.get(Field::TunnelId) as u64)).filter(|key| {
                // Without a key, as Open vSwitch sends it.
                settings.kind != Kind::Gre || settings.key.is_none() || *key != 0
            }),
            checksum: settings.checksum,
            options: view.options_of(&self.tunnel.network),
            fields: key,
        };
        if self.guards_session && self.is_of_session(outer.key, &frame) {
            return Err(DropReason::Spoofed);
        }
        if !self.header.write(&outer, frame.len_bytes()) {
            return Err(DropReason::TooLong);
        }
        let header_bytes = self.header.bytes().len();
        if header_bytes + frame.len_bytes() > ETHERNET_BYTES + way.link.mtu {
            return Err(DropReason::PathTooNarrow);
        }
        let offload = self.offload(&frame, window).ok_or(DropReason::OffloadImpossible)?;
        let edit = HeadEdit { at: 0, removed: 0, inserted: self.header.bytes() };
        self.edited.push_with(batch, index.into(), window, &edit, offload)
    }

    /// What is left to be done of a frame with outer headers. One checksum may stay partial: the inner one, with which the
    /// outer one is known, or the outer one.
    fn offload(&mut self, frame: &Frame<'_>, window: &[u8]) -> Option<Offload> {
        let header_bytes = self.header.bytes().len();
        let moved = frame.offload().edited(0, 0, header_bytes, header_bytes + frame.len_bytes())?;
        let Some(PartialSum { start, offset }) = self.header.checksum else { return Some(moved) };
        let Some(inner) = frame.offload().checksum else {
            return Some(Offload { checksum: Some(PartialChecksum { start, offset }), ..Offload::NONE });
        };
        // When the inner checksum is complete, what it covers has the complement of its pseudo header as sum.
        let (start, field) = (usize::from(inner.start), usize::from(inner.start) + usize::from(inner.offset));
        let pseudo = window.get(field..)?.first_chunk().map(|sum| u16::from_be_bytes(*sum))?;
        let mut sum = Sum::default();
        sum.add(window.get(..start)?);
        sum.add_sum(!pseudo);
        self.header.complete(sum.folded());
        Some(moved)
    }

    fn key(metadata: Option<&Metadata>) -> Key {
        let mut key = Key::ZERO;
        if let Some(metadata) = metadata {
            key.set_tunnel(metadata);
        }
        key
    }

    /// Sends a frame that needs no segmentation with the next flush.
    fn push(&mut self, view: &View, way: &Way, key: &Key, batch: &FrameBatch, index: u16) {
        if self.link.as_ref().is_some_and(|link| !Arc::ptr_eq(link, &way.link)) {
            self.send();
        }
        if usize::from(index) < self.edited.batch().len() {
            // Not in ascending order.
            self.flush();
        }
        match self.encapsulate(view, way, key, batch, index) {
            Ok(()) => {
                self.link = Some(Arc::clone(&way.link));
                self.pending.push(index);
                self.pending_bytes += batch.frame(index.into()).len_bytes() as u64;
            }
            Err(reason) => self.counters.dropped(reason, 1),
        }
    }

    /// Segments a frame, and sends the segments.
    fn push_segments(&mut self, view: &View, way: &Way, key: &Key, batch: &FrameBatch, index: u16) {
        const REASONS: [DropReason; 3] =
            [DropReason::NoBufferLargeEnough, DropReason::ReceiverFull, DropReason::OffloadImpossible];
        let Some((mut into, mut from)) = self.segments.take() else { return };
        self.flush();
        let before = REASONS.map(|reason| into.counters().drops(reason));
        let accepted = into.accept(batch, &[index]);
        for (reason, before) in REASONS.into_iter().zip(before) {
            let dropped = into.counters().drops(reason) - before;
            if dropped > 0 {
                self.counters.dropped(reason, dropped);
            }
        }
        while accepted.is_ok()
            && let Ok(segments) = from.rx_burst(BURST)
            && !segments.is_empty()
        {
            (0..segments.len() as u16).for_each(|segment| self.push(view, way, key, segments, segment));
            self.flush();
            from.release();
        }
        if from.needs_release() {
            from.release();
        }
        self.segments = Some((into, from));
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
                Ok(way) if batch.frame(usize::from(*index)).offload().segmentation.is_some() => {
                    self.push_segments(&view, &way, &key, batch, *index);
                }
                Ok(way) => self.push(&view, &way, &key, batch, *index),
            }
        }
        self.flush();
        Ok(())
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }
}
