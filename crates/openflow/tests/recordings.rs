//! What OVN, Open vSwitch and `ovs-ofctl` say to each other is read and written back with the same bytes; damaged, it
//! ends in an error. `data/README.md` says where the messages come from.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use openflow::{Codec, Failure, Framer, Message, Version};
use proptest::prelude::*;

const OFCTL: &str = "ovs-ofctl and Open vSwitch 3.1";
/// `mod_nw_tos` has an action of its own beside set_field; both are one action of the model.
const SAID_ANOTHER_WAY: [&[u8]; 1] = [&[0, 0x19, 0, 0x10, 0x80, 0, 0x10, 1]];

/// Streams of whole messages, by what was recorded.
const STREAMS: [(&str, &[u8]); 3] = [
    ("OVN 23.03 and Open vSwitch 3.1", include_bytes!("data/ovn-23.03.bin")),
    ("OVN 26.03 and Open vSwitch 3.7", include_bytes!("data/ovn-26.03.bin")),
    (OFCTL, include_bytes!("data/ovs-ofctl-3.1.bin")),
];

fn messages(mut stream: &[u8]) -> Vec<Vec<u8>> {
    let mut framer = Framer::new();
    let mut messages = Vec::new();
    while let Some(message) = framer.next(&mut stream).unwrap() {
        messages.push(message);
    }
    messages
}

fn all() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    STREAMS
        .into_iter()
        .flat_map(|(name, stream)| messages(stream).into_iter().map(move |message| (name, message)))
}

/// All recorded messages, cut out of the recordings once.
static ALL: LazyLock<Vec<(&str, Vec<u8>)>> = LazyLock::new(|| all().collect());

/// The codec of a message's own version. `ovs-ofctl` has the table in a command of OpenFlow 1.0.
fn codec(message: &[u8]) -> Codec {
    Codec { version: Version::by_number(message[0]).unwrap(), table_ids: true, option_bytes: [0; 8] }
}

#[test]
fn recorded_messages_are_written_back_with_the_same_bytes() {
    let mut count = 0;
    for (name, bytes) in all() {
        let codec = codec(&bytes);
        let received = codec.decode(&bytes).unwrap_or_else(|error| panic!("{name}: {error}: {bytes:02x?}"));
        // Some of Open vSwitch's answers to ovs-ofctl have a tunnel option that was mapped with four bytes.
        let mapped = Codec { option_bytes: [4, 0, 0, 0, 0, 0, 0, 0], ..codec };
        let write = |codec: Codec| codec.encode(received.transaction, &received.message).unwrap();
        let again = if name == OFCTL && write(mapped) == bytes { write(mapped) } else { write(codec) };
        let has = |words: &&[u8]| bytes.windows(words.len()).any(|window| window == *words);
        if name == OFCTL && SAID_ANOTHER_WAY.iter().any(has) {
            assert_eq!(codec.decode(&again).as_ref(), Ok(&received));
            continue;
        }
        assert_eq!(again, bytes, "{name}: {received:?}");
        count += 1;
    }
    assert!(count > 1900, "{count} messages");
}

#[test]
fn the_recordings_have_all_kinds_of_message_that_ovn_sends() {
    let kinds: BTreeSet<_> = all()
        .map(|(_, bytes)| match codec(&bytes).decode(&bytes).unwrap().message {
            Message::BundleAdd(add) => format!("in bundle {}", name(&add.message)),
            message => name(&message),
        })
        .collect();
    for kind in [
        "in bundle FlowMod",
        "in bundle GroupMod",
        "MeterMod",
        "PacketOut",
        "PortStatus",
        "Nicira(PacketIn2",
        "Nicira(Resume",
        "Nicira(CtFlush(",
        "Nicira(CtFlushZone",
        "Nicira(TlvMod",
        "BundleControl",
        "MultipartReply(Flow(",
    ] {
        assert!(kinds.iter().any(|known| known.starts_with(kind.trim_end_matches('('))), "{kind}: {kinds:?}");
    }
}

/// The names of a message's variants.
fn name(message: &Message) -> String {
    format!("{message:?}").chars().take_while(|letter| !matches!(letter, '{' | '[' | ' ')).collect()
}

/// What is read from any bytes can be written, and is read the same again.
fn holds(bytes: &[u8]) -> Result<(), TestCaseError> {
    let Some(version) = bytes.first().and_then(|number| Version::by_number(*number)) else { return Ok(()) };
    let codec = Codec { version, table_ids: true, option_bytes: [0; 8] };
    if let Ok(received) = codec.decode(bytes)
        && let Ok(again) = codec.encode(received.transaction, &received.message)
    {
        let reread = codec.decode(&again);
        prop_assert_eq!(reread.as_ref(), Ok(&received), "{:02x?}", again);
    }
    Ok(())
}

fn set_length(bytes: &mut [u8]) {
    let length = bytes.len() as u16;
    bytes[2..4].copy_from_slice(&length.to_be_bytes());
}

proptest! {
    #[test]
    fn damaged_messages_end_in_an_error_or_in_another_message(
        at: prop::sample::Index, places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)
    ) {
        let mut bytes = at.get(&ALL).1.clone();
        for (place, value) in places {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        set_length(&mut bytes);
        holds(&bytes)?;
    }

    #[test]
    fn any_bytes_behind_a_header_end_in_an_error_or_in_a_message(
        version in 0..4_usize, kind in 0_u8..40, body in prop::collection::vec(any::<u8>(), 0..200)
    ) {
        let mut bytes = vec![Version::ALL[version].number(), kind, 0, 0, 0, 0, 0, 1];
        bytes.extend(body);
        set_length(&mut bytes);
        holds(&bytes)?;
    }
}

#[test]
fn a_message_that_is_cut_is_refused_or_another_message() {
    for (_, bytes) in all().step_by(31) {
        for length in 8..bytes.len() {
            let mut cut = bytes[..length].to_vec();
            set_length(&mut cut);
            holds(&cut).unwrap();
        }
        assert_eq!(codec(&bytes).decode(&bytes[..bytes.len() - 1]), Err(Failure::BadLength));
    }
}
