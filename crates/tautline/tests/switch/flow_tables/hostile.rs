//! Controllers that misbehave: frames go on, others are served, and memory stays limited.
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::changes::Running;
use crate::switch_process::wait_for;

/// OpenFlow 1.5.
const VERSION: u8 = 6;
const HELLO: u8 = 0;
const PACKET_OUT: u8 = 13;
const FLOW_MOD: u8 = 14;
const MULTIPART_REQUEST: u8 = 18;
const BUNDLE_CONTROL: u8 = 33;
const BUNDLE_ADD: u8 = 34;
/// Kinds of multipart request: descriptions of flows.
const FLOW_DESCRIPTION: u16 = 1;
/// Atomic and ordered.
const FLAGS: u16 = 3;
/// More than all bundles may have together.
const BUNDLE_BYTES: usize = 80 << 20;
/// What the switch may grow by: the bytes of bundles, and flows.
const GROWTH_KIB: u64 = 256 << 10;

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + body.len()).unwrap().to_be_bytes();
    [&[VERSION, kind, length[0], length[1], 0, 0, 0, 7], body].concat()
}

/// Adds a flow without actions, which matches this metadata, to table 5.
fn flow(metadata: u64) -> Vec<u8> {
    let mut body = vec![0; 16];
    body.extend([5, 0, 0, 0, 0, 0]);
    body.extend([0x80, 0]);
    body.extend([0xff; 12]);
    body.extend([0, 0, 0, 0, 0, 1, 0, 16, 0x80, 0, 4, 8]);
    body.extend(metadata.to_be_bytes());
    message(FLOW_MOD, &body)
}

/// A frame from port 1, without actions.
fn packet_out(frame: &[u8]) -> Vec<u8> {
    let mut body = vec![0xff; 4];
    body.extend([0, 0, 0, 0, 0, 1, 0, 12, 0x80, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0]);
    message(PACKET_OUT, &[&body[..], frame].concat())
}

struct Controller(UnixStream);

impl Controller {
    /// Connects, and agrees on the version.
    fn greeted(running: &Running) -> Self {
        let mut controller = Self::silent(running);
        controller.0.write_all(&message(HELLO, &[])).unwrap();
        let mut head = [0; 8];
        controller.0.read_exact(&mut head).unwrap();
        let rest = usize::from(u16::from_be_bytes([head[2], head[3]])) - head.len();
        controller.0.read_exact(&mut vec![0; rest]).unwrap();
        controller
    }

    fn silent(running: &Running) -> Self {
        let stream = UnixStream::connect(&running.openflow).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // The write ends after a time limit if the switch does not read.
        stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        Controller(stream)
    }

    /// Whether the switch took these bytes.
    fn send(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).is_ok()
    }

    /// Whether the switch has ended the connection.
    fn is_ended(&mut self) -> bool {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).is_ok()
    }
}

#[test]
fn hostile_controllers_hold_up_neither_frames_nor_others() {
    let mut running = Running::start("0");
    running.flows(&["add", super::MARK]);
    running.flows(&["add", "priority=9,udp,nw_dst=10.0.0.2 actions=output:3"]);
    let before = running.resident_kib();

    // What is no OpenFlow ends the connection.
    for bytes in [
        &[0xff, 0xff, 0, 8, 0xff, 0xff, 0xff, 0xff][..],
        &message(FLOW_MOD, &[0; 48]),
        &[VERSION, HELLO, 0, 3, 0, 0, 0, 1],
    ] {
        let mut controller = Controller::silent(&running);
        assert!(controller.send(bytes) && controller.is_ended(), "{bytes:?}");
    }
    let mut controller = Controller::greeted(&running);
    assert!(controller.send(&[VERSION, FLOW_MOD, 0, 3, 0, 0, 0, 1]) && controller.is_ended());
    // Beginnings of messages, and no more connections than there may be.
    let silent: Vec<_> = (0..64)
        .map(|_| {
            let mut controller = Controller::silent(&running);
            let _ = controller.send(&message(HELLO, &[])[..5]);
            controller
        })
        .collect();
    assert_eq!(running.reached(2), [3]);
    drop(silent);

    // Bundles without end: what is beyond the limit is refused.
    let mut bundles = wait_for("room for a connection", || {
        let mut controller = Controller::silent(&running);
        controller.send(&message(HELLO, &[]));
        let mut head = [0; 8];
        controller.0.read_exact(&mut head).is_ok().then_some(controller)
    });
    let padded = packet_out(&[0; 8000]);
    let mut sent = 0;
    let open =
        |id: u32| message(BUNDLE_CONTROL, &[&id.to_be_bytes()[..], &[0, 0], &FLAGS.to_be_bytes()].concat());
    let add = |id: u32| {
        message(BUNDLE_ADD, &[&id.to_be_bytes()[..], &[0, 0], &FLAGS.to_be_bytes(), &padded].concat())
    };
    (0..20).for_each(|id| assert!(bundles.send(&open(id))));
    let many = add(1).repeat(10);
    let since = Instant::now();
    while sent < BUNDLE_BYTES {
        if !bundles.send(&many) {
            break; // its answers are not read
        }
        sent += many.len();
        if sent % (many.len() * 100) == 0 {
            assert_eq!(running.reached(2), [3]);
        }
    }
    println!("{sent} bytes of bundles in {:?}", since.elapsed());
    // Flows one by one, and a description of all of them, whose answer is not read.
    let mut flows = Controller::greeted(&running);
    let all: Vec<u8> = (0..5000).flat_map(flow).collect();
    flows.0.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
    assert!(flows.send(&all));
    let request =
        [&FLOW_DESCRIPTION.to_be_bytes()[..], &[0; 6], &[255, 0, 0, 0], &[0xff; 8], &[0; 20]].concat();
    let describe = message(MULTIPART_REQUEST, &[&request[..], &[0, 1, 0, 4, 0, 0, 0, 0]].concat());
    flows.0.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let asked = (0..10_000).take_while(|_| flows.send(&describe)).count();
    println!("{asked} descriptions asked for");
    for _ in 0..5 {
        assert_eq!(running.reached(2), [3]);
    }
    assert!(running.ofctl("dump-flows", &["udp"]).contains("priority=9"), "another controller is served");
    let grown = running.resident_kib().saturating_sub(before);
    println!("grown by {grown} KiB");
    assert!(grown < GROWTH_KIB, "{grown} KiB");
    drop((bundles, flows));
    running.flows(&["del", "table=5"]);
    assert_eq!(running.reached(2), [3]);
    running.scene.switch.end();
}
