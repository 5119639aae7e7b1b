//! Controllers at a bridge's management socket that send what they should not, or without end: memory stays bounded, and
//! the frames of others pass all the while.
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::vlans::Stations;
use super::{BRIDGE, Scene, resident_kib};
use crate::openflow_messages::{FLOW_MOD, flow, message};

/// Message types of OpenFlow 1.5 (§7.1.1).
const HELLO: u8 = 0;
const ERROR: u8 = 1;
const BARRIER_REQUEST: u8 = 20;
const BARRIER_REPLY: u8 = 21;
const BUNDLE_CONTROL: u8 = 33;
const BUNDLE_ADD: u8 = 34;
/// The last table of a bridge.
const LAST_TABLE: u8 = 253;
/// The memory that a controller may make the switch use: a bundle of 64 MiB, its copy, and as many flows.
const GROWTH_KIB: u64 = 400 << 10;

/// A controller that has agreed on OpenFlow 1.5.
struct Controller(UnixStream);

impl Controller {
    fn new(scene: &Scene) -> Self {
        let path = scene.database.socket().with_file_name(format!("{BRIDGE}.mgmt"));
        let mut controller = Controller(UnixStream::connect(path).unwrap());
        controller.0.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        controller.0.write_all(&message(HELLO, &[])).unwrap();
        assert_eq!(controller.next().unwrap().0, HELLO);
        controller
    }

    /// The type and body of the next message; `None` if the switch has ended the connection.
    fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 8];
        match self.0.read_exact(&mut head) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
                return None;
            }
            Err(error) => panic!("reading from the switch: {error}"),
        }
        let mut body = vec![0; usize::from(u16::from_be_bytes([head[2], head[3]])) - 8];
        self.0.read_exact(&mut body).unwrap();
        Some((head[1], body))
    }

    /// The types of messages up to the answer to a barrier.
    fn answers(&mut self) -> Vec<u8> {
        self.0.write_all(&message(BARRIER_REQUEST, &[])).unwrap();
        std::iter::from_fn(|| self.next().map(|(kind, _)| kind))
            .take_while(|kind| *kind != BARRIER_REPLY)
            .collect()
    }
}

/// Sends frames from one station to the other until the work is done; each arrives.
fn beside(stations: &mut Stations, work: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let working = scope.spawn(work);
        let mut frames = 0;
        while !working.is_finished() || frames < 10 {
            stations.send(0, &[], &[(1, &[])]);
            stations.0[1].post(1);
            stations.0[0].reclaimed(1);
            frames += 1;
        }
        working.join().unwrap();
    });
}

#[test]
fn a_hostile_controller_takes_neither_memory_nor_the_frames_of_others() {
    let scene = Scene::new();
    let mut stations = Stations::new(&scene, &["a", "b"]);
    stations.send(0, &[], &[(1, &[])]);
    let grown = |before: u64| resident_kib(scene.switch.id()).saturating_sub(before);
    let before = resident_kib(scene.switch.id());

    // Messages whose lengths contradict their contents, and bytes that are no messages.
    beside(&mut stations, || {
        for (length, ends) in [(7_u16, true), (9, false), (40, false), (65_535, false)] {
            let mut controller = Controller::new(&scene);
            let mut wrong = message(FLOW_MOD, &vec![0xff; usize::from(length).saturating_sub(8)]);
            wrong[2..4].copy_from_slice(&length.to_be_bytes());
            controller.0.write_all(&wrong).unwrap();
            match ends {
                true => assert_eq!(controller.next(), None, "{length}"),
                false => assert_eq!(controller.next().map(|(kind, _)| kind), Some(ERROR), "{length}"),
            }
        }
    });

    // A bundle that never ends is refused at its limit.
    beside(&mut stations, || {
        let mut controller = Controller::new(&scene);
        controller.0.write_all(&message(BUNDLE_CONTROL, &[0, 0, 0, 1, 0, 0, 0, 3])).unwrap();
        assert_eq!(controller.answers(), [BUNDLE_CONTROL]);
        let part: Vec<u8> = (0..1000)
            .flat_map(|number| {
                message(BUNDLE_ADD, &[&[0, 0, 0, 1, 0, 0, 0, 3][..], &flow(LAST_TABLE, number)].concat())
            })
            .collect();
        let mut sent = 0;
        while controller.answers().is_empty() {
            assert!(sent < 128 << 20, "the switch has taken a bundle of {sent} bytes");
            controller.0.write_all(&part).unwrap();
            sent += part.len();
        }
    });
    assert!(grown(before) < GROWTH_KIB, "{} KiB more", grown(before));

    // Flows without end are refused once the tables are full.
    let flows: u64 = std::env::var("TAUTLINE_HOSTILE_FLOWS").map_or(5_000, |count| count.parse().unwrap());
    beside(&mut stations, || {
        let mut controller = Controller::new(&scene);
        let mut refused = 0;
        for from in (0..flows).step_by(1000) {
            let part: Vec<u8> = (from..from + 1000).flat_map(|number| flow(LAST_TABLE, number)).collect();
            controller.0.write_all(&part).unwrap();
            refused += controller.answers().len() as u64;
        }
        // The limit of a bridge, less the flow with which the bridge began.
        assert_eq!(refused, flows.saturating_sub((1 << 18) - 1));
    });
    assert!(grown(before) < 2 * GROWTH_KIB, "{} KiB more", grown(before));
    stations.send(1, &[], &[(0, &[])]);
    scene.switch.end();
}
