//! A hostile back-end: random replies and random requests at our front-end, seeded and bounded. No
//! panic, no leaked descriptor.
mod common;

use common::{fd, open_fds};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use vhost_user::bits::ProtocolFeatures as P;
use vhost_user::codec::Message;
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::header::Header;
use vhost_user::codec::payload::*;
use vhost_user::codec::reply::ReplyBody;
use vhost_user::session::frontend::FrontendSession;
use virtio::Features;

fn agreed() -> FrontendSession {
    let mut session = FrontendSession::new();
    for request in [Request::GetFeatures, Request::GetProtocolFeatures] {
        let id = request.id();
        session.request(request, vec![]).unwrap();
        session.receive(ReplyBody::Number(u64::MAX).into_message(id)).unwrap();
    }
    session.request(Request::SetProtocolFeatures(P::HANDLED), vec![]).unwrap();
    for (request, id) in [(Request::SetOwner, 3), (Request::SetFeatures(Features::all()), 2)] {
        session.request(request, vec![]).unwrap();
        session.receive(ReplyBody::acknowledge(true).into_message(id)).unwrap();
    }
    session
}

/// A request with its descriptors, of each kind that has a reply of its own.
fn question(random: &mut StdRng) -> (Request, usize) {
    let region = MemoryRegion { guest_address: 0, size_bytes: 4096, user_address: 0, mmap_offset: 0 };
    let inflight = Inflight { size_bytes: 0, offset: 0, queue_count: 1, queue_size: 1 };
    match random.random_range(0..10) {
        0 => (Request::GetFeatures, 0),
        1 => (Request::GetVringBase(VringState { index: 0, num: 0 }), 0),
        2 => (Request::GetConfig(ConfigAccess { offset: 0, migration: false, bytes: vec![0; 4] }), 0),
        3 => (Request::GetInflightFd(inflight), 0),
        4 => (Request::PostcopyAdvise, 0),
        5 => (Request::PostcopyListen, 0),
        6 => (Request::SetDeviceStateFd(DeviceStateTransfer { direction: StateDirection::Save }), 1),
        7 => (Request::SetMemTable(MemoryTable { regions: vec![region] }), 1),
        8 => (Request::AddMemReg(SingleRegion(region)), 1),
        _ => (Request::SetLogBase(LogArea { size_bytes: 1, offset: 0 }), 1),
    }
}

fn noise(random: &mut StdRng, id: u32) -> Message {
    // Mostly the reply's own form, so that what lies behind the first check is reached too.
    let (size, fds) = match id {
        31 => (24, 1),
        28 => (0, 1),
        5 | 37 => (40, 0),
        6 | 24 => (16, 0),
        _ => (8, 0),
    };
    let fits = random.random_ratio(4, 5);
    let mut payload = vec![0; if fits { size } else { random.random_range(0..64) }];
    for byte in &mut payload {
        *byte = if random.random_ratio(1, 16) { random.random_range(0..5) } else { 0 };
    }
    if random.random_bool(0.5) && payload.len() >= 24 {
        payload[16] = 1;
        payload[18] = 1;
    }
    let size = if random.random_ratio(1, 50) { random.random() } else { payload.len() as u32 };
    let id = if random.random_ratio(1, 50) { random.random_range(0..50) } else { id };
    let header = Header { id, reply: random.random_ratio(49, 50), need_reply: random.random_bool(0.5), size };
    let count = if fits { fds } else { random.random_range(0..3) };
    Message { header, payload, fds: (0..count).map(|_| fd().into()).collect() }
}

#[test]
fn random_replies_neither_panic_nor_leak() {
    let before = open_fds();
    let (mut answers, mut closed, mut requests) = (0, 0, 0);
    for seed in 0..5_000 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut session = agreed();
        for _ in 0..20 {
            let (request, count) = question(&mut random);
            let id = request.id();
            if session.request(request, (0..count).map(|_| fd()).collect()).is_err() {
                break;
            }
            match session.receive(noise(&mut random, id)) {
                Ok(_) => answers += 1,
                Err(_) => {
                    closed += 1;
                    break;
                }
            }
            let asked_id = random.random_range(0..12);
            let mut asked = noise(&mut random, asked_id);
            asked.header.reply = random.random_ratio(1, 20);
            if session.receive_on_channel(asked).is_ok() {
                requests += 1;
            }
        }
    }
    assert_eq!(open_fds(), before);
    println!("{answers} answers, {requests} requests taken or rejected, {closed} sessions closed");
    assert!(answers > 1_000 && requests > 500 && closed > 1_000);
}
