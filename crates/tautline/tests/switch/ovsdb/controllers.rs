//! Controllers of the table Controller, and stock programs that look at their messages or get frames.
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Stdio};
use std::time::Duration;

use super::vlans::{Stations, frame};
use super::{BRIDGE, Scene};
use crate::switch_process::wait_for;

/// OpenFlow 1.0, whose packet-ins have 18 bytes before the frame.
const VERSION: u8 = 1;
const HELLO: [u8; 8] = [VERSION, 0, 0, 8, 0, 0, 0, 1];
const ECHO_REQUEST: u8 = 2;
const ECHO_REPLY: u8 = 3;
const PACKET_IN: u8 = 10;
const FRAME_AT: usize = 18;

/// A controller that says nothing but hello and echo replies.
struct Controller(UnixStream);

impl Controller {
    fn new(mut stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(&HELLO).unwrap();
        Controller(stream)
    }

    /// The next message of a kind.
    #[track_caller]
    fn next(&mut self, kind: u8) -> Vec<u8> {
        loop {
            let mut message = vec![0; 8];
            self.0.read_exact(&mut message).unwrap();
            message.resize(usize::from(u16::from_be_bytes([message[2], message[3]])), 0);
            self.0.read_exact(&mut message[8..]).unwrap();
            if message[1] == ECHO_REQUEST {
                message[1] = ECHO_REPLY;
                self.0.write_all(&message).unwrap();
            } else if message[1] == kind {
                return message;
            }
        }
    }
}

/// `ovs-ofctl` that prints messages, to its standard error, until it is dropped.
struct Watcher {
    process: Child,
    lines: BufReader<ChildStderr>,
}

impl Watcher {
    fn start(scene: &Scene, words: &[&str]) -> Self {
        let programs = peers::ovs::programs().unwrap();
        let mut command = programs.instance(scene.database.socket().parent().unwrap()).ofctl(words);
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stderr.take().unwrap());
        Watcher { process, lines }
    }

    /// Reads lines up to one with this text.
    #[track_caller]
    fn until(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "it ended before: {text}");
            if line.contains(text) {
                return line;
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_controller_of_the_database_gets_frames_and_others_look_on() {
    let scene = Scene::new();
    let path = |name: &str| scene.database.socket().with_file_name(name);
    let listener = UnixListener::bind(path("controller")).unwrap();
    let mut stations = Stations::new(&scene, &["a", "b"]);
    let flows = || scene.ofctl(&format!("--no-stats dump-flows {BRIDGE}"));
    stations.send(0, &[], &[(1, &[])]);
    scene.vsctl(&format!("set-controller {BRIDGE} unix:{}", path("controller").display()));
    assert_eq!(flows(), "", "the bridge waits for its controller");
    let mut controller = Controller::new(listener.accept().unwrap().0);
    controller.next(HELLO[1]);
    let column = |name: &str| {
        scene.vsctl(&format!("--no-wait --bare --columns={name} list Controller")).trim().to_owned()
    };
    wait_for("is_connected", || (column("is_connected") == "true").then_some(()));
    let status = column("status");
    assert!(column("role") == "other" && status.contains("state=ACTIVE"), "{status}");

    let mut snoop = Watcher::start(&scene, &["snoop", BRIDGE]);
    let mut monitor = Watcher::start(&scene, &["monitor", BRIDGE, "65534"]);
    scene.ofctl(&format!("add-flow {BRIDGE} in_port=1,actions=controller"));
    let sent = frame(0, &[]);
    // Each of the programs is there at some time.
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            monitor.until("in_port=1 (via action)");
            snoop.until("OFPT_PACKET_IN");
        });
        while !watching.is_finished() {
            stations.0[0].send(&sent);
            assert_eq!(controller.next(PACKET_IN)[FRAME_AT..], sent);
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    drop((snoop, monitor));

    // The bridge waits for the next controller, and forwards again when it has none.
    scene.ofctl(&format!("del-flows {BRIDGE}"));
    // Another program listens there at first.
    let other = UnixListener::bind(path("passive")).unwrap();
    scene.vsctl(&format!("set-controller {BRIDGE} punix:{}", path("passive").display()));
    wait_for("the reason", || {
        scene.vsctl("--columns=status list Controller").contains("listens there").then_some(())
    });
    drop(other);
    let mut next = Controller::new(connected(&path("passive")));
    next.next(HELLO[1]);
    // Controllers without end, which leave room for programs of the host.
    let others: Vec<_> = (0..40).map(|_| connected(&path("passive"))).collect();
    assert_eq!((&others[39]).read(&mut [0]).unwrap_or(0), 0, "it is not accepted");
    assert_eq!(flows(), "");
    drop(others);
    let mut rest = Vec::new();
    assert_eq!(controller.0.read_to_end(&mut rest).unwrap(), 0, "{rest:?}");
    scene.vsctl(&format!("del-controller {BRIDGE}"));
    assert_eq!(next.0.read_to_end(&mut rest).unwrap(), 0, "{rest:?}");
    assert!(!path("passive").exists());
    wait_for("the flow", || (flows() == " priority=0 actions=NORMAL\n").then_some(()));
    stations.send(1, &[], &[(0, &[])]);
    scene.switch.end();
}

fn connected(path: &Path) -> UnixStream {
    wait_for("the socket for a controller", || UnixStream::connect(path).ok())
}
