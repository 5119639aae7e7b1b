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
use crate::memory::{BYTES, GUEST, MARGIN, Memory, USER};
use crate::message::{self, HEADER_BYTES, NEED_REPLY, VERSION, flags, id, odd_number, payload, words};

/// The time that the back-end has to close a connection; a connection that it keeps open is closed from this side.
const CLOSES: Duration = Duration::from_millis(1);
/// How long answers may take. A back-end that was told to give no answers gives none.
const ANSWERS: Duration = Duration::from_millis(20);
/// Messages that are under way at once where each is answered.
const AT_ONCE: u64 = 16;

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

/// Sends hostile messages on a connection. If the back-end answers each message, a refusal does not end the session,
/// and it is known which messages were read.
pub(super) struct Sender<'a> {
    front_end: &'a mut FrontEnd,
    answers: bool,
    /// Answers to the correct messages before.
    answered_before: u64,
    sent: u64,
}

impl<'a> Sender<'a> {
    /// Uses a connection that was made just now.
    fn on(front_end: &'a mut FrontEnd) -> Self {
        Sender { front_end, answers: false, answered_before: 0, sent: 0 }
    }

    /// Half of the sessions ask for answers, if the back-end supports them.
    pub(super) fn of(session: &'a mut Session, random: &mut StdRng) -> Self {
        let answered_before = session.front_end.answered();
        let answers = session.answers && random.random_bool(0.5);
        Sender { front_end: &mut session.front_end, answers, answered_before, sent: 0 }
    }

    /// The number of messages of a case. It is higher if a refusal does not end the session.
    pub(super) fn count(&self, random: &mut StdRng, without_answers: u32) -> u32 {
        random.random_range(1..=if self.answers { 32 * without_answers } else { without_answers })
    }

    /// Sends a message with these flags or, if the session asks for answers, with correct flags. Returns `false` at
    /// the connection's end.
    pub(super) fn send(
        &mut self,
        request: u32,
        flags: u32,
        payload: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> bool {
        let flags = if self.answers { VERSION | NEED_REPLY } else { flags };
        self.send_bytes(&message::message(request, flags, payload), descriptors)
    }

    fn send_bytes(&mut self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> bool {
        self.sent += 1;
        if !self.front_end.send(bytes, descriptors) {
            return false;
        }
        let wanted = self.answered_before + self.sent;
        // After a missing answer, later ones cannot be matched to their messages any more.
        let is_over =
            |front_end: &mut FrontEnd| !front_end.hears(wanted, ANSWERS) || front_end.answered() < wanted;
        !(self.answers && self.sent.is_multiple_of(AT_ONCE) && is_over(self.front_end))
    }

    pub(super) fn end(self) -> Done {
        let closed = match self.answers {
            true => !self.front_end.hears(self.answered_before + self.sent, ANSWERS),
            false => self.front_end.is_closed_within(CLOSES),
        };
        let answered = (self.front_end.answered() - self.answered_before).min(self.sent);
        let messages_read = (answered + u64::from(closed)).min(self.sent);
        Done { messages: self.sent, messages_read, closed, ..Done::default() }
    }
}

/// Whether a request has a reply of its own that cannot express a refusal: the back-end refuses it by closing the
/// connection.
fn ends_when_refused(request: u32) -> bool {
    matches!(request, 6 | 11 | 24 | 28 | 31 | 41 | 42 | 43)
}

/// Sends well-formed messages in any order, with the descriptors that some of them carry.
///
/// # Errors
/// The back-end cannot be connected to or does not answer a correct session within 2 s; or this system has no memory
/// or descriptors left.
pub fn order(path: &Path, random: &mut StdRng) -> io::Result<Done> {
    if random.random_bool(0.2) {
        let mut front_end = FrontEnd::connect(path)?;
        return any_order(Sender::on(&mut front_end), random, |_, _| Vec::new());
    }
    let layout = if random.random_bool(0.5) { Features::RING_PACKED } else { Features::empty() };
    let mut session = begin(path, layout, random)?;
    let all = (0..id::BEYOND).map(|request| [0, 1, 2].map(|index| session.right(request, index)));
    let all: Vec<[Vec<u8>; 3]> = all.collect();
    any_order(Sender::of(&mut session, random), random, move |request, random| {
        all[request as usize][random.random_range(0..3)].clone()
    })
}

fn any_order(
    mut sender: Sender<'_>,
    random: &mut StdRng,
    mut right: impl FnMut(u32, &mut StdRng) -> Vec<u8>,
) -> io::Result<Done> {
    let memory = Memory::new()?;
    let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
    for _ in 0..sender.count(random, 40) {
        let request = random.random_range(1..id::BEYOND);
        // Without answers from here on, or without a connection: mostly another message, so that sessions last.
        let is_last = request == id::SET_PROTOCOL_FEATURES || ends_when_refused(request);
        if sender.answers && is_last && random.random_bool(0.95) {
            continue;
        }
        // A message that would be correct at another time, or has odd numbers.
        let body = if random.random_bool(0.3) { right(request, random) } else { Vec::new() };
        let body = if body.is_empty() { payload(request, random) } else { body };
        let descriptors: &[BorrowedFd<'_>] = match request {
            id::SET_MEM_TABLE | id::ADD_MEM_REG | 6 | 32 => &[memory.file().as_fd()],
            7 | 21 | id::SET_VRING_KICK..=id::SET_VRING_ERR => &[event.as_fd()],
            _ => &[],
        };
        let descriptors = if random.random_bool(0.9) { descriptors } else { &[] };
        let flags = flags(random);
        // Doubled, now and then.
        let again = random.random_bool(0.1);
        let goes_on = sender.send(request, flags, &body, descriptors);
        if !goes_on || again && !sender.send(request, flags, &body, descriptors) {
            break;
        }
    }
    Ok(sender.end())
}

/// Sends byte strings that may begin with a correct message.
///
/// # Errors
/// The back-end cannot be connected to or does not answer a correct session within 2 s; or this system has no memory
/// or descriptors left.
pub fn bytes(path: &Path, random: &mut StdRng) -> io::Result<Done> {
    let mut front_end = match random.random_bool(0.15) {
        true => FrontEnd::connect(path)?,
        false => running(path, random)?.front_end,
    };
    let answered_before = front_end.answered();
    let mut sender = Sender { answered_before, ..Sender::on(&mut front_end) };
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
        if bytes.is_empty() || !sender.send_bytes(&bytes, &[]) {
            break;
        }
    }
    Ok(sender.end())
}

/// Begins a session in which usually both queues run. A back-end may delay the next connection after one on which no
/// queue ran.
///
/// # Errors
/// The back-end cannot be connected to or does not answer a correct session within 2 s; or this system has no memory
/// or descriptors left.
pub fn running(path: &Path, random: &mut StdRng) -> io::Result<Session> {
    begin(path, Features::empty(), random)
}

fn begin(path: &Path, layout: Features, random: &mut StdRng) -> io::Result<Session> {
    let mut session = Session::begin(path, layout)?;
    if random.random_bool(0.75) {
        session.start_queue(0, None)?;
        session.start_queue(1, None)?;
        // The queues run before any other message comes.
        session.settles();
    }
    Ok(session)
}

/// Sends descriptors of any kind and number with messages that are otherwise correct.
///
/// # Errors
/// The back-end cannot be connected to or does not answer a correct session within 2 s; or this system has no memory
/// or descriptors left.
pub fn descriptors(path: &Path, random: &mut StdRng) -> io::Result<Done> {
    let mut session = running(path, random)?;
    let mut sender = Sender::of(&mut session, random);
    for _ in 0..sender.count(random, 8) {
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
        if !sender.send(request, VERSION, &body, &borrowed) {
            break;
        }
    }
    Ok(sender.end())
}

/// Sends memory tables with impossible regions.
///
/// # Errors
/// The back-end cannot be connected to or does not answer a correct session within 2 s; or this system has no memory
/// or descriptors left.
pub fn memory(path: &Path, random: &mut StdRng) -> io::Result<Done> {
    let mut session = running(path, random)?;
    let mut sender = Sender::of(&mut session, random);
    for _ in 0..sender.count(random, 4) {
        let regions = random.random_range(0..10usize);
        let announced = if random.random_bool(0.8) { regions as u64 } else { odd_number(random) };
        let mut table = words(&[announced]);
        for region in 0..regions as u64 {
            let right = [GUEST + region * BYTES, BYTES, USER + region * BYTES, MARGIN];
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
        if !sender.send(id::SET_MEM_TABLE, VERSION, &table, &borrowed) {
            break;
        }
    }
    let done = sender.end();
    // Rings in memory that may no longer be there.
    let _ = session.start_queue(random.random_range(0..3), None);
    let closed = done.closed || session.front_end.is_closed_within(CLOSES);
    Ok(Done { closed, ..done })
}

/// A header whose payload is never sent completely.
pub fn half_a_message(random: &mut StdRng) -> Vec<u8> {
    let body = payload(id::SET_MEM_TABLE, random);
    let mut bytes = message::message(id::SET_MEM_TABLE, VERSION, &body);
    bytes.truncate(random.random_range(1..HEADER_BYTES + body.len()));
    bytes
}
