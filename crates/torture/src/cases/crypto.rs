//! Cases for crypto devices (VIRTIO 1.3 §5.9): sessions by messages, and requests in a correct ring.

use std::io;
use std::path::Path;

use rand::rngs::StdRng;
use rand::{Rng, RngExt};
use virtio::Features;
use virtio::crypto::{Aead, Cipher, DataRequest, Mac, Opcode, Operation, SERVICES};

use super::done::Done;
use super::messages::Sender;
use super::rings::{LOOK, STATES};
use crate::front_end::{Seen, Session};
use crate::memory::{DATA, GUEST, Memory, Ring, SIZE};
use crate::message::{flags, id, odd_number, words};

/// Bytes of the two forms of a session's message (QEMU 7.2, QEMU 8.0 and later).
const FORMS: [usize; 2] = [632, 1072];
/// Descriptor flags (VIRTIO 1.3 §2.7.5).
const NEXT: u16 = 1;
const WRITE: u16 = 2;
/// The place of results: behind the longest request.
const RESULTS: u64 = DATA + 0x2_0000;

/// A session's message in the newer form.
fn create(opcode: Opcode, algorithm: u32, key_bytes: u32, result_bytes: u32) -> Vec<u8> {
    let is_mac = opcode == Opcode::MacCreateSession;
    let [cipher_key, auth_key] = if is_mac { [0, key_bytes] } else { [key_bytes, 0] };
    let fields = [algorithm, cipher_key, algorithm, result_bytes, auth_key, 0];
    let mut payload = words(&[opcode.code().into()]);
    payload.extend(fields.iter().flat_map(|field| field.to_ne_bytes()));
    // A cipher; encrypt.
    payload.extend([1, 1]);
    payload.resize(56, 0);
    // Different halves, as XTS wants them.
    payload.extend((0..64 + 512).map(|byte| byte as u8));
    payload.resize(FORMS[1], 0);
    payload
}

/// One that a device makes.
fn right_session(random: &mut StdRng) -> Vec<u8> {
    match random.random_range(0..4) {
        0 => create(Opcode::CipherCreateSession, Cipher::AesCbc.code(), 16, 0),
        1 => create(Opcode::CipherCreateSession, Cipher::AesXts.code(), 64, 0),
        2 => create(Opcode::AeadCreateSession, Aead::AesGcm.code(), 32, 16),
        _ => create(Opcode::MacCreateSession, Mac::HmacSha256.code(), 512, 32),
    }
}

/// A request for a session that no device should make: a field has any value, or a size belongs to no session.
fn wrong_session(random: &mut StdRng) -> Vec<u8> {
    let mut payload = right_session(random);
    for _ in 0..random.random_range(1..4) {
        let at = 4 * random.random_range(0..14);
        payload[at..at + 4].copy_from_slice(&(odd_number(random) as u32).to_ne_bytes());
    }
    if random.random_bool(0.05) {
        payload.resize(random.random_range(0..FORMS[1]), 0);
    } else if random.random_bool(0.3) {
        // In this form the first field means nothing, and the rest lies where it lies.
        payload.truncate(FORMS[0]);
    }
    payload
}

/// Creates sessions that are never closed, asks for impossible sessions, and closes sessions that do not exist.
///
/// # Errors
/// The back-end cannot be connected to or does not answer a correct session within 2 s; or this system has no memory
/// or descriptors left.
pub fn sessions(path: &Path, random: &mut StdRng) -> io::Result<Done> {
    let mut session = Session::begin(path, Features::empty())?;
    let mut sender = Sender::of(&mut session, random);
    for _ in 0..sender.count(random, 64) {
        let (request, payload) = match random.random_range(0..8) {
            0 => (id::CLOSE_CRYPTO_SESSION, words(&[odd_number(random)])),
            1..4 => (id::CREATE_CRYPTO_SESSION, wrong_session(random)),
            _ => (id::CREATE_CRYPTO_SESSION, right_session(random)),
        };
        if !sender.send(request, flags(random), &payload, &[]) {
            break;
        }
    }
    Ok(sender.end())
}

/// A request whose lengths may contradict each other or the available bytes, and the room for its result.
fn request(numbers: &[u64; 4], random: &mut StdRng) -> (Vec<u8>, u32) {
    let len = [0, 1, 16, 48, 4096, 65536][random.random_range(0..6)];
    let mut length = |right: u32| if random.random_bool(0.25) { odd_number(random) as u32 } else { right };
    let operation = match length(4) % 5 {
        0 => Operation::Mac { src_data_len: length(len), hash_result_len: length(32) },
        1 => Operation::Hash { src_data_len: length(len), hash_result_len: length(32) },
        2 | 3 => Operation::Aead {
            encrypt: length(1) == 1,
            iv_len: length(12),
            aad_len: length(0),
            src_data_len: length(len),
            dst_data_len: length(len + 16),
            tag_len: length(16),
        },
        _ => Operation::Cipher {
            encrypt: length(1) == 1,
            iv_len: length(16),
            src_data_len: length(len),
            dst_data_len: length(len),
        },
    };
    let result = length(len + 17);
    let is_there = random.random_bool(0.9);
    let session_id = if is_there { numbers[random.random_range(0..4)] } else { odd_number(random) };
    let mut bytes = DataRequest { session_id, algorithm: 0, flag: 1, operation }.to_bytes().to_vec();
    if random.random_bool(0.1) {
        let opcode = SERVICES[random.random_range(0..SERVICES.len())].0.code();
        bytes[..4].copy_from_slice(&opcode.to_le_bytes());
    }
    let iv = if len % 16 == 0 { 16 } else { 12 };
    let there = if random.random_bool(0.2) { random.random_range(0..=len + 16) } else { len + iv };
    bytes.resize(bytes.len() + there as usize, 0x5a);
    if random.random_bool(0.1) {
        bytes.truncate(random.random_range(0..=DataRequest::BYTES));
    }
    (bytes, result)
}

/// Submits requests in a split ring with correct chains, and overwrites their bytes while the device may read them.
///
/// # Errors
/// The back-end cannot be connected to or does not answer a correct session within 2 s or has not started its queue
/// within 2 s; or this system has no memory or descriptors left.
pub fn requests(path: &Path, random: &mut StdRng) -> io::Result<Done> {
    let mut session = Session::begin(path, Features::empty())?;
    let mut numbers = [0; 4];
    for number in &mut numbers {
        let payload = right_session(random);
        *number = session.front_end.ask_with(id::CREATE_CRYPTO_SESSION, &payload, FORMS[1])?;
    }
    session.start_queue(0, None)?;
    if !session.settles() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let mut done = Done::default();
    for available in 1..=random.random_range(1..=STATES) as u16 {
        session.forget(0);
        let (bytes, room) = request(&numbers, random);
        make_available(&session.memory, &bytes, room, available, random)?;
        session.kick_one(0);
        done.ring_states += 1;
        // The device may have read the lengths and not yet the data, or neither.
        let at = random.random_range(0..DataRequest::BYTES as u64 + 32);
        session.memory.write(DATA + at, &random.next_u64().to_le_bytes())?;
        match session.look(0, LOOK) {
            Seen::Closed => {
                done.closed = true;
                break;
            }
            Seen::Used => done.ring_states_seen += 1,
            // The chains are right: a device that stops the ring serves this front-end no more.
            Seen::Stopped => {
                done.ring_states_seen += 1;
                break;
            }
            Seen::No => {}
        }
    }
    Ok(done)
}

/// Writes a request and a chain of descriptors for it: the readable part in pieces, some of which may be empty, then the
/// writable part in one piece, or none.
fn make_available(
    memory: &Memory,
    bytes: &[u8],
    room: u32,
    available: u16,
    random: &mut StdRng,
) -> io::Result<()> {
    memory.write(DATA, bytes)?;
    let mut borders: Vec<u64> =
        (0..random.random_range(0..4)).map(|_| random.random_range(0..=bytes.len() as u64)).collect();
    borders.extend([0, bytes.len() as u64]);
    borders.sort_unstable();
    let readable = borders.windows(2).map(|piece| (DATA + piece[0], (piece[1] - piece[0]) as u32, 0));
    let writable = (!random.random_bool(0.05)).then_some((RESULTS, room.min(0x4_0000), WRITE));
    let pieces: Vec<_> = readable.chain(writable).collect();
    let ring = Ring::of(0);
    // A chain has at most five descriptors; each has eight of its own.
    let first = 8 * (available % (SIZE / 8));
    for (number, (at, len, write)) in (first..).zip(&pieces) {
        let is_last = usize::from(number - first) + 1 == pieces.len();
        let mut descriptor = (GUEST + at).to_le_bytes().to_vec();
        descriptor.extend(len.to_le_bytes());
        descriptor.extend((write | if is_last { 0 } else { NEXT }).to_le_bytes());
        descriptor.extend((number + 1).to_le_bytes());
        memory.write(ring.descriptors + 16 * u64::from(number), &descriptor)?;
    }
    let entry = available.wrapping_sub(1) % SIZE;
    memory.write(ring.driver + 4 + 2 * u64::from(entry), &first.to_le_bytes())?;
    memory.write(ring.driver + 2, &available.to_le_bytes())
}
