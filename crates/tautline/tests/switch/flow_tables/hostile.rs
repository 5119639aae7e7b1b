//! Controllers that misbehave: frames go on, others are served, and memory stays limited.
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use peers::bystander::{Bystander, test_name};

use super::changes::Running;
use crate::openflow_messages::{FLOW_MOD, flow, message};
use crate::switch_process::guest::{RECEIVE, TRANSMIT};
use crate::switch_process::{drops, wait_for};

/// Message types of OpenFlow 1.5 (§7.1.1).
const HELLO: u8 = 0;
const ECHO_REQUEST: u8 = 2;
const ECHO_REPLY: u8 = 3;
const SET_CONFIG: u8 = 9;
const PACKET_IN: u8 = 10;
const PACKET_OUT: u8 = 13;
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
        assert_eq!(controller.next().0, HELLO);
        controller.wait_until_handled();
        controller
    }

    /// Waits until the switch has handled all messages so far. The switch sends its HELLO before it has read one, and
    /// a controller gets no packet-in before that.
    fn wait_until_handled(&mut self) {
        assert!(self.send(&message(ECHO_REQUEST, &[])));
        while self.next().0 != ECHO_REPLY {}
    }

    /// The type of the next message, and its bytes behind the header.
    fn next(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 8];
        self.0.read_exact(&mut head).unwrap();
        let mut body = vec![0; usize::from(u16::from_be_bytes([head[2], head[3]])) - head.len()];
        self.0.read_exact(&mut body).unwrap();
        (head[1], body)
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

    /// The frame of the next packet-in.
    fn packet_in(&mut self) -> Vec<u8> {
        loop {
            let (kind, mut body) = self.next();
            if kind == PACKET_IN {
                // Buffer, lengths, reason, table and cookie; the match, padded; two more bytes.
                let of_match = usize::from(u16::from_be_bytes([body[18], body[19]])).next_multiple_of(8);
                return body.split_off(16 + of_match + 2);
            }
        }
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
        &[6, HELLO, 0, 3, 0, 0, 0, 1],
    ] {
        let mut controller = Controller::silent(&running);
        assert!(controller.send(bytes) && controller.is_ended(), "{bytes:?}");
    }
    let mut controller = Controller::greeted(&running);
    assert!(controller.send(&[6, FLOW_MOD, 0, 3, 0, 0, 0, 1]) && controller.is_ended());
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
    let all: Vec<u8> = (0..5000).flat_map(|number| flow(5, number)).collect();
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

/// Flows that frames of one port learn, at most.
const LEARNED: usize = 4096;
/// The longest time that a neighbour's frame may take, also on a machine with other work.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sets a flag when it is dropped.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// All frames of port 1 go to a controller, and each learns a flow. Those of port 2 go to port 3 and to the controller.
#[test]
fn a_guest_that_sends_to_the_controller_without_end_delays_no_neighbour() {
    const ROUNDS: u64 = 100;
    const BURST: usize = 30;
    let mut running = Running::start("0");
    let learn = "learn(table=5,hard_timeout=60,NXM_OF_ETH_DST[],output:NXM_OF_IN_PORT[])";
    running.flows(&["add", &format!("priority=9,in_port=1 actions={learn},controller")]);
    running.flows(&["add", "priority=9,in_port=2 actions=controller,output:3"]);
    let mut controller = Controller::greeted(&running);
    assert!(controller.send(&message(SET_CONFIG, &[0, 0, 0xff, 0xff])));
    controller.wait_until_handled();
    let before = running.resident_kib();

    let numbered = |port: u8, number: u64| {
        let to = [&[2, 9][..], &(number as u32).to_be_bytes()].concat();
        let from = [2, 0, 0, 0, 0, port, 0x88, 0xb5];
        let mut frame = [&to[..], &from, &number.to_be_bytes()].concat();
        frame.resize(1400, port);
        frame
    };
    let [one, two, three] = &mut running.scene.guests[..] else { panic!("three guests") };
    let (ends, mut worst, mut flooded, mut others) = (AtomicBool::new(false), Duration::ZERO, 0_u64, 0_u64);
    std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let mut sent = 0;
            while !ends.load(Ordering::Relaxed) {
                (0..BURST).for_each(|_| one.send(&numbered(1, sent)));
                one.wait_for_used(TRANSMIT, BURST);
                sent += BURST as u64;
            }
            sent
        });
        // The flood ends with this block, even if an assertion fails: the scope waits for it.
        let ending = SetAtEnd(&ends);
        for number in 0..ROUNDS {
            let (frame, since) = (numbered(2, number), Instant::now());
            two.send(&frame);
            two.wait_for_used(TRANSMIT, 1);
            for used in three.wait_for_used(RECEIVE, 1) {
                assert_eq!(three.received(&used), frame);
                three.post(1);
            }
            let arrived = since.elapsed();
            while controller.packet_in() != frame {
                others += 1;
                assert!(since.elapsed() < PATIENCE, "{others} frames of the flood came first");
            }
            worst = worst.max(since.elapsed());
            // Slower than the limit of frames for controllers.
            std::thread::sleep(Duration::from_millis(2));
            assert!(worst < PATIENCE, "arrived after {arrived:?}, at the controller after {worst:?}");
        }
        drop(ending);
        flooded = flood.join().unwrap();
    });
    Bystander { worst_latency: worst, sent: ROUNDS, lost: 0 }.print(&test_name());
    println!("{flooded} frames of the flood, {others} of them at the controller");
    let snapshot = running.scene.switch.snapshot();
    let of = |port: &str, reason: &str| drops(&snapshot, port, reason);
    let (given, refused) = (of("one", "given to controllers"), of("one", "limit of frames for controllers"));
    assert_eq!(given + refused, flooded);
    assert!(given >= others && refused > 0, "{given} given, {refused} refused");
    assert_eq!(of("two", "limit of frames for controllers"), 0);
    let learned = running.ofctl("dump-aggregate", &["table=5"]);
    let flows = learned.trim().rsplit_once("flow_count=").unwrap().1.parse::<usize>().unwrap();
    assert!((1..=LEARNED).contains(&flows), "{learned}");
    let grown = running.resident_kib().saturating_sub(before);
    assert!(grown < GROWTH_KIB / 8, "{grown} KiB");
    running.scene.switch.end();
}
