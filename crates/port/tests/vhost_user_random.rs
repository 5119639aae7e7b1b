//! Receive buffers of any shape at a `vhost-user:` port.
mod common;

use std::collections::HashSet;

use common::frame;
use common::guest::{DATA, Guest, HEADER, Host, feature_sets};
use frame::Side;
use port::Port;
use proptest::collection::vec;
use proptest::prelude::*;
use virtio::{Features, NetFeatures};
use virtqueue::{Piece, Used};

/// A receive buffer as the driver remembers it: its writable pieces, and whether it has a readable one.
#[derive(Clone, Debug)]
struct Posted {
    writable: Vec<Piece>,
    has_readable: bool,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// Whatever receive buffers look like: frames arrive whole, in order and once; every buffer comes back
    /// at most once; each frame is delivered or counted.
    #[test]
    fn any_receive_buffers(
        set in 0..32usize,
        buffers in vec((vec(0..700u32, 1..5), prop::bool::weighted(0.1)), 0..14),
        lengths in vec(14..2500usize, 0..20),
    ) {
        let features = feature_sets()[set];
        let (mut left, mut right) = (Host::new(|_| {}), Host::new(|_| {}));
        let mut alice = Guest::running(&mut left, Features::VERSION_1);
        let mut bob = Guest::running(&mut right, features);
        let mut posted = Vec::new();
        let mut at = DATA;
        for (lengths, has_readable) in buffers {
            let mut piece = |len: u32| {
                let piece = Piece { address: at, len };
                // Neighbours touch now and then.
                at += u64::from(len) + u64::from(len % 2);
                piece
            };
            let readable: Vec<_> = has_readable.then(|| piece(9)).into_iter().collect();
            let writable: Vec<_> = lengths.iter().map(|len| piece(*len)).collect();
            bob.add_chain(0, &readable, &writable);
            posted.push(Posted { writable, has_readable });
        }
        let sent: Vec<_> = lengths.iter().zip(0..).map(|(len, number)| frame(number, *len)).collect();
        sent.iter().for_each(|frame| alice.send(1, frame));
        let mut forwarded = 0;
        while left.forward(0, &mut right, 0) > 0 {
            forwarded += 1;
        }
        prop_assert!(forwarded <= 1);

        let mut used = bob.used(0).into_iter();
        let mut given_back = HashSet::new();
        let mut received = Vec::new();
        let mut bytes_of = |used: Used| {
            assert!(given_back.insert(used.cookie), "{used:?} came back twice");
            let buffer = &posted[used.cookie as usize];
            assert!(used.written == 0 || !buffer.has_readable);
            let all = buffer.writable.iter().flat_map(|piece| bob.read(piece.address, piece.len as usize));
            all.take(used.written as usize).collect::<Vec<u8>>()
        };
        while let Some(first) = used.next() {
            let mut bytes = bytes_of(first);
            if bytes.is_empty() {
                continue;
            }
            let buffers = u16::from_le_bytes([bytes[10], bytes[11]]);
            prop_assert!(buffers == 1 || features.contains(NetFeatures::MRG_RXBUF));
            for _ in 1..buffers {
                bytes.extend(bytes_of(used.next().expect("as many buffers as the header says")));
            }
            received.push(bytes.split_off(HEADER));
        }
        let mut expected = sent.iter();
        for frame in &received {
            prop_assert!(expected.any(|sent| sent == frame), "altered, doubled or out of order");
        }
        let counts = right.port.counters(0, Side::ToGuest).unwrap().counts();
        prop_assert_eq!(counts.frames, received.len() as u64);
        prop_assert_eq!(counts.frames + counts.dropped(), sent.len() as u64);
        prop_assert_eq!(alice.used(1).len(), sent.len());
    }
}
