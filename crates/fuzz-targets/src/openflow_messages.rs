//! The bytes that a controller sends.

use openflow::{Codec, Continuation, Framer, Message, Nicira, Version};

use crate::script::Script;

/// A controller's end of a connection: the first byte says how messages are read. What is read can be written, and is
/// read the same again.
pub fn openflow_messages(bytes: &[u8]) {
    let mut script = Script(bytes);
    let how = script.byte();
    let version = Version::ALL[usize::from(how) % Version::ALL.len()];
    let codec = Codec { version, table_ids: how & 0x80 != 0, option_bytes: [0; 8] };
    let (mut stream, mut framer) = (script.0, Framer::new());
    while let Ok(Some(message)) = framer.next(&mut stream) {
        let Ok(received) = codec.decode(&message) else { continue };
        if let Message::Nicira(Nicira::Resume(packet)) = &received.message {
            let left = packet.continuation.as_deref().and_then(|bytes| Continuation::decode(bytes).ok());
            let again = left.as_ref().and_then(Continuation::encode);
            assert!(again.is_none_or(|bytes| Continuation::decode(&bytes).ok() == left), "{message:02x?}");
        }
        if let Ok(again) = codec.encode(received.transaction, &received.message) {
            assert_eq!(codec.decode(&again).as_ref(), Ok(&received), "{again:02x?}");
        }
    }
}
