//! The frame that announces to other bridges where a station is now.
use pipeline::{PortVlans, Station};
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

/// The announcement of a station as it would come from its port, which has these VLANs: with a tag if the station's VLAN
/// needs one. `None` if no frame from the port is in that VLAN.
pub(crate) fn from_port(station: &Station, vlans: &PortVlans) -> Option<Vec<u8>> {
    const TAG_AT: usize = 12;
    let untagged = frame(station.address);
    let (addresses, rest) = untagged.split_at(TAG_AT);
    let tagged = [addresses, &[0x81, 0], &station.vlan.to_be_bytes(), rest].concat();
    [untagged.to_vec(), tagged].into_iter().find(|frame| vlans.vlan_of(frame) == Some(station.vlan))
}

#[cfg(test)]
mod tests {
    use pipeline::{PortId, VlanMode, VlanOptions};

    use super::*;

    #[test]
    fn a_station_of_a_vlan_is_announced_as_its_port_would() {
        let address = MacAddress([2, 0, 0, 0, 0, 7]);
        let station = |vlan| Station { vlan, address, port: PortId(0), age_seconds: 0 };
        let of = |mode, tag| PortVlans::new(&VlanOptions { mode: Some(mode), tag, ..VlanOptions::default() });
        let announced = |vlan, vlans: &PortVlans| from_port(&station(vlan), vlans);
        let untagged = Some(frame(address).to_vec());
        let access = of(VlanMode::Access, Some(10));
        assert_eq!((announced(10, &access), announced(11, &access)), (untagged.clone(), None));
        let native = of(VlanMode::NativeTagged, Some(10));
        assert_eq!(announced(10, &native), untagged);
        for vlans in [of(VlanMode::Trunk, None), native] {
            let tagged = announced(11, &vlans).unwrap();
            assert_eq!(tagged[12..18], [0x81, 0, 0, 11, 0x80, 0x35]);
            assert_eq!(tagged.len(), MIN_FRAME_BYTES + 4);
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
