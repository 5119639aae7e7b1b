//! Cases for what both ends share: memory, eventfds, and the socket itself.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rustix::event::{EventfdFlags, eventfd};
use virtio::Features;

use super::done::Done;
use super::messages::{half_a_message, running};
use crate::front_end::{FrontEnd, Seen, Session};
use crate::memory::{BYTES, DATA, GUEST, Memory, Ring, SIZE};
use crate::message::{self, VERSION, id, state};

/// How long a front-end stays in the middle of a message.
const PAUSE: Duration = Duration::from_millis(3);
/// How long withdrawn memory is watched.
const WITHDRAWN: Duration = Duration::from_millis(10);
/// Requests whose answers are not read.
const UNREAD: usize = 400;

fn layout(random: &mut StdRng) -> Features {
    if random.random_bool(0.5) { Features::RING_PACKED } else { Features::empty() }
}

/// Buffers 2048 bytes apart, in one descriptor each, from the first on.
struct Buffers {
    queue: u32,
    count: u16,
    /// The first one's guest address.
    first: u64,
    bytes: u32,
    /// The flags of their descriptors (VIRTIO 1.3 §2.7.5).
    flags: u16,
}

/// A frame of 60 bytes behind a net header, in `count` descriptors.
fn transmit(session: &Session, count: u16) -> io::Result<()> {
    make_available(session, &Buffers { queue: 1, count, first: GUEST + DATA, bytes: 72, flags: 0 })
}

fn make_available(session: &Session, buffers: &Buffers) -> io::Result<()> {
    let Buffers { queue, count, first, bytes, flags } = *buffers;
    let ring = Ring::of(queue);
    let packed = session.features.contains(Features::RING_PACKED);
    for at in 0..count {
        let mut descriptor = [0; 16];
        descriptor[..8].copy_from_slice(&(first + 2048 * u64::from(at)).to_le_bytes());
        descriptor[8..12].copy_from_slice(&bytes.to_le_bytes());
        if packed {
            descriptor[12..14].copy_from_slice(&at.to_le_bytes());
            descriptor[14..].copy_from_slice(&(flags | 1 << 7).to_le_bytes());
        } else {
            descriptor[12..14].copy_from_slice(&flags.to_le_bytes());
            session.memory.write(ring.driver + 4 + 2 * u64::from(at), &at.to_le_bytes())?;
        }
        session.memory.write(ring.descriptors + 16 * u64::from(at), &descriptor)?;
    }
    if !packed {
        session.memory.write(ring.driver + 2, &count.to_le_bytes())?;
    }
    Ok(())
}

/// Truncates the shared memory's file while a ring in it runs.
///
/// # Errors
/// The back-end cannot be connected to or does not answer a correct session within 2 s; or this system has no memory
/// or descriptors left. The file cannot be truncated.
pub fn shrink(path: &Path, random: &mut StdRng) -> io::Result<Done> {
    let mut session = Session::begin(path, layout(random))?;
    transmit(&session, 8)?;
    let early = random.random_bool(0.5);
    let left = [0, 4096, Ring::of(1).descriptors + 4096, DATA][random.random_range(0..4)];
    if early {
        session.memory.set_len(left)?;
    }
    session.start_queue(0, None)?;
    session.start_queue(1, None)?;
    session.kick();
    session.memory.set_len(left)?;
    session.kick();
    let closed = session.front_end.is_closed_within(PAUSE);
    session.memory.set_len(BYTES)?;
    session.kick();
    let ring_states_seen = u64::from(session.look(1, Duration::ZERO) != Seen::No);
    Ok(Done { ring_states: 3, ring_states_seen, closed, ..Done::default() })
}

/// Withdraws memory while a ring in other memory runs, whose buffers for received frames are in it.
///
/// # Errors
/// The back-end cannot be connected to or does not answer a correct session within 2 s; or this system has no memory
/// or descriptors left.
pub fn withdraw(path: &Path, random: &mut StdRng) -> io::Result<Done> {
    /// The descriptor is for writing.
    const WRITE: u16 = 1 << 1;
    let mut session = Session::begin(path, layout(random))?;
    let second = Memory::new()?;
    session.share_memory(Some(&second));
    let first = GUEST + BYTES;
    make_available(&session, &Buffers { queue: 0, count: SIZE, first, bytes: 2048, flags: WRITE })?;
    session.start_queue(0, None)?;
    session.start_queue(1, None)?;
    let mut done = Done { ring_states: 1, ..Done::default() };
    if !session.settles() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    session.kick();
    // Frames may come at any time.
    done.ring_states_seen = u64::from(session.look(0, PAUSE) != Seen::No);
    // The answer says that the back-end has read this message: from then on the memory is no longer its own.
    session.share_memory(None);
    if !session.settles() {
        done.closed = session.front_end.is_closed_within(Duration::ZERO);
        return Ok(done);
    }
    second.fill()?;
    session.kick();
    done.closed = session.front_end.is_closed_within(WITHDRAWN);
    done.spoiled = !second.is_untouched()? || !second.has_margins()? || !session.memory.has_margins()?;
    Ok(done)
}

/// A call eventfd that is full: a write to it blocks.
fn call_that_blocks() -> io::Result<OwnedFd> {
    let call = eventfd(0, EventfdFlags::CLOEXEC)?;
    rustix::io::write(&call, &(u64::MAX - 1).to_ne_bytes())?;
    Ok(call)
}

/// Passes a call eventfd that is full and blocks its writer, while frames are sent.
///
/// # Errors
/// The back-end cannot be connected to or does not answer a correct session within 2 s; or this system has no memory
/// or descriptors left.
pub fn full_eventfd(path: &Path, random: &mut StdRng) -> io::Result<Done> {
    let call = call_that_blocks()?;
    let mut session = Session::begin(path, layout(random))?;
    transmit(&session, 16)?;
    session.start_queue(0, Some(&call))?;
    session.start_queue(1, Some(&call))?;
    session.kick();
    let mut closed = session.front_end.is_closed_within(PAUSE);
    // Whether it answers while it may wait for the call.
    if !closed {
        closed = !session.front_end.say(id::SET_VRING_ENABLE, &state(1, 0));
    }
    Ok(Done { ring_states: 1, closed, ..Done::default() })
}

/// Sends half a message and stops, or sends requests and reads no answers.
///
/// # Errors
/// The back-end cannot be connected to or does not answer a correct session within 2 s; or this system has no memory
/// or descriptors left.
pub fn slow(path: &Path, random: &mut StdRng) -> io::Result<Done> {
    let mut done = Done::default();
    let mut front_end = match random.random_bool(0.1) {
        true => FrontEnd::connect(path)?,
        false => running(path, random)?.front_end,
    };
    if random.random_bool(0.5) {
        front_end.send(&half_a_message(random), &[]);
        done.closed = front_end.is_closed_within(PAUSE);
        done.messages = 1;
        return Ok(done);
    }
    let question = match random.random_bool(0.5) {
        true => message::message(id::GET_FEATURES, VERSION, &[]),
        false => message::message(
            id::GET_INFLIGHT_FD,
            VERSION,
            &[[0; 16].as_slice(), &[2, 0, 0, 1, 0, 0, 0, 0]].concat(),
        ),
    };
    let all = question.repeat(UNREAD);
    front_end.send_unread(&all);
    std::thread::sleep(PAUSE);
    let before = front_end.answered();
    done.closed = front_end.is_closed_within(Duration::from_millis(1));
    (done.messages, done.messages_read) = (UNREAD as u64, front_end.answered() - before);
    Ok(done)
}
