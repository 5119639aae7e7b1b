//! DPDK's testpmd as the other end: its virtio-user driver against our back-end, and our front-end
//! against its vhost library; whole conversations with rings started and stopped.
mod common;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use common::device::Device;
use common::driver::Driver;
use common::programs::{Running, need};
use common::{End, connect, serve, soon};
use vhost_user::bits::ProtocolFeatures as P;
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::session::backend::{BackendSession, Kick, Offer};
use vhost_user::session::frontend::Answer;
use vhost_user::socket::Listener;
use vhost_user::vring::{RingLayout, VringBase};
use virtio::Features;

/// Its runtime files go to the folder, which goes with the test.
fn testpmd(prefix: &str, vdev: &str, queues: u16, folder: &Path) -> Running {
    let program = need("dpdk-testpmd", "dpdk-dev");
    let queues = queues.to_string();
    Running::start(
        Command::new(program)
            .env("RUNTIME_DIRECTORY", folder)
            .args([
                "--no-huge",
                "-m",
                "256",
                "--no-pci",
                "--no-telemetry",
                "--no-shconf",
                "-l",
                "0,1",
                "--log-level=lib.vhost.config:warning",
            ])
            .args(["--file-prefix", prefix, "--vdev", vdev])
            .args(["--", "-i", "--rxq", &queues, "--txq", &queues, "--total-num-mbufs=2048"])
            .stdout(Stdio::null()),
    )
}

fn conversation(prefix: &str, packed: bool, pairs: u16) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vhost.sock");
    let listener = Listener::bind(&path).unwrap();
    let layout = if packed { RingLayout::Packed } else { RingLayout::Split };
    let packed = u8::from(packed);
    let vdev =
        format!("net_virtio_user0,path={},queues={pairs},queue_size=256,packed_vq={packed}", path.display());
    let mut program = testpmd(prefix, &vdev, pairs, folder.path());
    let mut connection = listener.accept(soon()).unwrap();

    // CTRL_VQ, MQ, STATUS, MRG_RXBUF, IN_ORDER.
    let net = Features::from_bits_retain(1 << 15 | 1 << 16 | 1 << 17 | 1 << 22 | 1 << 35);
    let features = net | Features::VERSION_1 | Features::RING_PACKED;
    // The offer has one ring more for the driver's control queue.
    let offer = Offer::new(features, P::HANDLED, 2 * pairs + 1).unwrap().report_queues(pairs);
    let mut session = BackendSession::new(offer);
    let mut device = Device::default();

    let rings = 2 * usize::from(pairs);
    let all_enabled =
        |device: &Device| device.rings.len() == rings && device.rings.values().all(|ring| ring.enabled);
    let end = serve(&mut connection, &mut session, &mut device, all_enabled);
    println!("testpmd said {:?}, events {:?}", device.messages, device.log);
    assert!(matches!(end, End::Enough), "{end:?} after {:?} {:?}", device.messages, device.log);
    assert!(!device.regions.is_empty());
    for ring in device.rings.values() {
        assert_eq!((ring.config.layout, ring.config.size.get()), (layout, 256));
        assert_eq!(ring.config.base, VringBase::start(layout));
        assert!(matches!(ring.kick, Kick::Event(_)));
        assert!(device.shares(ring.config.addresses));
    }

    program.0.stdin.as_mut().unwrap().write_all(b"port stop all\nquit\n").unwrap();
    let end = serve(&mut connection, &mut session, &mut device, |device| device.rings.is_empty());
    println!("testpmd said {:?}, events {:?}", device.messages, device.log);
    assert!(matches!(end, End::Enough), "{end:?} after {:?}", device.messages);
    device.assert_nothing_rejected();
}

#[test]
fn split_rings_start_and_stop() {
    conversation("vu-split", false, 1);
}

#[test]
fn packed_rings_start_and_stop() {
    conversation("vu-packed", true, 1);
}

#[test]
fn two_queue_pairs_start_and_stop() {
    conversation("vu-pairs", false, 2);
}

/// Our front-end against `net_vhost`.
fn with_net_vhost(prefix: &str, layout: RingLayout) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vhost.sock");
    let _program =
        testpmd(prefix, &format!("net_vhost0,iface={},queues=1", path.display()), 1, folder.path());
    let mut driver = Driver::new(connect(&path));
    let mut features = Features::VERSION_1 | Features::VHOST_PROTOCOL_FEATURES;
    features.set(Features::RING_PACKED, layout == RingLayout::Packed);
    driver.negotiate(features, P::HANDLED);
    assert_eq!(driver.session.agreed().features, features);
    let protocol = driver.session.agreed().protocol;
    println!("net_vhost and we agree on {protocol:?}");
    assert!(protocol.contains(P::MQ | P::REPLY_ACK));
    let count = driver.ask(Request::GetQueueNum, vec![]);
    assert!(matches!(count, Some(Answer::Number { value: 1.., .. })), "{count:?}");
    driver.share_memory();
    let start = VringBase::start(layout);
    for index in 0..2 {
        driver.start_ring(index, start.to_wire());
    }
    for index in 0..2 {
        assert_eq!(driver.stop_ring(index), start);
    }
}

#[test]
fn net_vhost_starts_and_stops_split_rings() {
    with_net_vhost("vu-vhost-split", RingLayout::Split);
}

#[test]
fn net_vhost_starts_and_stops_packed_rings() {
    with_net_vhost("vu-vhost-packed", RingLayout::Packed);
}
