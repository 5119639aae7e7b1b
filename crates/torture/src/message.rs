//! Correct and wrong messages as bytes.

use rand::rngs::StdRng;
use rand::{Rng, RngExt};

/// Requests of front-ends (vhost-user text, "Front-end message types") that cases use.
pub mod id {
    pub const GET_FEATURES: u32 = 1;
    pub const SET_FEATURES: u32 = 2;
    pub const SET_OWNER: u32 = 3;
    pub const SET_MEM_TABLE: u32 = 5;
    pub const SET_VRING_NUM: u32 = 8;
    pub const SET_VRING_ADDR: u32 = 9;
    pub const SET_VRING_BASE: u32 = 10;
    pub const GET_VRING_BASE: u32 = 11;
    pub const SET_VRING_KICK: u32 = 12;
    pub const SET_VRING_CALL: u32 = 13;
    pub const SET_VRING_ERR: u32 = 14;
    pub const GET_PROTOCOL_FEATURES: u32 = 15;
    pub const SET_PROTOCOL_FEATURES: u32 = 16;
    pub const SET_VRING_ENABLE: u32 = 18;
    pub const CREATE_CRYPTO_SESSION: u32 = 26;
    pub const CLOSE_CRYPTO_SESSION: u32 = 27;
    pub const GET_INFLIGHT_FD: u32 = 31;
    pub const ADD_MEM_REG: u32 = 37;
    /// The first number after the last known request.
    pub const BEYOND: u32 = 50;
}

/// Version 1, the only version.
pub const VERSION: u32 = 1;
/// The bits of a header's flags that hold the version.
const VERSION_BITS: u32 = 0b11;
/// The message is an answer.
pub const REPLY: u32 = 1 << 2;
/// The sender waits for an acknowledgement.
pub const NEED_REPLY: u32 = 1 << 3;
/// Bytes of a header.
pub const HEADER_BYTES: usize = 12;

/// A message: header, then payload.
pub fn message(id: u32, flags: u32, payload: &[u8]) -> Vec<u8> {
    with_size(id, flags, payload.len() as u32, payload)
}

/// A message whose header has another size.
pub fn with_size(id: u32, flags: u32, size: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    for word in [id, flags, size] {
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    bytes.extend_from_slice(payload);
    bytes
}

/// Checks the header of an answer: the request's number, version 1, the reply flag, and the size of the payload.
///
/// # Errors
/// The header differs; the text shows the header's values.
pub fn check_answer(header: [u8; HEADER_BYTES], request: u32, payload_bytes: usize) -> Result<(), String> {
    let [id, flags, size] =
        [0, 4, 8].map(|at| u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]));
    let is_answer = flags & (VERSION_BITS | REPLY) == VERSION | REPLY;
    if id == request && is_answer && size as usize == payload_bytes {
        return Ok(());
    }
    Err(format!(
        "the answer to request {request} has request {id}, flags {flags:#x} and {size} bytes of payload in its header \
         (expected: version 1, the reply flag, {payload_bytes} bytes)"
    ))
}

/// Words one after the other.
pub fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// The payload with a queue's index and a number.
pub fn state(index: u32, number: u32) -> Vec<u8> {
    [index, number].iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// A number that implementations often handle wrongly, or a random one.
pub fn odd_number(random: &mut StdRng) -> u64 {
    match random.random_range(0..8) {
        0 => 0,
        1 => random.random_range(0..8),
        2 => 1 << random.random_range(0..64),
        3 => (1u64 << random.random_range(0..64)).wrapping_sub(1),
        4 => u64::MAX - random.random_range(0..4096),
        5 => u64::from(u32::MAX) + random.random_range(0..3),
        6 => random.random_range(0..1 << 21),
        _ => random.next_u64(),
    }
}

/// The flags of a message, usually correct ones.
pub fn flags(random: &mut StdRng) -> u32 {
    match random.random_range(0..20) {
        0 => random.next_u32(),
        1..=5 => VERSION | NEED_REPLY,
        _ => VERSION,
    }
}

/// A payload of the message's size, filled with odd numbers.
pub fn payload(id: u32, random: &mut StdRng) -> Vec<u8> {
    let bytes = match id {
        // Messages without a payload.
        1 | 3 | 4 | 7 | 15 | 17 | 21 | 28 | 29 | 30 | 34 | 36 | 40 | 43 => 0,
        5 => 8 + 32 * random.random_range(0..9),
        9 | 37 | 38 => 40,
        6 => 16,
        22 => 32,
        24 | 25 => 12 + random.random_range(0..64),
        31 | 32 => 24,
        _ => 8,
    };
    let mut payload = Vec::with_capacity(bytes + 8);
    while payload.len() < bytes {
        // Many fields have 32 bits, and queues are few.
        if random.random_bool(0.5) {
            payload.extend_from_slice(&state(random.random_range(0..4), odd_number(random) as u32));
        } else {
            payload.extend_from_slice(&odd_number(random).to_ne_bytes());
        }
    }
    payload.truncate(bytes);
    payload
}
