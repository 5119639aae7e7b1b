//! The frame that announces to other bridges where a station is now.
use virtio::net::MacAddress;

/// Shortest Ethernet frame without its check sequence (IEEE 802.3 §3.2.7).
const MIN_FRAME_BYTES: usize = 60;

/// A broadcast reverse ARP request of a station for itself (RFC 903), as the vhost-user message `SEND_RARP` asks for.
/// Bridges that forward it learn the address.
pub(crate) fn frame(address: MacAddress) -> [u8; MIN_FRAME_BYTES] {
    let mut frame = [0; MIN_FRAME_BYTES];
    let parts: [&[u8]; 9] = [
        &MacAddress::BROADCAST.0,
        &address.0,
        &[0x80, 0x35], // RARP
        &[0, 1],       // Ethernet
        &[8, 0],       // IPv4
        &[6, 4],       // their address lengths
        &[0, 3],       // request reverse
        &address.0,    // sender, and four octets of its unknown IPv4 address
        &[0; 4],
    ];
    let mut at = 0;
    for part in parts.into_iter().chain([&address.0[..]]) {
        frame[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_names_the_station_as_sender_and_target() {
        let mac: MacAddress = "52:54:00:12:34:56".parse().unwrap();
        let frame = frame(mac);
        assert_eq!(frame[..6], [0xff; 6]);
        for at in [6, 22, 32] {
            assert_eq!(frame[at..at + 6], mac.0, "at {at}");
        }
        assert_eq!(frame[12..22], [0x80, 0x35, 0, 1, 8, 0, 6, 4, 0, 3]);
        assert!(frame[38..].iter().all(|byte| *byte == 0));
    }
}
