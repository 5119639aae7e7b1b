//! Random conversations, seeded and bounded: no panic, no leaked descriptor, and every message is
//! either taken, answered or ends the session.
mod common;

use common::device::Device;
use common::{fd, open_fds, step};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use vhost_user::bits::ProtocolFeatures as P;
use vhost_user::codec::Message;
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::header::Header;
use vhost_user::codec::payload::*;
use vhost_user::codec::table::FRONTEND_REQUESTS;
use vhost_user::session::backend::{BackendSession, Offer};
use virtio::Features;

/// A payload that is nearly right: the size is that of the message, numbers are small or extreme.
fn payload(random: &mut StdRng, id: u32) -> Vec<u8> {
    let rule = FRONTEND_REQUESTS.get(id.wrapping_sub(1) as usize);
    let range = rule.map_or(0..=64, |rule| *rule.shape.sizes().start()..=*rule.shape.sizes().end());
    let mut size = random.random_range(range).min(300);
    if random.random_ratio(1, 2) {
        size = size / 8 * 8;
    }
    if id == 5 {
        size = 8 + 32 * random.random_range(0..=2);
    }
    let mut bytes = Vec::new();
    while bytes.len() < size {
        let word: u32 = match random.random_range(0..8) {
            0..4 => random.random_range(0..4),
            4 => 256,
            5 => 0x8000,
            6 => random.random_range(0..64) << 12,
            _ => random.random(),
        };
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    bytes.truncate(size);
    match id {
        5 if size >= 8 => bytes[..8].copy_from_slice(&(((size - 8) / 32) as u64).to_ne_bytes()),
        16 => bytes.copy_from_slice(&P::HANDLED.bits().to_ne_bytes()),
        2 => bytes.copy_from_slice(
            &(1u64 << 32 | 1 << 30 | u64::from(random.random_bool(0.5)) << 34).to_ne_bytes(),
        ),
        24 | 25 if size >= 12 => bytes[4..8].copy_from_slice(&(size as u32 - 12).to_ne_bytes()),
        _ => {}
    }
    bytes
}

/// A message that sets up a ring or memory as a front-end would: it leads to the deeper states.
fn plausible(random: &mut StdRng) -> Message {
    let index = random.random_range(0..3u8);
    let state = |num| VringState { index: index.into(), num };
    let vring = VringFd { index, has_fd: random.random_bool(0.8) };
    let descriptor = random.random_range(1..4u64) << 16;
    let address = VringAddress {
        index: index.into(),
        log_used: random.random_bool(0.2),
        descriptor,
        used: descriptor + 0x2000,
        available: descriptor + 0x1000,
        log: 0,
    };
    let at = random.random_range(0..4u64) << 20;
    let region = MemoryRegion { guest_address: at, size_bytes: 1 << 20, user_address: at, mmap_offset: 0 };
    let request = match random.random_range(0..14) {
        0 | 1 => Request::SetVringNum(state(1 << random.random_range(0..9u32))),
        2 | 3 => Request::SetVringAddr(address),
        4 => Request::SetVringBase(state(random.random_range(0..2))),
        5 | 6 => Request::SetVringKick(vring),
        7 => Request::SetVringCall(vring),
        8 => Request::GetVringBase(state(0)),
        9 => Request::SetVringEnable(state(random.random_range(0..2))),
        10 => Request::VringKick(state(0)),
        11 => Request::AddMemReg(SingleRegion(region)),
        12 => Request::RemMemReg(SingleRegion(region)),
        _ => Request::SetMemTable(MemoryTable { regions: vec![region] }),
    };
    let count = match &request {
        Request::SetVringKick(vring) | Request::SetVringCall(vring) => usize::from(vring.has_fd),
        Request::AddMemReg(_) | Request::SetMemTable(_) => 1,
        _ => 0,
    };
    let mut message = request.to_message((0..count).map(|_| fd()).collect());
    message.header.need_reply = random.random_ratio(49, 50);
    message
}

/// A message with the right number and little else sure to be right.
fn wild(random: &mut StdRng) -> Message {
    let id = if random.random_ratio(1, 50) { random.random() } else { random.random_range(0..46) };
    let payload = payload(random, id);
    let usual = FRONTEND_REQUESTS.get(id.wrapping_sub(1) as usize).map_or(0, |rule| *rule.fds.start());
    let count = if random.random_ratio(1, 5) { random.random_range(0..4) } else { usual };
    let header = Header {
        id,
        reply: random.random_ratio(1, 50),
        // Acknowledged, most violations leave the session open.
        need_reply: random.random_ratio(49, 50),
        size: payload.len() as u32,
    };
    Message { header, payload, fds: (0..count).map(|_| fd().into()).collect() }
}

#[test]
fn random_conversations_neither_panic_nor_leak() {
    let before = open_fds();
    let (mut events, mut rejected, mut closed, mut started) = (0, 0, 0, 0);
    for seed in 0..2_000 {
        let mut random = StdRng::seed_from_u64(seed);
        let features = Features::VERSION_1 | Features::RING_PACKED | Features::ACCESS_PLATFORM;
        let mut session = BackendSession::new(Offer::new(features, P::HANDLED, 3).unwrap());
        let mut device = Device::default();
        for opening in [16, 3, 2] {
            let payload = payload(&mut random, opening);
            let header = Header { id: opening, reply: false, need_reply: true, size: payload.len() as u32 };
            step(&mut session, &mut device, Message { header, payload, fds: vec![] }).unwrap();
        }
        for _ in 0..100 {
            let message = if random.random_bool(0.7) { plausible(&mut random) } else { wild(&mut random) };
            device.refuse = random.random_ratio(1, 20);
            if step(&mut session, &mut device, message).is_err() {
                closed += 1;
                break;
            }
        }
        rejected += device.log.iter().filter(|entry| entry.starts_with("rejected")).count();
        started += device.log.iter().filter(|entry| entry.starts_with("started")).count();
        events += device.log.len();
    }
    assert_eq!(open_fds(), before);
    println!("{events} events, {rejected} rejected, {closed} closed, {started} rings started");
    // The messages must get somewhere, or this test shows nothing.
    assert!(started > 1_000, "only {started} rings started");
    assert!(rejected > 10_000 && closed > 500 && events > 20_000);
}
