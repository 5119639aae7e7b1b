//! The kernel's bridge between two TAPs: what one driver sends arrives at the other, and nothing else does.

use std::time::Duration;

use peers::netns::TapQueues;
use peers::testpmd::{Forward, Settings, Vdev};
use peers::{Bridge, Netns};

const SOON: Duration = Duration::from_secs(30);
const ADDRESSES: [&str; 2] = ["02:00:00:00:aa:01", "02:00:00:00:aa:02"];

#[test]
fn frames_cross_and_nothing_else_comes() {
    let bridge = Bridge::new().unwrap();
    let mut settings = Settings::default();
    for (index, tap) in ["a", "b"].into_iter().enumerate() {
        bridge.tap(tap, TapQueues::Many).unwrap();
        settings = settings.port(Vdev::tap(tap).argument("mac", ADDRESSES[index]));
        settings = settings.arguments([&format!("--eth-peer={index},{}", ADDRESSES[1 - index])]);
    }
    let mut testpmd = settings.start_in(bridge.namespace()).unwrap();
    for (index, tap) in ["a", "b"].into_iter().enumerate() {
        bridge.set_address(tap, &format!("02:00:00:00:bb:0{index}")).unwrap();
        testpmd.wait_for_link(index as u16).unwrap();
    }
    // Long enough for what an interface says when it comes up: duplicate addresses, routers, queriers.
    testpmd.set_forward(Forward::RxOnly).unwrap();
    testpmd.start_forwarding().unwrap();
    std::thread::sleep(Duration::from_secs(3));
    testpmd.stop_forwarding().unwrap();
    for port in 0..2 {
        assert_eq!(testpmd.stats(port).unwrap().rx_packets, 0, "somebody else speaks on port {port}");
    }
    testpmd.set_forward(Forward::Io).unwrap();
    for bytes in [64, 1518] {
        testpmd.command(&format!("set txpkts {bytes}")).unwrap();
        testpmd.start_with_bursts(1).unwrap();
        // It counts what it threw away before it began.
        testpmd.command("clear port stats all").unwrap();
        for port in 0..2 {
            // More than was sent first: frames go round.
            let stats = testpmd.wait_for_stats(port, SOON, |stats| stats.rx_packets > 1000).unwrap();
            assert_eq!(stats.rx_bytes, bytes * stats.rx_packets, "{stats:?}");
        }
        testpmd.stop_forwarding().unwrap();
    }
    let of = |line: &str| bridge.namespace().run(line).unwrap().expect_success();
    let learned = of("bridge fdb show br bridge0");
    for (tap, address) in ["a", "b"].into_iter().zip(ADDRESSES) {
        assert!(learned.contains(&format!("{address} dev {tap} master")), "{learned}");
    }
    assert_eq!(testpmd.quit().unwrap().status, 0);
}

#[test]
fn a_bridge_goes_with_its_namespace() {
    let bridge = Bridge::new().unwrap();
    bridge.tap("tap-of-bridge", TapQueues::Many).unwrap();
    let holder = bridge.namespace().holder();
    let links = |namespace: &Netns| namespace.run("ip link").unwrap().expect_success();
    assert!(links(bridge.namespace()).contains("tap-of-bridge"));
    let here = peers::run(std::process::Command::new("ip").arg("link"), SOON).unwrap().expect_success();
    assert!(!here.contains("tap-of-bridge") && !here.contains("bridge0"), "{here}");
    drop(bridge);
    assert!(!std::path::Path::new(&format!("/proc/{holder}")).exists());
}
