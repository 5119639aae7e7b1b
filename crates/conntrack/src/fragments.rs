//! Fragments that wait for the rest of their datagrams.
//!
//! A fragment has no ports, so its connection is known when its datagram is complete. [`Fragments`] keeps copies of the
//! frames until then; the caller takes them out again and sends them as they came, in the order of their offsets.
//!
//! # Bounded memory
//!
//! | what | limit |
//! |---|---|
//! | bytes of all frames | [`FragmentLimits::bytes`], reserved at the start, in blocks of [`BLOCK`] bytes |
//! | bytes and datagrams of one port | a share, and at most as many as are free; then the oldest datagram *of the same port* makes room |
//! | fragments of a datagram | [`MAX_FRAGMENTS`] |
//! | time | [`FragmentLimits::time`] after the first fragment came |
//!
//! A datagram with fragments that overlap is dropped as a whole (RFC 5722 §3, RFC 8200 §4.5); a fragment whose bytes
//! all came in one other fragment is dropped alone, as in Linux. Every fragment has a payload, and every one but the last has a multiple of 8 bytes.
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::links::{Links, List};
use crate::packet::Network;

/// The largest number of fragments of one datagram. A datagram of 65,535 bytes has 53 fragments over IPv6's smallest MTU.
pub const MAX_FRAGMENTS: u16 = 64;

/// The unit in which memory for frames is given, in bytes.
pub const BLOCK: usize = 512;

/// Padding up to this number of bytes is kept: the shortest Ethernet frame (IEEE 802.3 §3.2.7).
const SHORTEST_FRAME: usize = 60;

/// Datagrams that are given up at most before a fragment is kept, because their time is over.
const EXPIRED_AT_ONCE: usize = 8;

const NONE: u32 = u32::MAX;

/// What fragments may take.
#[derive(Clone, Copy, Debug)]
pub struct FragmentLimits {
    /// The number of ports: their numbers are below.
    pub ports: u16,
    /// The bytes of all frames.
    pub bytes: u32,
    /// The bytes of the frames of one port.
    pub bytes_per_port: u32,
    /// The number of datagrams.
    pub datagrams: u32,
    /// The number of datagrams of one port.
    pub datagrams_per_port: u32,
    /// The time for which a datagram waits.
    pub time: Duration,
}

/// A frame that carries a fragment.
pub struct FragmentFrame<'a> {
    /// The port by which it came.
    pub port: u16,
    /// Its VLAN tags, as one number.
    pub tags: u64,
    /// Its first bytes, with all headers.
    pub head: &'a [u8],
    /// The place of the network header.
    pub network: usize,
    /// The length of the frame in bytes.
    pub frame_bytes: usize,
    /// Reads bytes behind the head, from this place of the frame on, and returns how many there were.
    pub rest: &'a dyn Fn(usize, &mut [u8]) -> usize,
}

/// A datagram whose fragments have all come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    place: u32,
    /// Tells it apart from other datagrams that were or will be in its place.
    number: u64,
    /// The bytes of the datagram behind the network header, and behind the fragment header of IPv6.
    pub payload: usize,
}

/// What became of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Other fragments are missing.
    Waits,
    /// The datagram is complete: [`Fragments::take`] gives its frames.
    Complete(Whole),
    /// The fragment is no part of any datagram, or its datagram was given up.
    Refused,
}

/// Which datagram a fragment belongs to (RFC 791 §3.2, RFC 8200 §4.5). Ports and VLANs have datagrams of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    port: u16,
    tags: u64,
    source: IpAddr,
    destination: IpAddr,
    id: u32,
    /// Zero for IPv6.
    protocol: u8,
}

/// A fragment that is kept. Its number is that of its first block.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    /// Its bytes of the datagram's payload.
    start: u32,
    end: u32,
    frame_bytes: u32,
    /// The fragment with the next higher offset.
    next: u32,
}

/// The fragments of one datagram.
#[derive(Debug)]
struct Set {
    key: Key,
    number: u64,
    /// The fragment with the lowest offset.
    first: u32,
    fragments: u16,
    blocks: u32,
    /// How many bytes have come.
    covered: u32,
    /// How many there are, once the last fragment came.
    whole: Option<u32>,
    /// When it is given up, in ms.
    deadline: u64,
}

/// What one port holds.
#[derive(Clone, Debug, Default)]
struct Port {
    datagrams: u32,
    blocks: u32,
    /// The oldest first.
    sets: List,
    /// Frames that were given up since the caller was told.
    dropped: u64,
}

/// Fragments that wait. Time is an argument: it counts from any fixed beginning and never decreases.
#[derive(Debug)]
pub struct Fragments {
    limits: FragmentLimits,
    bytes: Vec<u8>,
    /// By block: the next block of the same frame, or of the free ones.
    next: Vec<u32>,
    free: u32,
    free_blocks: u32,
    /// By block, for the first block of each frame.
    kept: Vec<Kept>,
    sets: Vec<Option<Set>>,
    free_sets: Vec<u32>,
    by_key: HashMap<Key, u32>,
    /// All datagrams, the oldest first.
    age: List,
    age_links: Links,
    port_links: Links,
    ports: Vec<Port>,
    numbers: u64,
}

impl Fragments {
    /// No fragments. Memory of frames is reserved and not touched.
    pub fn new(limits: FragmentLimits) -> Self {
        let (blocks, sets) = (limits.bytes as usize / BLOCK, limits.datagrams as usize);
        let (mut age_links, mut port_links) = (Links::new(sets), Links::new(sets));
        (0..sets).for_each(|_| {
            age_links.grow();
            port_links.grow();
        });
        Self {
            limits,
            bytes: vec![0; blocks * BLOCK],
            next: (1..blocks as u32).chain([NONE]).take(blocks).collect(),
            free: if blocks == 0 { NONE } else { 0 },
            free_blocks: blocks as u32,
            kept: vec![Kept::default(); blocks],
            sets: (0..sets).map(|_| None).collect(),
            free_sets: (0..limits.datagrams).rev().collect(),
            by_key: HashMap::with_capacity(sets),
            age: List::default(),
            age_links,
            port_links,
            ports: vec![Port::default(); limits.ports.into()],
            numbers: 0,
        }
    }

    /// The bytes that a port's frames take.
    pub fn held_by(&self, port: u16) -> usize {
        self.ports.get(usize::from(port)).map_or(0, |port| port.blocks as usize * BLOCK)
    }

    /// The frames of a port that were kept and given up since the last call.
    pub fn dropped(&mut self, port: u16) -> u64 {
        self.ports.get_mut(usize::from(port)).map_or(0, |port| std::mem::take(&mut port.dropped))
    }

    /// Keeps a fragment, which waits for the rest of its datagram.
    pub fn hold(&mut self, frame: &FragmentFrame<'_>, now: Duration) -> Held {
        let now = now.as_millis() as u64;
        self.expire(now);
        self.try_hold(frame, now).unwrap_or(Held::Refused)
    }

    fn expire(&mut self, now: u64) {
        for _ in 0..EXPIRED_AT_ONCE {
            let Some(place) = self.age.first() else { break };
            if self.sets[place as usize].as_ref().is_some_and(|set| set.deadline > now) {
                break;
            }
            self.give_up(place);
        }
    }

    fn try_hold(&mut self, frame: &FragmentFrame<'_>, now: u64) -> Option<Held> {
        self.ports.get(usize::from(frame.port))?;
        let network = Network::read(frame.head.get(frame.network..)?)?;
        let fragment = network.fragment?;
        let (start, end) = (u32::from(fragment.offset), network.end.checked_sub(fragment.payload)?);
        let end = start + end as u32; // both are below 2^17
        let datagram_end = frame.network + network.end;
        let is_sound = end > start
            && (!fragment.more || end.is_multiple_of(8))
            && end as usize + fragment.payload <= usize::from(u16::MAX)
            && datagram_end <= frame.frame_bytes
            && frame.network + network.transport <= frame.head.len();
        if !is_sound {
            return None;
        }
        let key = Key {
            port: frame.port,
            tags: frame.tags,
            source: network.source,
            destination: network.destination,
            id: fragment.id,
            protocol: if network.source.is_ipv4() { network.protocol } else { 0 },
        };
        let place = match self.by_key.get(&key) {
            Some(place) => *place,
            None => self.begin(key, now)?,
        };
        let kept = Kept {
            start,
            end,
            frame_bytes: frame.frame_bytes.min(datagram_end.max(SHORTEST_FRAME)) as u32,
            next: NONE,
        };
        match self.add(place, kept, fragment.more, frame) {
            Added::Yes => {}
            Added::Twice => return None,
            Added::Contradicts => {
                self.give_up(place);
                return None;
            }
        }
        let set = self.sets[place as usize].as_ref()?;
        if set.whole != Some(set.covered) {
            return Some(Held::Waits);
        }
        let whole = Whole { place, number: set.number, payload: set.covered as usize };
        self.by_key.remove(&key);
        Some(Held::Complete(whole))
    }

    /// Makes an empty datagram.
    fn begin(&mut self, key: Key, now: u64) -> Option<u32> {
        let port = self.ports.get(usize::from(key.port))?;
        if port.datagrams >= self.limits.datagrams_per_port.min(self.free_sets.len() as u32) {
            let oldest = port.sets.first()?;
            self.give_up(oldest);
        }
        let place = self.free_sets.pop()?;
        self.numbers += 1;
        let deadline = now + self.limits.time.as_millis() as u64;
        let (number, first) = (self.numbers, NONE);
        let set = Set { key, number, first, fragments: 0, blocks: 0, covered: 0, whole: None, deadline };
        self.sets[place as usize] = Some(set);
        self.by_key.insert(key, place);
        self.age_links.push(&mut self.age, place);
        let port = &mut self.ports[usize::from(key.port)];
        port.datagrams += 1;
        self.port_links.push(&mut port.sets, place);
        Some(place)
    }

    /// Adds a fragment to its datagram.
    fn add(&mut self, place: u32, mut kept: Kept, more: bool, frame: &FragmentFrame<'_>) -> Added {
        let Some(Some(set)) = self.sets.get(place as usize) else { return Added::Contradicts };
        let (mut before, mut after) = (NONE, set.first);
        while after != NONE && self.kept[after as usize].start < kept.start {
            (before, after) = (after, self.kept[after as usize].next);
        }
        let [previous, following] = [before, after].map(|number| self.kept.get(number as usize).copied());
        let is_beyond = match set.whole {
            Some(whole) => kept.end > whole || !more && kept.end != whole,
            None => !more && self.last_end(set) > kept.end,
        };
        if is_beyond {
            return Added::Contradicts;
        }
        let covers = |other: &Kept| other.start <= kept.start && kept.end <= other.end;
        if previous.is_some_and(|other| covers(&other)) || following.is_some_and(|other| covers(&other)) {
            // The end of the datagram counts.
            if let Some(Some(set)) = self.sets.get_mut(place as usize).filter(|_| !more) {
                set.whole = Some(kept.end);
            }
            return Added::Twice;
        }
        let overlaps = previous.is_some_and(|other| other.end > kept.start)
            || following.is_some_and(|other| other.start < kept.end);
        if overlaps || set.fragments == MAX_FRAGMENTS {
            return Added::Contradicts;
        }
        kept.next = after;
        let Some(number) = self.copy(place, kept, frame) else { return Added::Contradicts };
        if before != NONE {
            self.kept[before as usize].next = number;
        }
        let Some(set) = &mut self.sets[place as usize] else { return Added::Contradicts };
        if before == NONE {
            set.first = number;
        }
        set.fragments += 1;
        set.covered += kept.end - kept.start;
        if !more {
            set.whole = Some(kept.end);
        }
        Added::Yes
    }

    /// Where the bytes end that have come of a datagram.
    fn last_end(&self, set: &Set) -> u32 {
        let (mut end, mut at) = (0, set.first);
        while let Some(kept) = self.kept.get(at as usize) {
            (end, at) = (kept.end, kept.next);
        }
        end
    }

    /// Copies a frame into blocks. `None` if there is no room.
    fn copy(&mut self, place: u32, kept: Kept, frame: &FragmentFrame<'_>) -> Option<u32> {
        let bytes = kept.frame_bytes as usize;
        let blocks = bytes.div_ceil(BLOCK) as u32; // at most 129
        self.make_room(place, blocks)?;
        let (mut first, mut last, mut at) = (NONE, NONE, 0);
        while at < bytes {
            let block = self.free;
            self.free = self.next[block as usize];
            self.next[block as usize] = NONE;
            match last {
                NONE => first = block,
                last => self.next[last as usize] = block,
            }
            last = block;
            let from = block as usize * BLOCK;
            let into = &mut self.bytes[from..from + BLOCK.min(bytes - at)];
            let known = frame.head.get(at..).unwrap_or_default();
            let known = &known[..known.len().min(into.len())];
            into[..known.len()].copy_from_slice(known);
            // What the sender has taken away meanwhile is zero.
            let rest = &mut into[known.len()..];
            if !rest.is_empty() {
                let read = (frame.rest)(at + known.len(), rest);
                rest[read..].fill(0);
            }
            at += BLOCK;
        }
        self.free_blocks -= blocks;
        let set = self.sets[place as usize].as_mut()?;
        set.blocks += blocks;
        self.ports[usize::from(set.key.port)].blocks += blocks;
        self.kept[first as usize] = kept;
        Some(first)
    }

    /// Makes room for blocks of a datagram: older datagrams of the same port give theirs.
    fn make_room(&mut self, place: u32, blocks: u32) -> Option<()> {
        let port = self.sets[place as usize].as_ref()?.key.port;
        loop {
            let held = &self.ports[usize::from(port)];
            let limit = (self.limits.bytes_per_port / BLOCK as u32).min(self.free_blocks);
            if held.blocks + blocks <= limit {
                return Some(());
            }
            let oldest = held.sets.first().filter(|oldest| *oldest != place)?;
            self.give_up(oldest);
        }
    }

    /// Drops a datagram with all its frames.
    fn give_up(&mut self, place: u32) {
        let Some(set) = &self.sets[place as usize] else { return };
        let (mut fragment, port, frames) = (set.first, set.key.port, set.fragments);
        while fragment != NONE {
            let next = self.kept[fragment as usize].next;
            self.release(fragment);
            fragment = next;
        }
        self.ports[usize::from(port)].dropped += u64::from(frames);
        self.end(place);
    }

    /// Gives the blocks of a frame back.
    fn release(&mut self, first: u32) {
        let (mut last, mut blocks) = (first, 1);
        while self.next[last as usize] != NONE {
            last = self.next[last as usize];
            blocks += 1;
        }
        self.next[last as usize] = self.free;
        self.free = first;
        self.free_blocks += blocks;
    }

    /// Forgets a datagram whose blocks were given back.
    fn end(&mut self, place: u32) {
        let Some(set) = self.sets[place as usize].take() else { return };
        if self.by_key.get(&set.key) == Some(&place) {
            self.by_key.remove(&set.key);
        }
        self.age_links.remove(&mut self.age, place);
        let port = &mut self.ports[usize::from(set.key.port)];
        port.datagrams -= 1;
        port.blocks -= set.blocks;
        self.port_links.remove(&mut port.sets, place);
        self.free_sets.push(place);
    }

    /// The length in bytes of the frame that [`Fragments::take`] gives next. `None` if none is left, or the datagram was
    /// given up.
    pub fn next_bytes(&self, whole: Whole) -> Option<usize> {
        let set = self.sets.get(whole.place as usize)?.as_ref()?;
        (set.number == whole.number).then(|| self.kept[set.first as usize].frame_bytes as usize)
    }

    /// Takes the frame with the lowest offset out of a complete datagram: calls `part` with its bytes, one part after
    /// another.
    pub fn take(&mut self, whole: Whole, mut part: impl FnMut(&[u8])) {
        let Some(mut left) = self.next_bytes(whole) else { return };
        let Some(Some(set)) = self.sets.get_mut(whole.place as usize) else { return };
        let fragment = set.first;
        let (mut block, blocks) = (fragment, left.div_ceil(BLOCK) as u32);
        while block != NONE {
            let from = block as usize * BLOCK;
            let bytes = left.min(BLOCK);
            part(&self.bytes[from..from + bytes]);
            left -= bytes;
            block = self.next[block as usize];
        }
        (set.first, set.fragments) = (self.kept[fragment as usize].next, set.fragments - 1);
        set.blocks -= blocks;
        let is_last = set.first == NONE;
        self.ports[usize::from(set.key.port)].blocks -= blocks;
        self.release(fragment);
        if is_last {
            self.end(whole.place);
        }
    }
}

/// What became of a fragment of a datagram.
enum Added {
    Yes,
    /// Its bytes have come before.
    Twice,
    /// The datagram cannot be completed, or there is no room for it.
    Contradicts,
}
