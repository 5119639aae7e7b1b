//! Frames to an underlay: those of tunnels go to the tunnels, all others to the kernel.
use std::io;
use std::sync::Arc;

use flow::protocol;
use frame::{
    DropReason, EditedFrames, Frame, FrameBatch, HeadEdit, QueueCounters, QueueError, RingState, Sink,
    WINDOW_BYTES,
};
use tunnels::bfd::Control;
use tunnels::{Fragment, MAX_MARKED_BYTES, Marked, PartialSum, Received, Sum, heard};
use virtio::net::Offload;

use crate::bytes::add_bytes;
use crate::encapsulator::BURST;
use crate::fragments::{Kept, OuterFragments, Waiting};
use crate::registry::Reader;
use crate::source::{FRONT_BYTES, front};
use crate::view::{Link, Tunnel, View};

/// The protocol in an IPv4 header and in an IPv6 header, from the frame's start.
const PROTOCOL_AT: [usize; 2] = [23, 20];

/// The sink of an underlay's TAP.
pub(crate) struct Terminator {
    name: String,
    /// The sink to the kernel.
    inner: Box<dyn Sink>,
    reader: Reader,
    edited: EditedFrames,
    /// The frames in `edited` that are not delivered yet, and the tunnel of all of them.
    pending: Vec<u16>,
    tunnel: Option<Arc<Tunnel>>,
    /// The frames for the kernel.
    rest: Vec<u16>,
    /// Taken while a complete packet is delivered.
    fragments: Option<Box<OuterFragments>>,
}

/// What is done with a frame.
enum Found {
    /// The kernel gets it.
    Kernel,
    /// The frame comes from a tunnel.
    Tunnel(Arc<Tunnel>),
    Dropped(DropReason),
    /// A fragment, which waits for others.
    Held,
    /// A packet of BFD, which the control side of the tunnel has got.
    Heard,
    /// A fragment with which a packet is complete.
    Complete,
}

/// Whether a frame's protocol may be that of a tunnel or of neighbours.
fn is_candidate(snapshot: &[u8]) -> bool {
    let number = |of: usize| snapshot.get(PROTOCOL_AT[of]).copied().unwrap_or(0);
    match snapshot.get(12..14) {
        Some([8, 0]) => matches!(number(0), protocol::UDP | protocol::GRE),
        Some([0x86, 0xdd]) => {
            matches!(number(1), protocol::UDP | protocol::ICMPV6 | protocol::GRE | protocol::IPV6_FRAGMENT)
        }
        Some([8, 6]) => true,
        _ => false,
    }
}

/// Whether the checksum of a frame is right, if it has one. The sum of a frame whose inner checksum is partial follows
/// from that.
fn is_summed(received: &Received<'_>, frame: &Frame<'_>, head: &[u8]) -> bool {
    let Some(PartialSum { start, .. }) = received.checksum else { return true };
    if frame.offload().checksum.is_some() || frame.offload().verified {
        return true;
    }
    let mut sum = Sum::default();
    sum.add_sum(received.covered_before());
    sum.add(&head[usize::from(start)..head.len().min(received.end)]);
    add_bytes(&mut sum, frame, head.len()..received.end) && sum.folded() == 0xffff
}

impl Terminator {
    /// A sink before that of the TAP with this name, at which these fragments wait.
    ///
    /// # Errors
    /// The memory for heads cannot be made or mapped.
    pub fn new(name: &str, inner: Box<dyn Sink>, waiting: &Arc<Waiting>) -> io::Result<Self> {
        Ok(Terminator {
            name: name.to_owned(),
            inner,
            reader: Reader::default(),
            edited: EditedFrames::new(BURST)?,
            pending: Vec::with_capacity(BURST),
            tunnel: None,
            rest: Vec::with_capacity(BURST),
            fragments: Some(Box::new(OuterFragments::new(Arc::clone(waiting))?)),
        })
    }

    /// Takes the outer headers off a frame, if it is one of a tunnel.
    fn find(&mut self, view: &View, link: &Link, batch: &FrameBatch, index: u16) -> Found {
        let frame = batch.frame(index.into());
        if !is_candidate(frame.snapshot()) {
            return Found::Kernel;
        }
        let mut head = [0; WINDOW_BYTES];
        let known = frame.read(0, &mut head);
        let head = &head[..known];
        if let Some(message) = heard(head) {
            link.hear(message);
            return Found::Kernel;
        }
        if frame.destination().0 != link.mac {
            return Found::Kernel;
        }
        let is_here = |address| link.addresses.contains(&address);
        let kind = |port| view.tunnels.kind_of_port(port);
        let received = match Received::read(head, frame.len_bytes(), is_here, kind) {
            None => return self.find_fragment(view, link, &frame, head),
            Some(Err(_)) => return Found::Dropped(DropReason::MalformedTunnel),
            Some(Ok(received)) => received,
        };
        let Some(tunnel) = view.tunnels.of(&received) else { return Found::Dropped(DropReason::NoTunnel) };
        if !is_summed(&received, &frame, head) {
            return Found::Dropped(DropReason::MalformedTunnel);
        }
        if let Some(inbox) = &tunnel.inbox
            && received.key.unwrap_or(0) == tunnel.settings.key.unwrap_or(0)
            // Bytes behind the outer packet are no part of it.
            && let Some(inner) = head.get(received.inner_at..received.end.min(head.len()))
            && let Some(packet) = Control::of_frame(inner)
        {
            inbox.put(packet);
            return Found::Heard;
        }
        let Ok(fields) = received.fields(view.options_of(&tunnel.network)) else {
            return Found::Dropped(DropReason::MalformedTunnel);
        };
        match self.take_off(batch, index, head, &received, &fields.tunnel()) {
            Ok(()) => Found::Tunnel(Arc::clone(tunnel)),
            Err(reason) => Found::Dropped(reason),
        }
    }

    /// Keeps a fragment if a tunnel's frame may be in its packet.
    #[cold]
    fn find_fragment(&mut self, view: &View, link: &Link, frame: &Frame<'_>, head: &[u8]) -> Found {
        let is_meant = |fragment: &Fragment| {
            link.addresses.contains(&fragment.to) && view.tunnels.all().next().is_some()
        };
        let Some(fragment) = Fragment::read(head, frame.len_bytes()).filter(is_meant) else {
            return Found::Kernel;
        };
        let Some(fragments) = &mut self.fragments else { return Found::Kernel };
        let (kept, dropped) = fragments.keep(frame, head, &fragment);
        if dropped > 0 {
            self.inner.counters().dropped(DropReason::Incomplete, dropped);
        }
        match kept {
            Kept::Waits => Found::Held,
            Kept::Complete => Found::Complete,
            Kept::Refused => Found::Dropped(DropReason::Incomplete),
        }
    }

    /// Delivers a complete packet: its frame to a tunnel, or its fragments, as they came, to the kernel.
    #[cold]
    fn complete(&mut self, view: &View, link: &Link) -> Result<(), QueueError> {
        let Some(fragments) = self.fragments.take() else { return Ok(()) };
        let mut result = Ok(());
        match self.find(view, link, fragments.packet(), 0) {
            Found::Tunnel(tunnel) => {
                self.tunnel = Some(tunnel);
                self.pending.push(0);
            }
            Found::Dropped(reason) => self.inner.counters().dropped(reason, 1),
            Found::Heard => {}
            Found::Kernel | Found::Held | Found::Complete => {
                let parts = fragments.parts();
                result = self.inner.accept(parts, &(0..parts.len() as u16).collect::<Vec<_>>());
            }
        }
        self.flush();
        self.fragments = Some(fragments);
        result
    }

    /// Puts metadata in the place of the outer headers, and cuts padding behind the outer packet.
    fn take_off(
        &mut self,
        batch: &FrameBatch,
        index: u16,
        head: &[u8],
        received: &Received<'_>,
        metadata: &frame::Metadata,
    ) -> Result<(), DropReason> {
        let Received { inner_at, end, .. } = *received;
        let offload = *batch.frame(index.into()).offload();
        if offload.segmentation.is_some() {
            return Err(DropReason::OffloadImpossible);
        }
        let is_inner = |start: u16| usize::from(start) >= inner_at;
        let offload = match offload.checksum {
            Some(sum) if is_inner(sum.start) => {
                // The checksum must also have a place in the inner frame without the metadata.
                let alone = offload.edited(0, inner_at, 0, end - inner_at);
                let moved = offload.edited(0, inner_at, FRONT_BYTES, end - inner_at + FRONT_BYTES);
                alone.and(moved).ok_or(DropReason::OffloadImpossible)?
            }
            _ => Offload::NONE,
        };
        let inner = head.get(inner_at..end.min(head.len())).unwrap_or_default();
        let marked = Marked::new(inner, received.tos).map_err(|_| DropReason::LostMark)?;
        let mut inserted = [0; FRONT_BYTES + MAX_MARKED_BYTES];
        let marked_end = FRONT_BYTES + marked.bytes().len();
        inserted[..FRONT_BYTES].copy_from_slice(&front(metadata));
        inserted[FRONT_BYTES..marked_end].copy_from_slice(marked.bytes());
        let removed = inner_at + marked.bytes().len();
        let edit = HeadEdit { at: 0, removed, inserted: &inserted[..marked_end] };
        if usize::from(index) < self.edited.batch().len() {
            // Not in ascending order.
            self.flush();
        }
        self.edited.push_with(batch, index.into(), head, &edit, offload)?;
        self.edited.cut(index.into(), end - inner_at + FRONT_BYTES);
        Ok(())
    }

    /// Gives the pending frames to their tunnel.
    fn deliver(&mut self) {
        if let Some(tunnel) = self.tunnel.take() {
            let dropped = match tunnel.entrance.put(self.edited.batch(), &self.pending) {
                Ok(put) => put.dropped,
                Err(_) => self.pending.len() as u64,
            };
            self.inner.counters().dropped(DropReason::ReceiverFull, dropped);
        }
        self.pending.clear();
    }

    fn flush(&mut self) {
        self.deliver();
        self.edited.clear();
    }
}

impl Sink for Terminator {
    fn accept(&mut self, batch: &FrameBatch, which: &[u16]) -> Result<(), QueueError> {
        self.reader.refresh();
        let view = Arc::clone(&self.reader.view);
        let Some(link) = view.link(&self.name) else { return self.inner.accept(batch, which) };
        self.rest.clear();
        for index in which {
            match self.find(&view, link, batch, *index) {
                Found::Kernel => self.rest.push(*index),
                Found::Dropped(reason) => self.inner.counters().dropped(reason, 1),
                Found::Held | Found::Heard => {}
                Found::Complete => {
                    self.flush();
                    self.complete(&view, link)?;
                }
                Found::Tunnel(tunnel) => {
                    let is_same = self.tunnel.as_ref().is_none_or(|pending| Arc::ptr_eq(pending, &tunnel));
                    if !is_same {
                        // The last frame in `edited` is this one's, and is not pending yet.
                        self.deliver();
                    }
                    self.tunnel = Some(tunnel);
                    self.pending.push(*index);
                }
            }
        }
        self.flush();
        let rest = std::mem::take(&mut self.rest);
        let result = match rest.is_empty() {
            true => Ok(()),
            false => self.inner.accept(batch, &rest),
        };
        self.rest = rest;
        result
    }

    fn room(&mut self) -> usize {
        self.inner.room()
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        self.inner.counters()
    }

    fn ring(&self) -> Option<RingState> {
        self.inner.ring()
    }
}
