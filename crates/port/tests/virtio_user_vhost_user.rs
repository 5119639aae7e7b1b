//! The two ends of this project against each other: a `virtio-user` port and a `vhost-user` port, whose
//! frames go back where they came from.
mod common_driver;

use std::time::Instant;

use common_driver::attached::Attached;
use common_driver::context::TestContext;
use common_driver::frames::{Checker, Sender};
use common_driver::soon;
use frame::Side;
use port::Port;
use port::vhost_user::{Role, VhostUser, VhostUserOptions};
use port::virtio_user::VirtioUserOptions;

struct Device {
    port: VhostUser,
    context: TestContext,
}

impl Device {
    fn start(options: VhostUserOptions) -> Self {
        let mut device = Device { port: VhostUser::new(options).unwrap(), context: TestContext::new() };
        device.port.start(&mut device.context).unwrap();
        device
    }

    /// Listens to the peer, and sends back what came.
    fn turn(&mut self) {
        self.context.turn_now(&mut self.port);
        for (pair, source) in &mut self.context.sources {
            let Some(sink) = self.context.sinks.get_mut(pair) else { continue };
            let batch = source.rx_burst(32).unwrap();
            let all: Vec<u16> = (0..batch.len() as u16).collect();
            sink.accept(batch, &all).unwrap();
            if source.needs_release() {
                source.release();
            }
        }
    }
}

fn until_connected(driver: &mut Attached, device: &mut Device, pairs: usize) {
    let deadline = soon();
    let ready = |context: &TestContext| context.sources.len() == pairs && context.sinks.len() == pairs;
    while !ready(&driver.context) || !ready(&device.context) {
        let (left, right) = (driver.port.describe(), device.port.describe());
        let logged = (&driver.context.logged, &device.context.logged);
        assert!(Instant::now() < deadline, "{left}; {right}; {logged:?}");
        driver.context.turn_now(&mut driver.port);
        device.turn();
    }
}

fn there_and_back(driver: &mut Attached, device: &mut Device, frames: u64, longest: usize) {
    let pairs = driver.context.sinks.len();
    let mut senders: Vec<_> = (0..pairs as u8).map(Sender::new).collect();
    let mut checker = Checker::default();
    let mut lengths = (60..=longest).step_by(29).cycle();
    let deadline = soon();
    while checker.next[..pairs].iter().any(|next| *next < frames) {
        assert!(Instant::now() < deadline, "{:?} of {frames} came", checker.next);
        for (pair, sender) in senders.iter_mut().enumerate().filter(|(_, sender)| sender.next < frames) {
            let burst: Vec<_> = lengths.by_ref().take(8).collect();
            sender.send(driver.context.sinks.get_mut(&(pair as u16)).unwrap().as_mut(), &burst);
        }
        device.turn();
        for source in driver.context.sources.values_mut() {
            while checker.drain(source.as_mut()) > 0 {}
        }
    }
    for pair in 0..pairs as u16 {
        for side in [Side::FromGuest, Side::ToGuest] {
            assert_eq!(driver.port.counters(pair, side).unwrap().counts().dropped(), 0);
            assert_eq!(device.port.counters(pair, side).unwrap().counts().dropped(), 0);
        }
    }
}

#[test]
fn every_kind_of_ring() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vhost.sock");
    let mut device = Device::start(VhostUserOptions::new(&path));
    for bits in 0..32 {
        let on = |bit: u32| bits & (1 << bit) != 0;
        let mut driver = Attached::start(VirtioUserOptions {
            packed: on(0),
            in_order: on(1),
            mergeable: on(2),
            event_idx: on(3),
            offloads: on(4),
            ..VirtioUserOptions::new(&path)
        });
        until_connected(&mut driver, &mut device, 1);
        there_and_back(&mut driver, &mut device, 1000, 1514);
        driver.end();
        let deadline = soon();
        while !device.context.sources.is_empty() || !device.context.sinks.is_empty() {
            assert!(Instant::now() < deadline, "{}", device.port.describe());
            device.turn();
        }
    }
}

#[test]
fn several_pairs_and_long_frames() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vhost.sock");
    for packed in [false, true] {
        let mut two = VhostUserOptions::new(&path);
        two.net.queue_pairs = 2;
        let mut device = Device::start(two);
        let options = VirtioUserOptions { queue_pairs: 3, packed, ..VirtioUserOptions::new(&path) };
        let mut driver = Attached::start(options);
        until_connected(&mut driver, &mut device, 2);
        there_and_back(&mut driver, &mut device, 1000, 9014);
        driver.end();
        device.port.end(&mut device.context);
    }
}

/// The other end connects.
#[test]
fn the_device_may_connect() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vhost.sock");
    let mut driver = Attached::start(VirtioUserOptions { server: true, ..VirtioUserOptions::new(&path) });
    let mut device = Device::start(VhostUserOptions { role: Role::Client, ..VhostUserOptions::new(&path) });
    until_connected(&mut driver, &mut device, 1);
    there_and_back(&mut driver, &mut device, 1000, 1514);
    driver.end();
}
