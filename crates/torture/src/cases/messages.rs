//! Cases of messages.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{Mode, OFlags, open};
use rustix::pipe::{PipeFlags, pipe_with};
use virtio::Features;

use super::done::Done;
use crate::front_end::{FrontEnd, Session};
use crate::memory::{BYTES, GUEST, Memory, USER};
use crate::message::{self, HEADER_BYTES, VERSION, flags, id, odd_number, payload, words};

/// How long the back-end has to close a connection; what it keeps open is closed from this side.
const CLOSES: Duration = Duration::from_millis(1);
/// Messages of a case at most.
const MOST: u32 = 40;

/// A descriptor of a kind, by number.
fn descriptor(random: &mut StdRng) -> io::Result<OwnedFd> {
    Ok(match random.random_range(0..7) {
        0 => Memory::new()?.file().try_clone()?.into(),
        1 => pipe_with(PipeFlags::CLOEXEC)?.0,
        2 => pipe_with(PipeFlags::CLOEXEC)?.1,
        3 => open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?,
        4 => open("/", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?,
        5 => std::os::unix::net::UnixStream::pair()?.0.into(),
        _ => eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
    })
}

fn end(mut front_end: FrontEnd) -> Done {
    let closed = front_end.is_closed_within(CLOSES);
    Done { messages: front_end.messages, ring_states: 0, closed }
}

/// Messages of the right form, with the descriptors that some of them have.
pub fn order(path: &Path, random: &mut StdRng) -> io::Result<Done> {
    let mut front_end = match random.random_bool(0.5) {
        true => FrontEnd::connect(path)?,
        false => Session::begin(path, Features::RING_PACKED)?.front_end,
    };
    let memory = Memory::new()?;
    let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
    for _ in 0..random.random_range(1..=MOST) {
        let request = random.random_range(1..id::BEYOND);
        let bytes = message::message(request, flags(random), &payload(request, random));
        let descriptors: &[BorrowedFd<'_>] = match request {
            id::SET_MEM_TABLE | id::ADD_MEM_REG | 6 | 32 => &[memory.file().as_fd()],
            7 | 21 | id::SET_VRING_KICK..=id::SET_VRING_ERR => &[event.as_fd()],
            _ => &[],
        };
        let descriptors = if random.random_bool(0.9) { descriptors } else { &[] };
        // Doubled, now and then.
        let again = random.random_bool(0.1);
        if !front_end.send(&bytes, descriptors) || again && !front_end.send(&bytes, descriptors) {
            break;
        }
    }
    Ok(end(front_end))
}

/// Bytes of which only the beginning is right.
pub fn bytes(path: &Path, random: &mut StdRng) -> io::Result<Done> {
    let mut front_end = match random.random_bool(0.3) {
        true => FrontEnd::connect(path)?,
        false => Session::begin(path, Features::empty())?.front_end,
    };
    for _ in 0..random.random_range(1..=4) {
        let request = random.random_range(0..id::BEYOND);
        let body = payload(request, random);
        let size = match random.random_range(0..4) {
            0 => odd_number(random) as u32,
            1 => (body.len() as u32).wrapping_add(random.random_range(0..16)),
            2 => (body.len() as u32).saturating_sub(random.random_range(0..16)),
            _ => body.len() as u32,
        };
        let mut bytes = message::with_size(request, flags(random), size, &body);
        if random.random_bool(0.3) {
            let at = random.random_range(0..bytes.len());
            bytes[at] ^= 1 << random.random_range(0..8);
        }
        if random.random_bool(0.3) {
            bytes.truncate(random.random_range(0..bytes.len()));
        }
        if bytes.is_empty() || !front_end.send(&bytes, &[]) {
            break;
        }
    }
    Ok(end(front_end))
}

/// Descriptors of any kind and number beside messages that are right.
pub fn descriptors(path: &Path, random: &mut StdRng) -> io::Result<Done> {
    let mut session = Session::begin(path, Features::empty())?;
    for _ in 0..random.random_range(1..=8) {
        let request = match random.random_range(0..4) {
            0 => random.random_range(1..id::BEYOND),
            _ => random.random_range(id::SET_VRING_KICK..=id::SET_VRING_ERR),
        };
        let count = match random.random_range(0..4) {
            0 => 0,
            1 => random.random_range(2..64),
            _ => 1,
        };
        let held: Vec<OwnedFd> = (0..count).map(|_| descriptor(random)).collect::<io::Result<_>>()?;
        let borrowed: Vec<BorrowedFd<'_>> = held.iter().map(AsFd::as_fd).collect();
        let body = match request {
            id::SET_VRING_KICK..=id::SET_VRING_ERR => words(&[random.random_range(0..4)]),
            _ => payload(request, random),
        };
        if !session.front_end.send(&message::message(request, VERSION, &body), &borrowed) {
            break;
        }
    }
    Ok(end(session.front_end))
}

/// Tables of regions that cannot be.
pub fn memory(path: &Path, random: &mut StdRng) -> io::Result<Done> {
    let mut session = Session::begin(path, Features::empty())?;
    for _ in 0..random.random_range(1..=4) {
        let regions = random.random_range(0..10usize);
        let announced = if random.random_bool(0.8) { regions as u64 } else { odd_number(random) };
        let mut table = words(&[announced]);
        for region in 0..regions as u64 {
            let right = [GUEST + region * BYTES, BYTES, USER + region * BYTES, 0];
            let fields = right.map(|field| if random.random_bool(0.8) { field } else { odd_number(random) });
            table.extend(words(&fields));
        }
        let files = if random.random_bool(0.8) { regions } else { random.random_range(0..12) };
        let held: Vec<Memory> = (0..files).map(|_| Memory::new()).collect::<io::Result<_>>()?;
        if random.random_bool(0.2)
            && let Some(memory) = held.first()
        {
            memory.set_len(random.random_range(0..BYTES))?;
        }
        let borrowed: Vec<BorrowedFd<'_>> = held.iter().map(|memory| memory.file().as_fd()).collect();
        if !session.front_end.send(&message::message(id::SET_MEM_TABLE, VERSION, &table), &borrowed) {
            break;
        }
    }
    // Rings in memory that may no longer be there.
    let _ = session.start_queue(random.random_range(0..3), None);
    Ok(end(session.front_end))
}

/// A header whose payload never comes whole.
pub fn half_a_message(random: &mut StdRng) -> Vec<u8> {
    let body = payload(id::SET_MEM_TABLE, random);
    let mut bytes = message::message(id::SET_MEM_TABLE, VERSION, &body);
    bytes.truncate(random.random_range(1..HEADER_BYTES + body.len()));
    bytes
}
