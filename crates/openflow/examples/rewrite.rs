//! Reads streams of OpenFlow messages from files, and tells which are not written back with the same bytes:
//! `cargo run -p tautline-openflow --example rewrite FILE...`

use std::fs;

use openflow::{Codec, Framer, Version};

fn main() -> std::io::Result<()> {
    for file in std::env::args().skip(1) {
        let bytes = fs::read(&file)?;
        let (mut stream, mut framer) = (&bytes[..], Framer::new());
        let (mut same, mut other) = (0, 0);
        while let Ok(Some(message)) = framer.next(&mut stream) {
            match rewritten(&message) {
                Ok(()) => same += 1,
                Err(what) => {
                    other += 1;
                    println!("{file}: {what}\n  {message:02x?}");
                }
            }
        }
        println!("{file}: {same} written back the same, {other} not, {} bytes left", stream.len());
    }
    Ok(())
}

fn rewritten(message: &[u8]) -> Result<(), String> {
    let version = message.first().and_then(|number| Version::by_number(*number));
    let codec = Codec { version: version.ok_or("another version")?, table_ids: true, option_bytes: [0; 8] };
    let received = codec.decode(message).map_err(|failure| failure.to_string())?;
    let again = codec.encode(received.transaction, &received.message).map_err(|error| error.to_string())?;
    if again == message { Ok(()) } else { Err(format!("{received:?}\n  {again:02x?}")) }
}
