//! Cases for rings: a correct session with hostile ring contents.

use std::io;
use std::path::Path;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, RngExt};
use virtio::{Features, NetFeatures};

use super::done::Done;
use crate::front_end::{Seen, Session};
use crate::memory::{BYTES, DATA, GUEST, Memory, Ring, SIZE};
use crate::message::odd_number;

/// The number of states of one case, in one session. A ring that the back-end stops is started again.
pub(super) const STATES: u64 = 128;
/// States without a sign of the back-end after which a ring is started again: it may have stopped without a word.
const UNSEEN: u32 = 2;
/// How long the back-end has to react to a state.
pub(super) const LOOK: Duration = Duration::from_micros(300);
/// A guest receives by the first and transmits by the second.
const QUEUES: [u32; 2] = [0, 1];
/// The share of the states that are states of transmit rings. In its receive rings a back-end looks only when frames
/// come.
const TRANSMITTED: f64 = 0.95;
/// Descriptors that are written for a state, at most.
const MOST: u16 = 40;

/// Descriptor flags (VIRTIO 1.3 §2.7.5, §2.8.6): NEXT, WRITE, INDIRECT.
const FLAGS: u16 = 0b111;
/// The flags of packed rings: available and used.
const PACKED_AVAILABLE: u16 = 1 << 7;
const PACKED_USED: u16 = 1 << 15;

fn address(random: &mut StdRng) -> u64 {
    match random.random_range(0..6) {
        0 => odd_number(random),
        1 => GUEST + BYTES - random.random_range(0..64),
        2 => GUEST + random.random_range(0..BYTES),
        // An indirect table may be at this address.
        _ => GUEST + DATA + 4096 * random.random_range(0..16),
    }
}

fn length(random: &mut StdRng) -> u32 {
    match random.random_range(0..6) {
        0 => odd_number(random) as u32,
        1 => 16 * random.random_range(0..300),
        2 => random.random_range(0..70_000),
        _ => 60 + random.random_range(0..1500),
    }
}

/// A random number of 16 bits, mostly below `limit`.
fn mostly(random: &mut StdRng, limit: u16) -> u16 {
    if random.random_bool(0.9) { random.random_range(0..limit) } else { random.next_u32() as u16 }
}

/// A descriptor: address, length, then flags and next (split) or id and flags (packed).
fn descriptor(random: &mut StdRng, packed: Option<u16>) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&address(random).to_le_bytes());
    bytes[8..12].copy_from_slice(&length(random).to_le_bytes());
    let mut flags = mostly(random, FLAGS + 1);
    // Most are one simple buffer, so that back-ends get beyond the first.
    if random.random_bool(0.5) {
        flags &= !FLAGS;
    }
    let (third, fourth) = match packed {
        None => (flags, mostly(random, SIZE)),
        Some(available) => (mostly(random, SIZE), flags & FLAGS | available),
    };
    bytes[12..14].copy_from_slice(&third.to_le_bytes());
    bytes[14..].copy_from_slice(&fourth.to_le_bytes());
    bytes
}

/// Indirect tables, and frames.
fn fill_data(session: &Session, random: &mut StdRng) -> io::Result<()> {
    let page = random.random_range(0..16);
    let wrap = session.features.contains(Features::RING_PACKED).then_some(0);
    let table: Vec<u8> = (0..32).flat_map(|_| descriptor(random, wrap)).collect();
    session.memory.write(DATA + 4096 * page, &table)
}

/// Writes one hostile state after the other into the rings of a running session, and kicks. `layout` chooses split or
/// packed rings (VIRTIO 1.3 §2.7, §2.8).
///
/// # Errors
/// The back-end cannot be connected to or does not answer a correct session within 2 s or has not started its queues
/// within 2 s; or this system has no memory or descriptors left.
pub fn rings(path: &Path, layout: Features, random: &mut StdRng) -> io::Result<Done> {
    let optional =
        [Features::RING_INDIRECT_DESC, Features::RING_EVENT_IDX, Features::IN_ORDER, NetFeatures::MRG_RXBUF];
    let wanted =
        optional.into_iter().fold(layout, |all, one| if random.random_bool(0.5) { all | one } else { all });
    let mut session = Session::begin(path, wanted)?;
    fill_data(&session, random)?;
    let mut rings = QUEUES.map(|index| HostileRing::new(index, session.features));
    for index in QUEUES {
        session.start_queue(index, None)?;
    }
    if !session.settles() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let mut done = Done::default();
    for _ in 0..random.random_range(1..=STATES) {
        let at = usize::from(random.random_bool(TRANSMITTED));
        session.forget(at);
        rings[at].write(&session.memory, random)?;
        session.kick_one(at);
        done.ring_states += 1;
        let seen = session.look(at, LOOK);
        if seen == Seen::Closed {
            done.closed = true;
            break;
        }
        done.ring_states_seen += u64::from(seen != Seen::No);
        rings[at].unseen = if seen == Seen::No { rings[at].unseen + 1 } else { 0 };
        if seen == Seen::Stopped || rings[at].unseen >= UNSEEN {
            // A stopped ring belongs to the driver again.
            let stopped = session.stop_queue(at);
            rings[at].begin_again(&session.memory)?;
            if !stopped || !session.start_again(at) {
                done.closed = session.front_end.is_closed_within(Duration::ZERO);
                break;
            }
        }
    }
    done.spoiled = !session.memory.has_margins()?;
    Ok(done)
}

/// A ring that a hostile driver writes.
struct HostileRing {
    ring: Ring,
    features: Features,
    /// Descriptors (packed) or chains (split) that were made available, which gives the position where the device
    /// continues.
    position: u32,
    /// The number of states since the back-end last reacted.
    unseen: u32,
}

/// A driver's setting for calls: mostly that it wants them.
fn suppression(random: &mut StdRng, limit: u16) -> u16 {
    if random.random_bool(0.95) { 0 } else { mostly(random, limit) }
}

impl HostileRing {
    fn new(index: u32, features: Features) -> Self {
        HostileRing { ring: Ring::of(index), features, position: 0, unseen: 0 }
    }

    /// The queue starts anew, with nothing in it.
    fn begin_again(&mut self, memory: &Memory) -> io::Result<()> {
        (self.position, self.unseen) = (0, 0);
        memory.write(self.ring.descriptors, &[0; 16 * SIZE as usize])?;
        memory.write(self.ring.driver, &[0; 4])?;
        // A used index above 0 belongs to a ring that continues: an available index of 0 behind it is malformed.
        memory.write(self.ring.device, &[0; 4])
    }

    fn write(&mut self, memory: &Memory, random: &mut StdRng) -> io::Result<()> {
        match self.features.contains(Features::RING_PACKED) {
            true => self.write_packed(memory, random),
            false => self.write_split(memory, random),
        }
    }

    /// The available index goes on by anything; entries and descriptors are anything.
    fn write_split(&mut self, memory: &Memory, random: &mut StdRng) -> io::Result<()> {
        let first = random.random_range(0..SIZE - MOST);
        let count = random.random_range(1..MOST);
        let table: Vec<u8> = (0..count).flat_map(|_| descriptor(random, None)).collect();
        memory.write(self.ring.descriptors + 16 * u64::from(first), &table)?;
        let step = match random.random_range(0..16) {
            0 => random.next_u32() as u16,
            1 => SIZE + random.random_range(0..2),
            _ => random.random_range(1..9),
        };
        let before = self.position as u16;
        for entry in 0..step.min(SIZE) {
            let at = u64::from(before.wrapping_add(entry) % SIZE);
            memory.write(self.ring.driver + 4 + 2 * at, &mostly(random, SIZE).to_le_bytes())?;
        }
        let index = before.wrapping_add(step);
        self.position = index.into();
        if self.features.contains(Features::RING_EVENT_IDX) {
            // Mostly a call for what is used next.
            let wanted = match random.random_bool(0.9) {
                true => memory.read_u16(self.ring.device + 2)?,
                false => random.next_u32() as u16,
            };
            memory.write(self.ring.driver + 4 + 2 * u64::from(SIZE), &wanted.to_le_bytes())?;
        }
        memory.write(self.ring.driver, &[suppression(random, 2).to_le_bytes(), index.to_le_bytes()].concat())
    }

    /// Writes slots that are available, used, or neither; mostly from the place where the device looks next.
    fn write_packed(&mut self, memory: &Memory, random: &mut StdRng) -> io::Result<()> {
        let goes_on = random.random_bool(0.9);
        let size = u32::from(SIZE);
        let start = if goes_on { self.position } else { random.random_range(0..2 * size) };
        let count = random.random_range(1..9);
        for position in start..start + count {
            let is_odd_lap = position / size % 2 == 1;
            let available = if is_odd_lap { PACKED_USED } else { PACKED_AVAILABLE };
            let wrap = match random.random_range(0..48) {
                0 => 0,
                1 => PACKED_AVAILABLE | PACKED_USED,
                2 => available ^ PACKED_AVAILABLE ^ PACKED_USED,
                _ => available,
            };
            let at = u64::from(position % size);
            memory.write(self.ring.descriptors + 16 * at, &descriptor(random, Some(wrap)))?;
        }
        if goes_on {
            self.position = (start + count) % (2 * size);
        }
        // The driver's event suppression: a position, and flags of which one is reserved.
        let event = [random.next_u32() as u16, suppression(random, 4)];
        memory.write(self.ring.driver, &event.map(u16::to_le_bytes).concat())
    }
}
