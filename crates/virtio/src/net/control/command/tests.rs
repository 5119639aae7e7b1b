use super::*;
use proptest::prelude::*;

const OWN: [u8; 6] = [0x52, 0x54, 0, 0, 0, 1];

/// The commands with the feature that each takes and what it says.
fn commands() -> Vec<(Vec<u8>, Features, Command<'static>)> {
    const UNICAST: &[[u8; 6]] = &[[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
    const MULTICAST: &[[u8; 6]] = &[[0x33, 0x33, 0, 0, 0, 1]];
    let filter = Command::Filter;
    let mode = |mode, on| filter(FilterCommand::Mode(mode, on));
    let tables =
        [&[1, 0, 2, 0, 0, 0][..], UNICAST.as_flattened(), &[1, 0, 0, 0], MULTICAST.as_flattened()].concat();
    let offloads = Features::empty().union(NetFeatures::GUEST_CSUM).union(NetFeatures::GUEST_USO6);
    vec![
        (vec![0, 0, 1], NetFeatures::CTRL_RX, mode(ReceiveMode::Promiscuous, true)),
        (vec![0, 1, 0], NetFeatures::CTRL_RX, mode(ReceiveMode::AllMulticast, false)),
        (vec![0, 2, 1], NetFeatures::CTRL_RX_EXTRA, mode(ReceiveMode::AllUnicast, true)),
        (vec![0, 3, 1], NetFeatures::CTRL_RX_EXTRA, mode(ReceiveMode::NoMulticast, true)),
        (vec![0, 4, 0], NetFeatures::CTRL_RX_EXTRA, mode(ReceiveMode::NoUnicast, false)),
        (vec![0, 5, 1], NetFeatures::CTRL_RX_EXTRA, mode(ReceiveMode::NoBroadcast, true)),
        (
            tables,
            NetFeatures::CTRL_RX,
            filter(FilterCommand::Addresses { unicast: UNICAST, multicast: MULTICAST }),
        ),
        (
            [&[1, 1][..], &OWN].concat(),
            NetFeatures::CTRL_MAC_ADDR,
            filter(FilterCommand::Own(MacAddress(OWN))),
        ),
        (vec![2, 0, 0xff, 0x0f], NetFeatures::CTRL_VLAN, filter(FilterCommand::AddVlan(VlanId(4095)))),
        (vec![2, 1, 7, 0], NetFeatures::CTRL_VLAN, filter(FilterCommand::RemoveVlan(VlanId(7)))),
        (vec![3, 0], NetFeatures::GUEST_ANNOUNCE, Command::AnnounceAck),
        (vec![4, 0, 0x04, 0x01], NetFeatures::MQ, Command::QueuePairs(0x104)),
        (
            [&[5, 0][..], &offloads.bits().to_le_bytes()].concat(),
            NetFeatures::CTRL_GUEST_OFFLOADS,
            Command::GuestOffloads(offloads),
        ),
    ]
}

const ALL: Features = Features::from_bits_retain(u64::MAX);

#[test]
fn each_command_is_read_and_needs_its_feature() {
    for (bytes, feature, command) in commands() {
        assert_eq!(Command::parse(&bytes, ALL, 0x104), Ok(command));
        let error = Command::parse(&bytes, ALL.difference(feature), 0x104).unwrap_err();
        let is_named =
            matches!(error, ControlError::NotNegotiated { feature: named, .. } if named == feature);
        assert!(is_named, "{bytes:?}: {error}");
        assert!(error.to_string().contains("§5.1.6.5."), "{error}");
    }
}

#[test]
fn each_length_but_the_right_one_is_an_error() {
    for (bytes, _, command) in commands() {
        for len in 2..bytes.len() {
            let error = Command::parse(&bytes[..len], ALL, 0x104);
            assert!(
                matches!(error, Err(ControlError::Length { bytes, .. }) if bytes == len - 2),
                "{command:?}"
            );
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(
            matches!(Command::parse(&longer, ALL, 0x104), Err(ControlError::Length { .. })),
            "{command:?}"
        );
    }
    assert_eq!(Command::parse(&[], ALL, 1), Err(ControlError::Short(0)));
    assert_eq!(Command::parse(&[0], ALL, 1), Err(ControlError::Short(1)));
}

#[test]
fn values_out_of_range_are_errors() {
    let parse = |bytes: &[u8]| Command::parse(bytes, ALL, 8).map(|_| ()).unwrap_err();
    assert_eq!(parse(&[0, 0, 2]), ControlError::Switch(2));
    assert_eq!(parse(&[2, 0, 0, 0x10]), ControlError::Vlan(4096));
    assert_eq!(parse(&[4, 0, 0, 0]), ControlError::QueuePairs { asked: 0, max: 8 });
    assert_eq!(parse(&[4, 0, 9, 0]), ControlError::QueuePairs { asked: 9, max: 8 });
    let group = [1, 1, 0x53, 0, 0, 0, 0, 1];
    assert_eq!(parse(&group), ControlError::GroupAddress(MacAddress([0x53, 0, 0, 0, 0, 1])));
    for (class, command) in [(0, 6), (1, 2), (2, 2), (3, 1), (4, 1), (5, 1), (6, 0), (255, 255)] {
        assert_eq!(parse(&[class, command, 0]), ControlError::Unknown { class, command });
    }
    // A count that would wrap around.
    assert!(matches!(parse(&[1, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]), ControlError::Length { .. }));
    assert!(matches!(parse(&[1, 0, 0, 0, 0, 0x80, 0, 0, 0, 0]), ControlError::Length { .. }));
}

#[test]
fn offloads_beyond_the_negotiated_ones_are_an_error() {
    let csum = Features::empty().union(NetFeatures::GUEST_CSUM);
    let negotiated = csum.union(NetFeatures::CTRL_GUEST_OFFLOADS);
    let parse = |asked: Features| {
        let bytes = [&[5, 0][..], &asked.bits().to_le_bytes()].concat();
        Command::parse(&bytes, negotiated, 1).map(|command| format!("{command:?}"))
    };
    assert_eq!(parse(csum), Ok(format!("{:?}", Command::GuestOffloads(csum))));
    assert!(parse(Features::empty()).is_ok());
    let tso = Features::empty().union(NetFeatures::GUEST_TSO4);
    assert_eq!(parse(csum | tso), Err(ControlError::Offloads(tso)));
    // Negotiated, but not an offload.
    let other = Features::empty().union(NetFeatures::CTRL_GUEST_OFFLOADS);
    assert_eq!(parse(other), Err(ControlError::Offloads(other)));
}

proptest! {
    #[test]
    fn no_bytes_panic(class in 0_u8..7, command in 0_u8..7, data in prop::collection::vec(any::<u8>(), 0..80)) {
        let bytes = [&[class, command][..], &data].concat();
        let _ = Command::parse(&bytes, ALL, 4);
    }
}
