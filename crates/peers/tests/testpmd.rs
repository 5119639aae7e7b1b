//! Two testpmds, one the driver and one the device: every receive and transmit path of the driver moves
//! packets both ways.

use std::time::Duration;

use peers::pages::{Grown, held_kib};
use peers::testpmd::{self, Forward, Settings, Vdev};
use peers::{Pages, Testpmd};

const SOON: Duration = Duration::from_secs(30);

/// The device sends back what the driver sent, until each side has counted some.
fn exchange(device: &mut Testpmd, driver: &mut Testpmd) {
    device.set_forward(Forward::MacSwap).unwrap();
    device.start_forwarding().unwrap();
    driver.start_with_bursts(4).unwrap();
    // More than was sent first: packets go round.
    driver.wait_for_stats(0, SOON, |stats| stats.rx_packets > 1000).unwrap();
    device.wait_for_stats(0, SOON, |stats| stats.rx_packets > 1000).unwrap();
    driver.stop_forwarding().unwrap();
    device.stop_forwarding().unwrap();
    // While packets go round, their number and their bytes are read a moment apart.
    let stats = device.stats(0).unwrap();
    assert_eq!(stats.rx_bytes, 64 * stats.rx_packets, "{stats:?}");
    assert_eq!(stats.rx_errors, 0, "{stats:?}");
}

fn path(vdev: impl Fn(Vdev) -> Vdev, transmit: &str, receive: &str) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("vhost");
    let mut device = Testpmd::with_ports([Vdev::vhost(&socket)]).unwrap();
    let settings = Settings::default().simd_bits(512).port(vdev(Vdev::virtio_user(&socket)));
    let mut driver = settings.start().unwrap();
    let paths = [format!("{transmit} Tx path on port 0"), format!("{receive} Rx path on port 0")];
    assert_eq!(driver.paths().unwrap(), paths);
    exchange(&mut device, &mut driver);
    // The driver says goodbye, and the device takes the next.
    assert_eq!(driver.quit().unwrap().status, 0);
}

#[test]
fn split_standard() {
    path(|vdev| vdev.mergeable(false).in_order(false), "standard", "standard");
}

/// The driver's build is another file than the device's, and says what it is.
#[test]
fn another_build_is_what_runs() {
    let folder = tempfile::tempdir().unwrap();
    let installed = testpmd::version(None).unwrap();
    let other = folder.path().join("other-testpmd");
    std::fs::copy(&installed.program, &other).unwrap();
    let found = testpmd::version(Some(&other)).unwrap();
    assert_eq!((&found.program, &found.version), (&other, &installed.version));
    assert!(
        found.version.starts_with("DPDK ") && ["static", "shared"].contains(&&*found.linkage),
        "{found:?}"
    );
    let socket = folder.path().join("vhost");
    let mut device = Testpmd::with_ports([Vdev::vhost(&socket)]).unwrap();
    let settings = Settings::default().program(Some(other.clone()));
    let mut driver = settings.port(Vdev::virtio_user(&socket).packed(true)).start().unwrap();
    let runs = |id: u32| std::fs::read_link(format!("/proc/{id}/exe")).unwrap();
    assert_eq!(
        (runs(driver.id()), runs(device.id())),
        (other, std::fs::canonicalize(installed.program).unwrap())
    );
    exchange(&mut device, &mut driver);
    let missing = Settings::default().program(Some("/no/such/testpmd".into())).start();
    let error = missing.map(drop).unwrap_err().to_string();
    assert!(error.contains("/no/such/testpmd"), "{error}");
}

/// 64 bytes of RFC 2544 are 60 in a buffer; and what driver and device agreed on is known.
#[test]
fn sizes_count_the_frame_check_sequence() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("vhost");
    let mut device = Testpmd::with_ports([Vdev::vhost(&socket)]).unwrap();
    let mut driver = Testpmd::with_ports([Vdev::virtio_user(&socket).in_order(false)]).unwrap();
    assert_eq!(device.features().unwrap(), None);
    let (version_1, packed, in_order) = (1 << 32, 1 << 34, 1 << 35);
    assert_eq!(driver.features().unwrap().unwrap() & (version_1 | packed | in_order), version_1);
    device.set_forward(Forward::RxOnly).unwrap();
    device.start_forwarding().unwrap();
    driver.set_forward(Forward::TxOnly).unwrap();
    for (bytes, in_buffer) in [(64, 60), (1518, 1514)] {
        driver.command("clear port stats all").unwrap();
        driver.set_frame_size(bytes).unwrap();
        driver.start_forwarding().unwrap();
        driver.wait_for_stats(0, SOON, |stats| stats.tx_packets > 1000).unwrap();
        driver.stop_forwarding().unwrap();
        let stats = driver.stats(0).unwrap();
        assert_eq!(stats.tx_bytes, in_buffer * stats.tx_packets, "{stats:?}");
    }
    let error = driver.set_frame_size(1).unwrap_err().to_string();
    assert!(error.contains("Segment sizes: 1514"), "{error}");
}

/// Driver and device, as DPDK is meant to run.
#[test]
fn huge_pages() {
    let _grown = Grown::by(128).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("vhost");
    let start = |vdev| Settings::default().pages(Pages::Huge).port(vdev).start().unwrap();
    let mut device = start(Vdev::vhost(&socket));
    let mut driver = start(Vdev::virtio_user(&socket));
    assert!(held_kib(device.id()) > 0 && held_kib(driver.id()) > 0);
    exchange(&mut device, &mut driver);
}

#[test]
fn split_mergeable() {
    path(|vdev| vdev.in_order(false), "standard", "mergeable buffer");
}

#[test]
fn split_in_order() {
    path(|vdev| vdev.mergeable(false), "inorder", "inorder");
}

#[test]
fn split_in_order_mergeable() {
    path(|vdev| vdev, "inorder", "inorder");
}

#[test]
fn split_vectorized() {
    path(|vdev| vdev.mergeable(false).in_order(false).vectorized(true), "standard", "vectorized");
}

#[test]
fn packed_standard() {
    let name = "packed ring standard";
    path(|vdev| vdev.packed(true).mergeable(false).in_order(false), name, name);
}

#[test]
fn packed_mergeable() {
    path(|vdev| vdev.packed(true), "packed ring standard", "packed ring mergeable buffer");
}

#[test]
fn packed_vectorized() {
    let name = peers::testpmd::packed_vectorized_path();
    path(|vdev| vdev.packed(true).mergeable(false).vectorized(true), name, name);
}

#[test]
fn the_roles_on_the_socket_can_be_exchanged() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("vhost");
    // The driver listens, and comes up when the device has connected.
    let device = Settings::default().port(Vdev::vhost(&socket).other_role().queue_pairs(2)).queue_pairs(2);
    let mut device = device.start().unwrap();
    let driver = Settings::default()
        .port(Vdev::virtio_user(&socket).other_role().queue_pairs(2).queue_size(512))
        .queue_pairs(2);
    let mut driver = driver.start().unwrap();
    exchange(&mut device, &mut driver);
    let id = driver.id();
    driver.kill();
    assert!(!std::path::Path::new(&format!("/proc/{id}")).exists());
}
