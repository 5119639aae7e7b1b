//! Fragments of packets in which tunnels' frames are, until all of a packet has come.
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use conntrack::{FragmentFrame, FragmentLimits, Fragments, Held, MAX_FRAGMENTS, Whole};
use frame::{Frame, FrameBatch, LARGEST_FRAME_BYTES, OwnFrames, WINDOW_BYTES};
use tunnels::{Fragment, Joined};

/// The shares of the memory. A sender's address says which share is its own, so that a flood from one address leaves room
/// for others.
const SHARES: u16 = 16;

/// What the fragments for one underlay may take. The time is Linux's (`ipfrag_time`).
const LIMITS: FragmentLimits = FragmentLimits {
    ports: SHARES,
    bytes: 1 << 20,
    bytes_per_port: 256 << 10,
    datagrams: 256,
    datagrams_per_port: 64,
    time: Duration::from_secs(30),
};

const ETHERNET_BYTES: usize = 14;
/// Room for the net header of each frame.
const SPARE_BYTES: usize = 64;

/// What became of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Others are missing.
    Waits,
    /// The packet is complete: [`OuterFragments::packet`] and [`OuterFragments::parts`].
    Complete,
    /// The fragment is dropped.
    Refused,
}

/// The fragments that wait at an underlay. All its sinks share them: the fragments of one packet may come to different ones.
pub(crate) struct Waiting {
    held: Mutex<Fragments>,
    since: Instant,
}

impl Default for Waiting {
    /// No fragments.
    fn default() -> Self {
        Waiting { held: Mutex::new(Fragments::new(LIMITS)), since: Instant::now() }
    }
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, Fragments> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The fragments that wait, and the last complete packet of one sink.
pub(crate) struct OuterFragments {
    waiting: Arc<Waiting>,
    parts: OwnFrames,
    packet: OwnFrames,
    /// The packet's payload while it is put together.
    payload: Vec<u8>,
    /// One frame.
    frame: Vec<u8>,
}

fn share(from: IpAddr) -> u16 {
    let fold = |octets: &[u8]| octets.iter().fold(0, |sum, octet| sum ^ octet ^ octet >> 4);
    let octet = match from {
        IpAddr::V4(address) => fold(&address.octets()),
        IpAddr::V6(address) => fold(&address.octets()),
    };
    u16::from(octet) % SHARES
}

impl OuterFragments {
    /// No complete packet, of these fragments.
    ///
    /// # Errors
    /// The memory for complete packets cannot be made or mapped.
    pub fn new(waiting: Arc<Waiting>) -> io::Result<Self> {
        let frames = usize::from(MAX_FRAGMENTS);
        Ok(OuterFragments {
            waiting,
            parts: OwnFrames::new(frames, LARGEST_FRAME_BYTES + frames * (WINDOW_BYTES + SPARE_BYTES))?,
            packet: OwnFrames::new(1, LARGEST_FRAME_BYTES + SPARE_BYTES)?,
            payload: Vec::with_capacity(LARGEST_FRAME_BYTES),
            frame: Vec::with_capacity(LARGEST_FRAME_BYTES),
        })
    }

    /// Keeps a fragment that is for an address of this host. Returns also how many frames were given up.
    pub fn keep(&mut self, frame: &Frame<'_>, head: &[u8], fragment: &Fragment) -> (Kept, u64) {
        // What is left to be summed or segmented is no fragment yet.
        if !frame.is_simple() {
            return (Kept::Refused, 0);
        }
        let part = FragmentFrame {
            port: share(fragment.from),
            tags: 0,
            head,
            network: ETHERNET_BYTES,
            frame_bytes: frame.len_bytes(),
            rest: &|at, into| frame.read(at, into),
        };
        let waiting = Arc::clone(&self.waiting);
        let mut held = waiting.lock();
        let outcome = held.hold(&part, waiting.since.elapsed());
        let mut dropped: u64 = (0..SHARES).map(|share| held.dropped(share)).sum();
        let kept = match outcome {
            Held::Waits => Kept::Waits,
            Held::Refused => Kept::Refused,
            Held::Complete(whole) => match self.join(held, whole) {
                Some(()) => Kept::Complete,
                None => {
                    dropped += (self.parts.batch().len() as u64).saturating_sub(1);
                    Kept::Refused
                }
            },
        };
        (kept, dropped)
    }

    /// Takes the frames of a packet, and puts the packet together.
    fn join(&mut self, mut held: MutexGuard<'_, Fragments>, whole: Whole) -> Option<()> {
        self.parts.clear();
        self.packet.clear();
        self.payload.clear();
        let mut joined: Option<Joined> = None;
        let mut is_sound = true;
        while let Some(bytes) = held.next_bytes(whole) {
            self.frame.clear();
            let frame = &mut self.frame;
            held.take(whole, |part| frame.extend_from_slice(part));
            // Others are taken too: their memory is given back.
            let Some(fragment) = Fragment::read(frame, bytes).filter(|_| self.parts.begin(bytes)) else {
                is_sound = false;
                continue;
            };
            self.parts.write(frame);
            self.parts.end();
            if joined.is_none() {
                joined = Joined::new(frame, &fragment);
            }
            if let Some(joined) = &mut joined {
                joined.add(&fragment);
            }
            self.payload.extend_from_slice(&frame[fragment.payload_at..fragment.end]);
        }
        // Other sinks go on while the packet is put together.
        drop(held);
        let mut joined = joined.filter(|_| is_sound)?;
        let headers = joined.headers()?;
        if !self.packet.begin(headers.len() + self.payload.len()) {
            return None;
        }
        self.packet.write(headers);
        self.packet.write(&self.payload);
        self.packet.end();
        (!self.packet.batch().is_empty()).then_some(())
    }

    /// The complete packet, as one frame.
    pub fn packet(&self) -> &FrameBatch {
        self.packet.batch()
    }

    /// The frames in which the packet came, in the order of their offsets.
    pub fn parts(&self) -> &FrameBatch {
        self.parts.batch()
    }
}
