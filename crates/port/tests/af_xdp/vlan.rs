//! VLAN tags, through a bridge, which keeps the outer one beside the frame: so it leaves by a veth that takes tags that
//! way, as every veth does until it is told not to.
use port::testing::TestContext;
use virtio::net::NetHeader;

use crate::exchange::{ETHERTYPE, accept, frame, lend_if};
use crate::namespace::Namespace;
use crate::veth::{join, open};

/// Tags of one frame: none, one, with a priority, of VLAN 0, two of the same type, two as 802.1ad has them.
const TAGS: [&[u8]; 6] = [
    &[],
    &[0x81, 0, 0, 100],
    &[0x81, 0, 0xef, 0xfe],
    &[0x81, 0, 0x20, 0],
    &[0x81, 0, 0, 5, 0x81, 0, 0, 100],
    &[0x88, 0xa8, 0, 200, 0x81, 0, 0, 100],
];

fn frames() -> Vec<Vec<u8>> {
    let tagged = |(number, tags): (u8, &&[u8])| {
        let mut frame = frame(200, number);
        frame.splice(12..12, tags.iter().copied());
        frame
    };
    (0..).zip(&TAGS).map(tagged).collect()
}

/// What comes out at one end of what goes in at the other.
fn pass(from: &mut TestContext, to: &mut TestContext) -> Vec<Vec<u8>> {
    let sent: Vec<_> = frames().into_iter().map(|frame| (NetHeader::default(), frame)).collect();
    accept(from.sinks.get_mut(&0).unwrap().as_mut(), &sent);
    let mut came = Vec::new();
    let ours = |frame: &[u8]| (12..=20).step_by(4).any(|at| frame[at..at + 2] == ETHERTYPE);
    while came.len() < sent.len() {
        came.extend(lend_if(to.sources.get_mut(&0).unwrap().as_mut(), ours));
    }
    came
}

/// A namespace with a bridge, between `p0` and `p1` in the other.
fn bridge() -> (Namespace, Namespace) {
    let (ports, kernel) = (Namespace::new(), Namespace::new());
    join(&ports, "p0", &kernel, 1);
    kernel.sh("ip link set e0 name e1");
    join(&ports, "p1", &kernel, 1);
    kernel.sh("ip link add bridge0 type bridge && ip link set e0 master bridge0 && ip link set e1 up master bridge0 && \
               ip link set bridge0 up");
    (ports, kernel)
}

/// Linux 6.8 and later, with BTF.
fn kernel_gives_tags() -> bool {
    let btf = std::fs::read("/sys/kernel/btf/vmlinux").unwrap_or_default();
    let name = b"\0bpf_xdp_metadata_rx_vlan_tag\0";
    btf.windows(name.len()).any(|window| window == name)
}

#[test]
fn tags_go_both_ways_in_every_mode_or_it_is_said_what_helps() {
    for mode in ["best-effort", "native", "generic"] {
        let (ports, kernel) = bridge();
        let (_p0, mut one) = open(&ports, &format!("p0,xdp-mode={mode}"));
        let (_p1, mut two) = open(&ports, &format!("p1,xdp-mode={mode}"));
        let said = [one.logged.concat(), two.logged.concat()];
        if mode == "generic" || !kernel_gives_tags() {
            for said in &said {
                assert!(said.contains("tagged frames come in untagged"), "{mode}: {said}");
            }
            assert_ne!(pass(&mut one, &mut two), frames(), "the warning is for nothing");
            let remedy = said[0].split("ethtool -K IFACE").nth(1).unwrap();
            kernel.sh(&format!("ethtool -K e0 {remedy} && ethtool -K e1 {remedy}"));
        } else {
            assert_eq!(said, ["", ""], "{mode}");
        }
        assert_eq!(pass(&mut one, &mut two), frames(), "{mode}");
        assert_eq!(pass(&mut two, &mut one), frames(), "{mode}");
    }
}
