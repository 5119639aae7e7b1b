use super::*;
use crate::net::control::Command;

const OWN: MacAddress = MacAddress([0x52, 0x54, 0, 0, 0, 1]);
const OTHER: [u8; 6] = [0x52, 0x54, 0, 0, 0, 2];
const GROUP: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];
const BROADCAST: [u8; 6] = [0xff; 6];

/// A filter that has left promiscuous mode.
fn filter(negotiated: Features) -> ReceiveFilter {
    let mut filter = ReceiveFilter::new(OWN, negotiated);
    filter.apply(&FilterCommand::Mode(ReceiveMode::Promiscuous, false));
    filter
}

fn head(destination: [u8; 6]) -> Vec<u8> {
    [&destination[..], &[2, 0, 0, 0, 0, 9, 0x08, 0x00, 0x45, 0]].concat()
}

fn tagged(destination: [u8; 6], tag: u16) -> Vec<u8> {
    [&destination[..], &[2, 0, 0, 0, 0, 9, 0x81, 0x00], &tag.to_be_bytes()].concat()
}

/// What passes of: own, another's, a group's, broadcast.
fn passes(filter: &ReceiveFilter) -> [bool; 4] {
    [OWN.0, OTHER, GROUP, BROADCAST].map(|destination| filter.accepts(&head(destination)))
}

#[test]
fn everything_passes_until_the_driver_says_otherwise() {
    let filter = ReceiveFilter::new(OWN, Features::empty().union(NetFeatures::CTRL_VLAN));
    assert_eq!(passes(&filter), [true; 4]);
    assert!(filter.accepts(&tagged(OTHER, 5)));
    assert!(filter.accepts(&[]));
}

#[test]
fn modes_let_pass_and_stop_what_they_name() {
    use ReceiveMode::*;
    #[rustfmt::skip]
    let table: [(&[ReceiveMode], [bool; 4]); 9] = [
        (&[], [true, false, false, true]),
        (&[AllUnicast], [true, true, false, true]),
        (&[AllMulticast], [true, false, true, true]),
        (&[NoUnicast], [false, false, false, true]),
        (&[NoUnicast, AllUnicast], [false, false, false, true]),
        (&[NoMulticast, AllMulticast], [true, false, false, true]),
        (&[NoBroadcast], [true, false, false, false]),
        (&[NoBroadcast, AllMulticast], [true, false, true, false]),
        (&[Promiscuous, NoUnicast, NoMulticast, NoBroadcast], [true; 4]),
    ];
    for (modes, expected) in table {
        let mut filter = filter(Features::empty());
        modes.iter().for_each(|mode| filter.apply(&FilterCommand::Mode(*mode, true)));
        assert_eq!(passes(&filter), expected, "{modes:?}");
        modes.iter().for_each(|mode| filter.apply(&FilterCommand::Mode(*mode, false)));
        assert_eq!(passes(&filter), [true, false, false, true], "{modes:?} off again");
    }
}

#[test]
fn the_table_is_replaced_and_overflows_by_kind() {
    let mut filter = filter(Features::empty());
    let mut set = |unicast: &[[u8; 6]], multicast: &[[u8; 6]]| {
        filter.apply(&FilterCommand::Addresses { unicast, multicast });
        passes(&filter)
    };
    assert_eq!(set(&[OTHER], &[]), [true, true, false, true]);
    assert_eq!(set(&[], &[GROUP]), [true, false, true, true]);
    // A table entry of the wrong kind matches nothing.
    assert_eq!(set(&[GROUP], &[OTHER]), [true, false, false, true]);
    let full = [[2, 0, 0, 0, 0, 3]; MAX_FILTER_ADDRESSES];
    assert_eq!(set(&full, &full), [true, false, false, true]);
    let more = [[2, 0, 0, 0, 0, 3]; MAX_FILTER_ADDRESSES + 1];
    assert_eq!(set(&more, &full), [true, true, false, true]);
    assert_eq!(set(&full, &more), [true, false, true, true]);
    let mut last = full;
    last[MAX_FILTER_ADDRESSES - 1] = OTHER;
    assert_eq!(set(&last, &[]), [true, true, false, true]);
    assert_eq!(set(&[], &[]), [true, false, false, true]);
}

#[test]
fn the_drivers_own_address_takes_the_place_of_the_devices() {
    let mut filter = filter(Features::empty());
    filter.apply(&FilterCommand::Own(MacAddress(OTHER)));
    assert_eq!(passes(&filter), [false, true, false, true]);
    assert_eq!(filter.own_address(), MacAddress(OTHER));
}

#[test]
fn vlans_pass_that_were_added_if_they_are_filtered_at_all() {
    let accepts = |filter: &ReceiveFilter, tag| filter.accepts(&tagged(OWN.0, tag));
    let unfiltered = filter(Features::empty());
    let mut filter = filter(Features::empty().union(NetFeatures::CTRL_VLAN));
    for id in [1, 63, 64, 4095] {
        assert!(accepts(&unfiltered, id));
        assert!(!accepts(&filter, id));
        filter.apply(&FilterCommand::AddVlan(VlanId::new(id).unwrap()));
        assert!(accepts(&filter, id));
        assert!(accepts(&filter, 0xf000 | id), "priority is not part of the number");
        let passing: Vec<u16> = (1..4096).filter(|other| accepts(&filter, *other)).collect();
        assert_eq!(passing, [id]);
        assert!(!filter.accepts(&tagged(OTHER, id)), "the address still counts");
        filter.apply(&FilterCommand::RemoveVlan(VlanId::new(id).unwrap()));
        assert!(!accepts(&filter, id));
    }
    assert!(filter.accepts(&head(OWN.0)), "untagged");
    assert!(accepts(&filter, 0xe000), "priority without a VLAN");
    assert_eq!(VlanId::new(4096), None);
}

#[test]
fn frames_without_a_destination_go_nowhere() {
    let filter = filter(Features::empty());
    assert!(!filter.accepts(&[]) && !filter.accepts(&OWN.0[..5]));
    assert!(filter.accepts(&OWN.0));
    // A tag that is cut off is none.
    assert!(filter.accepts(&tagged(OWN.0, 5)[..15]));
}

#[test]
fn the_commands_of_a_filter_make_it_again() {
    let features = NetFeatures::CTRL_RX
        | NetFeatures::CTRL_RX_EXTRA
        | NetFeatures::CTRL_MAC_ADDR
        | NetFeatures::CTRL_VLAN
        | NetFeatures::CTRL_VQ;
    let mut one = ReceiveFilter::new(MacAddress(OWN.0), features);
    for command in [
        FilterCommand::Mode(ReceiveMode::Promiscuous, false),
        FilterCommand::Mode(ReceiveMode::AllUnicast, true),
        FilterCommand::Addresses {
            unicast: &[OTHER],
            multicast: &[[1, 0, 0x5e, 0, 0, 1]; MAX_FILTER_ADDRESSES + 1],
        },
        FilterCommand::Own(MacAddress(OTHER)),
        FilterCommand::AddVlan(VlanId::new(5).unwrap()),
        FilterCommand::AddVlan(VlanId::new(4095).unwrap()),
    ] {
        one.apply(&command);
    }
    let mut other = ReceiveFilter::new(MacAddress(OWN.0), features);
    for bytes in one.commands(features) {
        match Command::parse(&bytes, features, 1) {
            Ok(Command::Filter(command)) => other.apply(&command),
            parsed => panic!("{bytes:?}: {parsed:?}"),
        }
    }
    assert_eq!(format!("{one:?}"), format!("{other:?}"));
}
