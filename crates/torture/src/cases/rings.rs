//! Cases of rings: a session that is right, and memory that is not.

use std::io;
use std::path::Path;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, RngExt};
use virtio::Features;

use super::done::Done;
use crate::front_end::Session;
use crate::memory::{BYTES, DATA, GUEST, Ring, SIZE};
use crate::message::odd_number;

/// States of one case, in one session: a back-end that stops a ring at the first leaves the others unread.
const STATES: u64 = 8;
/// How long a state is left to the back-end.
const LOOK: Duration = Duration::from_micros(100);
/// The queue that a guest transmits by.
const TRANSMIT: u32 = 1;

/// Descriptor flags (VIRTIO 1.3 §2.7.5, §2.8.6): NEXT, WRITE, INDIRECT.
const FLAGS: u16 = 0b111;
/// Of packed rings: available and used.
const PACKED_AVAILABLE: u16 = 1 << 7;
const PACKED_USED: u16 = 1 << 15;

fn address(random: &mut StdRng) -> u64 {
    match random.random_range(0..6) {
        0 => odd_number(random),
        1 => GUEST + BYTES - random.random_range(0..64),
        2 => GUEST + random.random_range(0..BYTES),
        // An indirect table may lie there.
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

/// Any 16 bits, or mostly those below.
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
fn fill_data(session: &Session, random: &mut StdRng, packed: bool) -> io::Result<()> {
    let page = random.random_range(0..16);
    let table: Vec<u8> = (0..32).flat_map(|_| descriptor(random, packed.then_some(0))).collect();
    session.memory.write(DATA + 4096 * page, &table)
}

fn run(
    path: &Path,
    wanted: Features,
    random: &mut StdRng,
    mut state: impl FnMut(&Session, &mut StdRng) -> io::Result<()>,
) -> io::Result<Done> {
    let optional =
        [Features::RING_INDIRECT_DESC, Features::RING_EVENT_IDX, Features::IN_ORDER, Features::NET_MRG_RXBUF];
    let wanted =
        optional.into_iter().fold(wanted, |all, one| if random.random_bool(0.5) { all | one } else { all });
    let mut session = Session::begin(path, wanted)?;
    fill_data(&session, random, wanted.contains(Features::RING_PACKED))?;
    state(&session, random)?;
    session.start_queue(0, None)?;
    session.start_queue(TRANSMIT, None)?;
    let mut closed = false;
    for _ in 0..STATES {
        session.kick();
        closed = session.front_end.is_closed_within(LOOK);
        if closed {
            break;
        }
        state(&session, random)?;
    }
    Ok(Done { messages: session.front_end.messages, ring_states: STATES + 1, closed })
}

/// The available index goes on by anything; entries and descriptors are anything.
pub fn split(path: &Path, random: &mut StdRng) -> io::Result<Done> {
    let mut index = 0u16;
    run(path, Features::empty(), random, move |session, random| {
        for queue in [0, TRANSMIT] {
            let ring = Ring::of(queue);
            for _ in 0..random.random_range(1..40) {
                let at = u64::from(random.random_range(0..SIZE));
                session.memory.write(ring.descriptors + 16 * at, &descriptor(random, None))?;
            }
            let step = match random.random_range(0..8) {
                0 => random.next_u32() as u16,
                1 => SIZE + random.random_range(0..2),
                _ => random.random_range(0..9),
            };
            for entry in 0..step.min(SIZE) {
                let at = u64::from(index.wrapping_add(entry) % SIZE);
                session.memory.write(ring.driver + 4 + 2 * at, &mostly(random, SIZE).to_le_bytes())?;
            }
            index = index.wrapping_add(step);
            let flags = mostly(random, 2);
            session.memory.write(ring.driver, &[flags.to_le_bytes(), index.to_le_bytes()].concat())?;
        }
        Ok(())
    })
}

/// Slots are available, used, or neither, in any order.
pub fn packed(path: &Path, random: &mut StdRng) -> io::Result<Done> {
    run(path, Features::RING_PACKED, random, |session, random| {
        for queue in [0, TRANSMIT] {
            let ring = Ring::of(queue);
            let start = mostly(random, 8) % SIZE;
            for slot in 0..random.random_range(1..40) {
                let wrap = match random.random_range(0..12) {
                    0 => 0,
                    1 => PACKED_USED,
                    2 => PACKED_AVAILABLE | PACKED_USED,
                    _ => PACKED_AVAILABLE,
                };
                let at = u64::from((start + slot) % SIZE);
                session.memory.write(ring.descriptors + 16 * at, &descriptor(random, Some(wrap)))?;
            }
            // The driver's event suppression: a position, and flags of which one is reserved.
            let event = [random.next_u32() as u16, mostly(random, 4)];
            session.memory.write(ring.driver, &event.map(u16::to_le_bytes).concat())?;
        }
        Ok(())
    })
}
