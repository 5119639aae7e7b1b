//! What ovn-controller said, and what ovs-vswitchd answered: the same bytes are answered here.
//!
//! `conversations/README.md` says where the conversations come from.

use controllers::Settings;
use openflow::{Codec, Failure, Framer, Message, Nicira, Reply, Version};

use super::{Peers, cut};

const CONVERSATIONS: [(&str, &[u8]); 6] = [
    ("23.03, features", include_bytes!("../conversations/ovn-23.03-features.bin")),
    ("23.03, flows", include_bytes!("../conversations/ovn-23.03-flows.bin")),
    ("23.03, packets", include_bytes!("../conversations/ovn-23.03-packets.bin")),
    ("26.03, flows", include_bytes!("../conversations/ovn-26.03-flows.bin")),
    ("26.03, packets", include_bytes!("../conversations/ovn-26.03-packets.bin")),
    ("26.03, features", include_bytes!("../conversations/ovn-26.03-features.bin")),
];

/// Messages to the switch, one behind the other, and messages from it.
fn sides(mut conversation: &[u8]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let (mut to_switch, mut from_switch, mut framer) = (Vec::new(), Vec::new(), Framer::new());
    while let Some((side, rest)) = conversation.split_first() {
        conversation = rest;
        let message = framer.next(&mut conversation).unwrap().unwrap();
        match side {
            0 => to_switch.extend(message),
            _ => from_switch.push(message),
        }
    }
    (to_switch, from_switch)
}

fn decode(bytes: &[u8]) -> Message {
    Codec::new(Version::V15).decode(bytes).unwrap().message
}

/// Whether a message answers another one. A hello says which versions its sender has, and these differ.
fn is_answer(bytes: &[u8]) -> bool {
    !matches!(
        decode(bytes),
        Message::Hello(_)
            | Message::PortStatus(_)
            | Message::PacketIn(_)
            | Message::Nicira(Nicira::PacketIn2(_))
    )
}

/// What is answered to these pieces.
fn answers<'a>(replies: &[Reply], pieces: impl Iterator<Item = &'a [u8]>) -> (Peers, Vec<Vec<u8>>) {
    let mut peers = Peers::new();
    peers.switch.replies = replies.to_vec();
    let id = peers.controllers.connect(Settings::service(), &peers.switch, peers.now).unwrap();
    let mut bytes = Vec::new();
    for piece in pieces {
        peers.receive(id, piece).unwrap();
        bytes.extend(peers.take(id));
    }
    let answers = cut(&mut Framer::new(), &bytes).into_iter().filter(|bytes| is_answer(bytes)).collect();
    (peers, answers)
}

#[test]
fn recorded_conversations_are_answered_with_the_same_bytes_at_every_split() {
    for (name, conversation) in CONVERSATIONS {
        let (to_switch, from_switch) = sides(conversation);
        let recorded: Vec<_> = from_switch.into_iter().filter(|bytes| is_answer(bytes)).collect();
        let replies: Vec<Reply> = recorded
            .iter()
            .filter_map(|bytes| match decode(bytes) {
                Message::MultipartReply(reply, _) => Some(*reply),
                _ => None,
            })
            .collect();
        // One byte at a time is a split at every place.
        for length in [1, 2, 3, 5, 7, 64, 1000, usize::MAX] {
            let (peers, answers) = answers(&replies, to_switch.chunks(length.min(to_switch.len())));
            // The last requests of the recording may have answers that are not in it.
            let answers = &answers[..recorded.len().min(answers.len())];
            assert_eq!(answers, recorded, "{name} in pieces of {length} bytes");
            assert!(name.ends_with("features") || !peers.switch.changes.is_empty(), "{name}");
        }
    }
}

#[test]
fn what_ovn_asks_reaches_the_switch() {
    let (to_switch, _) = sides(CONVERSATIONS[1].1);
    let (mut peers, _) = answers(&[], std::iter::once(&to_switch[..]));
    let changes = peers.switch.changes.len();
    assert!(changes > 10, "{changes} changes");
    assert_eq!(peers.switch.maps.len(), 1);
    assert!(peers.switch.flushed.iter().all(|flush| flush.zone.is_some()));
    assert!(!peers.switch.flushed.is_empty());
    // A refused change of a bundle is named, and nothing of the bundle takes effect.
    peers = Peers::new();
    peers.switch.refuses = Some((1, Failure::TableFull));
    let id = peers.controllers.connect(Settings::service(), &peers.switch, peers.now).unwrap();
    peers.receive(id, &to_switch).unwrap();
    assert!(peers.switch.changes.len() < changes);
}
