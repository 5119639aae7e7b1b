//! Bytes, messages and rings at random, the same in every run.
use std::os::fd::OwnedFd;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use vhost_user::codec::Message;
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::header::Header;
use vhost_user::codec::payload::{SingleRegion, VringFd};
use vhost_user::codec::table::FRONTEND_REQUESTS;

use super::scene::Scene;
use super::{memfd, state};
use crate::switch_process::SOON;
use crate::switch_process::guest::{
    DATA, DATA_BYTES, Guest, RINGS, TRANSMIT, USER, event_fd, frame, layouts, plain, region, ring_addresses,
};

/// Bytes that are no messages at all.
#[test]
fn garbage_instead_of_messages() {
    let mut scene = Scene::new();
    for seed in 0..50 {
        scene.attacked_by(plain(), None, |scene| {
            let mut random = StdRng::seed_from_u64(seed);
            let mut socket = UnixStream::connect(scene.path()).unwrap();
            for _ in 0..200 {
                let bytes: Vec<u8> = (0..random.random_range(1..200)).map(|_| random.random()).collect();
                // Closed before all is written, as a rule.
                if socket.write_all(&bytes).is_err() {
                    break;
                }
            }
        });
    }
    scene.end();
}

/// A message that is nearly right: its number exists, its size may fit, its numbers are small or extreme.
fn wild(random: &mut StdRng) -> Message {
    let id = if random.random_ratio(1, 50) { random.random() } else { random.random_range(0..46) };
    let rule = FRONTEND_REQUESTS.get(u32::wrapping_sub(id, 1) as usize);
    let sizes = rule.map_or(0..=64, |rule| *rule.shape.sizes().start()..=*rule.shape.sizes().end());
    let size = random.random_range(sizes).min(300) / 4 * 4;
    let mut payload = Vec::new();
    while payload.len() < size {
        let word: u32 = match random.random_range(0..6) {
            0..3 => random.random_range(0..4),
            3 => 256,
            4 => random.random_range(0..64) << 12,
            _ => random.random(),
        };
        payload.extend_from_slice(&word.to_ne_bytes());
    }
    let usual = rule.map_or(0, |rule| *rule.fds.start());
    let count = if random.random_ratio(1, 5) { random.random_range(0..4) } else { usual };
    let header = Header {
        id,
        reply: random.random_ratio(1, 50),
        need_reply: random.random_ratio(49, 50),
        size: payload.len() as u32,
    };
    let fds = (0..count)
        .map(|_| if random.random() { event_fd().into() } else { OwnedFd::from(memfd(1 << 20)).into() });
    Message { header, payload, fds: fds.collect() }
}

/// A message that a front-end could well send at another time.
fn plausible(random: &mut StdRng) -> Message {
    let index = random.random_range(0..3u8);
    let vring = VringFd { index, has_fd: random.random_bool(0.9) };
    let extra = region(DATA + DATA_BYTES * random.random_range(1..4u64), 1 << 20);
    let mut address = ring_addresses(index % 2);
    if random.random_ratio(1, 4) {
        address.used = USER + RINGS + random.random_range(0..0x100u64) * 0x1000;
    }
    let request = match random.random_range(0..12) {
        0 => Request::SetVringNum(state(index, 1 << random.random_range(0..9u32))),
        1 => Request::SetVringAddr(address),
        2 => Request::SetVringBase(state(index, random.random_range(0..64))),
        3 | 4 => Request::SetVringKick(vring),
        5 => Request::SetVringCall(vring),
        6 => Request::SetVringErr(vring),
        7 => Request::GetVringBase(state(index, 0)),
        8 | 9 => Request::SetVringEnable(state(index, random.random_range(0..2))),
        10 => Request::AddMemReg(SingleRegion(extra)),
        _ => Request::RemMemReg(SingleRegion(extra)),
    };
    let fds = match &request {
        Request::SetVringKick(vring) | Request::SetVringCall(vring) | Request::SetVringErr(vring) => {
            (0..usize::from(vring.has_fd)).map(|_| event_fd()).collect()
        }
        Request::AddMemReg(_) => vec![memfd(1 << 20).into()],
        _ => vec![],
    };
    let mut message = request.to_message(fds);
    message.header.need_reply = true;
    message
}

/// Conversations that begin well, with rings that run, and go on at random; so do the rings.
#[test]
fn random_conversations() {
    let mut scene = Scene::new();
    let (mut messages, mut closed) = (0, 0);
    for seed in 0..150 {
        let mut random = StdRng::seed_from_u64(seed);
        let features = layouts()[usize::from(random.random::<bool>())];
        let mut guest = Guest::running(&scene.path(), features);
        for number in 0..200 {
            let wildly = random.random_ratio(1, 10);
            let message = if wildly { wild(&mut random) } else { plausible(&mut random) };
            if guest.connection.send(message, Some(Instant::now() + SOON)).is_err() {
                closed += 1;
                break;
            }
            messages += 1;
            // Answers are read and not believed; frames go on meanwhile.
            while let Ok(Some(_)) = guest.connection.try_receive() {}
            guest.write(RINGS + random.random_range(0..0x2_0000), &random.random::<[u8; 8]>());
            guest.kick_anyway(TRANSMIT);
            if number % 8 == 0 {
                scene.friend.send(&frame(number, 300));
                scene.friend.wait_for_used(TRANSMIT, 1);
            }
        }
        drop(guest);
        if seed % 10 == 9 {
            scene.victim_is_alone();
            scene.serves_the_next(features);
            scene.bystanders.go_on();
        }
    }
    let said = scene.switch.logged().len();
    println!("{messages} messages, {closed} conversations closed by the switch, which said {said} lines");
    assert!(messages > 3000, "only {messages} messages: the conversations end too early");
    assert!(said < 20 * 150, "{said} lines for 150 conversations");
    scene.end();
}
