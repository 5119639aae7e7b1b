//! Sessions of a crypto device.
use super::*;
use crate::codec::Message;

/// CREATE_CRYPTO_SESSION as QEMU lays it out, with a key of `key_bytes`, of which 64 are there.
fn create(size: usize, key_bytes: u32, auth_key_bytes: u32) -> Message {
    let mut payload = vec![0; size];
    // QEMU up to 7.2 has the session's number here, and does not set it.
    let first = if size == 632 { 0xdead_beef_u64 } else { 2 };
    payload[..8].copy_from_slice(&first.to_ne_bytes());
    for (at, word) in [(8, 3), (12, key_bytes), (16, 4), (20, 32), (24, auth_key_bytes), (28, 5)] {
        payload[at..at + 4].copy_from_slice(&u32::to_ne_bytes(word));
    }
    payload[32..36].copy_from_slice(&[1, 2, 0, 0]);
    // Two addresses of QEMU's.
    payload[40..56].fill(0x7f);
    payload[56..120].fill(0xa5);
    payload[120..632].fill(0x5a);
    Message::new(26, payload, vec![])
}

#[test]
fn both_forms_of_a_session_are_understood_and_answered_in_kind() {
    for (size, at) in [(632, 0), (1072, 1064)] {
        let mut session = with_memory();
        let Ok(Received::Event(Event::CryptoSessionRequested { setup, answer })) =
            session.receive(create(size, 16, 20))
        else {
            panic!("{size}")
        };
        let setup = setup.unwrap();
        assert_eq!((setup.opcode, setup.cipher, setup.hash, setup.hash_result_bytes), (2, 3, 4, 32));
        assert_eq!((setup.operation_type, setup.direction, setup.aad_bytes), (1, 2, 5));
        assert_eq!(setup.key.as_bytes(), [0xa5; 16]);
        assert_eq!(setup.auth_key.as_bytes(), [0x5a; 20]);
        let printed = format!("{setup:?}");
        assert!(!printed.contains("165") && !printed.contains("a5"), "{printed}");
        let reply = session.answer(answer, Ok(CryptoSessionNumber(0x0102_0304_0506_0708))).unwrap();
        let reply = reply.reply.unwrap();
        assert_eq!(reply.payload.len(), size);
        assert_eq!(reply.payload[at..at + 8], 0x0102_0304_0506_0708_u64.to_ne_bytes());
        // No key travels back.
        let others = reply.payload.iter().filter(|byte| **byte != 0).count();
        assert_eq!(others, 8);
    }
}

#[test]
fn a_refused_session_is_minus_one_and_the_connection_goes_on() {
    for (size, at) in [(632, 0), (1072, 1064)] {
        let mut session = with_memory();
        let minus_one = |reply: Message| assert_eq!(reply.payload[at..at + 8], (-1i64).to_ne_bytes());
        for number in [Err(Refusal::new("no")), Ok(CryptoSessionNumber(1 << 63))] {
            let Ok(Received::Event(Event::CryptoSessionRequested { answer, .. })) =
                session.receive(create(size, 16, 0))
            else {
                panic!("{size}")
            };
            let sent = session.answer(answer, number).unwrap();
            assert!(sent.refused.is_some());
            minus_one(sent.reply.unwrap());
        }
        // A key that is longer than its room (CVE-2020-10724).
        for (key, auth_key, field) in
            [(65, 0, "key length"), (u32::MAX, 0, "key length"), (16, 513, "authentication key length")]
        {
            match session.receive(create(size, key, auth_key)) {
                Ok(Received::Rejected(reply, violation)) => {
                    assert_eq!(violation.field, field);
                    minus_one(reply);
                }
                other => panic!("{other:?}"),
            }
        }
        pass(&mut session, Request::SetStatus(1), vec![]);
    }
    let mut session = with_memory();
    assert!(
        session.receive(create(640, 16, 0)).is_err(),
        "no form has 640 bytes, and no reply would be read"
    );
}

#[test]
fn nothing_is_kept_of_an_asymmetric_key() {
    let mut session = with_memory();
    let mut message = create(1072, 16, 0);
    message.payload[..8].copy_from_slice(&0x404u64.to_ne_bytes());
    let Ok(Received::Event(Event::CryptoSessionRequested { setup: None, answer })) = session.receive(message)
    else {
        panic!()
    };
    let sent = session.answer(answer, Err(Refusal::new("no asymmetric keys"))).unwrap();
    assert_eq!(sent.reply.unwrap().payload.len(), 1072);
}

#[test]
fn a_session_is_closed_by_its_number() {
    let mut session = with_memory();
    let closed = event(&mut session, Request::CloseCryptoSession(9), vec![]);
    let Event::CryptoSessionClosed { number: 9, done } = closed else { panic!() };
    assert_eq!(number(&session.answer(done, Ok(())).unwrap().reply.unwrap()), 0);
}

#[test]
fn sessions_need_the_protocol_feature() {
    let mut session = BackendSession::new(offer());
    pass(&mut session, Request::SetProtocolFeatures(P::HANDLED.difference(P::CRYPTO_SESSION)), vec![]);
    reject(&mut session, Request::CloseCryptoSession(0), vec![], "protocol feature bit");
}

/// What a message holds is not printed: it may be a key.
#[test]
fn a_message_prints_no_byte_of_its_payload() {
    let printed = format!("{:?}", create(632, 16, 0));
    assert!(printed.contains("payload_bytes: 632") && !printed.contains("165"), "{printed}");
}
