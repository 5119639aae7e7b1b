//! Requests and sessions that no honest driver makes. Each published hole of other crypto devices has a test.
mod common;

use common::{Driver, bytes, run, sessions, setup};
use crypto_device::{Executed, Executor, Limits, Rejected, Sessions};
use proptest::prelude::*;
use virtio::crypto::{Chain, Operation, Status};

fn cbc(sessions: &mut Sessions) -> u64 {
    sessions.create(&setup(2, 3, &[7; 16], 0)).unwrap()
}

fn operation(iv_len: u32, src_data_len: u32, dst_data_len: u32) -> Operation {
    Operation::Cipher { encrypt: true, iv_len, src_data_len, dst_data_len }
}

/// CVE-2020-14374 (a length beyond the request's), CVE-2020-14376 and CVE-2020-14377 (a request that is copied
/// unchecked), CVE-2020-14378 (a count below zero), CVE-2017-5931 (a sum of lengths that overflows), CVE-2023-3180
/// (source and destination of different lengths).
#[test]
fn lengths_that_contradict_each_other_or_the_buffers_are_refused() {
    let mut sessions = sessions();
    let session = cbc(&mut sessions);
    let whole = |operation| bytes(session, operation, &[&[0; 16], &[1; 32]]);
    assert_eq!(run(&sessions, whole(operation(16, 32, 32)), 32).0, Status::Ok);
    for (iv, source, destination) in [
        (16, 48, 48),
        (0, 48, 48),
        (17, 31, 31),
        (u32::MAX, 32, 32),
        (16, u32::MAX, u32::MAX),
        (u32::MAX, u32::MAX, u32::MAX),
        (16u32.wrapping_sub(32), 64, 64),
        (16, 32, 16),
        (16, 32, 4096),
    ] {
        let request = whole(operation(iv, source, destination));
        assert_eq!(run(&sessions, request, 32).0, Status::BadMessage, "{iv} {source} {destination}");
    }
    // The driver's room is smaller than the result, down to none but for the status.
    for room in 0..32 {
        assert_eq!(run(&sessions, whole(operation(16, 32, 32)), room).0, Status::BadMessage, "{room}");
    }
    // A request that ends within its fixed part.
    let request = whole(operation(16, 32, 32));
    for len in 0..72 {
        assert_eq!(run(&sessions, request[..len].to_vec(), 32).0, Status::BadMessage, "{len}");
    }
    // No room for a status: nothing is read, nothing is written.
    let driver = Driver::new(request, 0);
    let executed = Executor::new().execute(&sessions, &driver);
    assert_eq!((executed, driver.reads.get()), (Executed { written: 0, status: None }, 0));
}

/// CVE-2020-14375 (descriptors that are read twice): [`run`] changes what was read, and counts the reads.
#[test]
fn a_source_that_changes_after_it_was_read_changes_nothing() {
    let mut sessions = sessions();
    let session = cbc(&mut sessions);
    let request = bytes(session, operation(16, 32, 32), &[&[0; 16], &[1; 32]]);
    assert_eq!(run(&sessions, request.clone(), 32), run(&sessions, request, 32));
}

/// CVE-2020-10724 (lengths of keys): each algorithm takes its own lengths only.
#[test]
fn keys_of_another_length_are_refused() {
    let mut sessions = sessions();
    for len in 0..=64usize {
        // XTS refuses two equal halves.
        let key: Vec<u8> = (0..len as u8).collect();
        let takes = |sessions: &mut Sessions, opcode, algorithm, result| {
            sessions.create(&setup(opcode, algorithm, &key, result)).is_ok()
        };
        for (opcode, algorithm, result) in [(2, 3, 0), (2, 4, 0), (0x302, 1, 16), (0x202, 26, 16)] {
            let expected = matches!(len, 16 | 24 | 32);
            assert_eq!(
                takes(&mut sessions, opcode, algorithm, result),
                expected,
                "{opcode} {algorithm} {len}"
            );
        }
        assert_eq!(takes(&mut sessions, 2, 13, 0), matches!(len, 32 | 64), "{len}");
        assert_eq!(takes(&mut sessions, 0x302, 3, 16), len == 32, "{len}");
    }
    assert!(sessions.create(&setup(2, 13, &[1; 32], 0)).is_err(), "two equal keys of XTS");
}

#[test]
fn what_is_not_there_is_refused_by_its_code() {
    let mut sessions = sessions();
    for (opcode, algorithm, result) in [
        (2, 2, 0),
        (2, 999, 0),
        (0x102, 1, 16),
        (0x202, 2, 20),
        (0x302, 2, 16),
        (0x404, 1, 0),
        (u64::MAX, 3, 0),
    ] {
        let refused = sessions.create(&setup(opcode, algorithm, &[1; 16], result));
        assert!(matches!(refused, Err(Rejected::Algorithm(..))), "{opcode} {algorithm}: {refused:?}");
    }
    for (opcode, algorithm, result) in [(0x102, 4, 31), (0x202, 4, 33), (0x302, 1, 12)] {
        let refused = sessions.create(&setup(opcode, algorithm, &[1; 16], result));
        assert!(matches!(refused, Err(Rejected::ResultLength { .. })), "{opcode} {algorithm}: {refused:?}");
    }
    let session = cbc(&mut sessions);
    let chain = Chain {
        iv_len: 16,
        src_data_len: 16,
        dst_data_len: 16,
        cipher_start_src_offset: 0,
        len_to_cipher: 16,
        hash_start_src_offset: 0,
        len_to_hash: 16,
        aad_len: 0,
        hash_result_len: 20,
    };
    for operation in [
        Operation::Chain { encrypt: true, chain },
        Operation::Akcipher { src_data_len: 16, dst_data_len: 16 },
        Operation::Nothing,
    ] {
        let request = bytes(session, operation, &[&[0; 16], &[1; 16]]);
        assert_eq!(run(&sessions, request, 16).0, Status::NotSupported, "{operation:?}");
    }
    // An operation of another kind than the session's.
    let operation = Operation::Mac { src_data_len: 32, hash_result_len: 16 };
    let request = bytes(session, operation, &[&[1; 32]]);
    assert_eq!(run(&sessions, request, 16).0, Status::InvalidSession);
}

#[test]
fn sessions_and_their_keys_are_limited_and_numbers_are_given_once() {
    let mut sessions = Sessions::new(Limits { sessions: 3, key_bytes: 64, ..Limits::default() });
    let first = cbc(&mut sessions);
    assert!(sessions.create(&setup(0x202, 4, &[1; 64], 32)).is_err(), "the bytes of keys are limited");
    cbc(&mut sessions);
    cbc(&mut sessions);
    let full = sessions.create(&setup(2, 3, &[7; 16], 0));
    assert_eq!(full, Err(Rejected::Full { sessions: 3, key_bytes: 48 }));
    assert!(sessions.close(first) && !sessions.close(first));
    let next = cbc(&mut sessions);
    assert_ne!(next, first);
    let request = bytes(first, operation(16, 16, 16), &[&[0; 16], &[1; 16]]);
    assert_eq!(run(&sessions, request, 16).0, Status::InvalidSession);
    assert_eq!(format!("{sessions:?}"), "3 sessions with 48 bytes of keys");
}

#[test]
fn a_request_beyond_the_limit_is_not_read() {
    let mut sessions = Sessions::new(Limits { request_bytes: 120, ..Limits::default() });
    let session = cbc(&mut sessions);
    let request = |len: usize| {
        Driver::new(
            bytes(session, operation(16, len as u32, len as u32), &[&[0; 16], &vec![1; len]]),
            len + 1,
        )
    };
    let (fits, beyond) = (request(32), request(48));
    assert_eq!(Executor::new().execute(&sessions, &fits).written, 33);
    assert_eq!(Executor::new().execute(&sessions, &beyond).written, 0);
    assert_eq!((beyond.reads.get(), *beyond.writable.borrow().last().unwrap()), (0, Status::Error.code()));
}

/// Linux' driver gives whole entries of its scatter lists, so source and destination may be longer than the request
/// says. What lies behind the result is not the device's.
#[test]
fn buffers_longer_than_the_request_says_are_served_and_left_alone() {
    let mut sessions = sessions();
    let session = cbc(&mut sessions);
    let parts: [&[u8]; 2] = [&[0; 16], &[1; 32]];
    let (status, expected) = run(&sessions, bytes(session, operation(16, 32, 32), &parts), 32);
    assert_eq!(status, Status::Ok);
    let request = bytes(session, operation(16, 32, 32), &[parts[0], parts[1], &[7; 480]]);
    let driver = Driver::new(request, 512 + 1);
    let executed = Executor::new().execute(&sessions, &driver);
    assert_eq!(executed, Executed { written: 32, status: Some(Status::Ok) });
    let written = driver.writable.into_inner();
    assert_eq!(written, [&expected[..], &[0xee; 480], &[Status::Ok.code()]].concat());
}

proptest! {
    /// Whatever a driver writes leads to a status and to no panic.
    #[test]
    fn any_request_gets_a_status(
        opcode in proptest::sample::select(vec![0u32, 1, 0x100, 0x200, 0x300, 0x301, 0x400, 0x999]),
        words in proptest::collection::vec(prop_oneof![0u32..4, 12u32..80, any::<u32>()], 11),
        session in 1u64..9,
        rest in proptest::collection::vec(any::<u8>(), 0..200),
        room in 0usize..200,
    ) {
        let mut sessions = sessions();
        for (opcode, algorithm, result) in
            [(2, 3, 0), (2, 4, 0), (2, 13, 0), (0x302, 1, 16), (0x302, 3, 16), (0x102, 4, 32), (0x202, 4, 32), (0x202, 26, 16)]
        {
            let key: Vec<u8> = (0..32).collect();
            sessions.create(&setup(opcode, algorithm, &key, result)).unwrap();
        }
        let mut request = Vec::new();
        for word in [opcode, 0, session as u32, 0, 1, 0].into_iter().chain(words) {
            request.extend_from_slice(&word.to_le_bytes());
        }
        request.resize(72, 0);
        request.extend_from_slice(&rest);
        let driver = Driver::new(request, room + 1);
        let written = Executor::new().execute(&sessions, &driver).written as usize;
        prop_assert!(written <= room + 1);
        prop_assert!(Status::from_code(driver.writable.borrow()[room]).is_some());
    }
}
