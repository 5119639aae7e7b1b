//! The frame that tells other bridges where a station is now, and how many of them a port may ask for.
use std::time::{Duration, Instant};

use virtio::net::MacAddress;

/// Announcements of one port in one [`WINDOW`]. QEMU asks for five after a migration, over half a second.
const MOST: u32 = 32;
const WINDOW: Duration = Duration::from_secs(1);

/// What a port has had announced. Each is a flood to all others.
#[derive(Debug)]
pub(crate) struct Announcements {
    since: Instant,
    count: u32,
}

/// Whether an announcement goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Announce,
    /// The first of this window that does not.
    IgnoreAndSay,
    Ignore,
}

impl Announcements {
    pub fn new(now: Instant) -> Self {
        Announcements { since: now, count: 0 }
    }

    /// One more is asked for.
    pub fn next(&mut self, now: Instant) -> Decision {
        if now.saturating_duration_since(self.since) >= WINDOW {
            *self = Announcements::new(now);
        }
        self.count = self.count.saturating_add(1);
        match self.count.cmp(&(MOST + 1)) {
            std::cmp::Ordering::Less => Decision::Announce,
            std::cmp::Ordering::Equal => Decision::IgnoreAndSay,
            std::cmp::Ordering::Greater => Decision::Ignore,
        }
    }
}

/// Shortest Ethernet frame without its check sequence (IEEE 802.3 §3.2.7).
const MIN_FRAME_BYTES: usize = 60;

/// A reverse ARP request for itself, to everybody (RFC 903; the vhost-user message `SEND_RARP` asks for
/// this one): bridges on its way learn the address.
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
    fn a_port_has_so_many_announced_in_a_window_and_hears_once_that_it_is_enough() {
        let start = Instant::now();
        let mut announcements = Announcements::new(start);
        for window in 0..3 {
            let decisions: Vec<_> = (0..1000).map(|_| announcements.next(start + WINDOW * window)).collect();
            let count = |decision| decisions.iter().filter(|found| **found == decision).count();
            assert_eq!(count(Decision::Announce), MOST as usize);
            assert_eq!(count(Decision::IgnoreAndSay), 1);
        }
    }

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
