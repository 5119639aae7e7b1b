//! Two network namespaces joined by `tautline switch` alone, as an ordinary user without huge pages: a TAP
//! wired to a `virtio-user` port on each side, and a switch of two `vhost-user` ports between them. And what
//! is said when something was written or set up wrong.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use peers::Netns;
use peers::netns::Background;
use rustix::process::{Pid, Signal, kill_process};

/// Only a failing test waits for it.
const SOON: Duration = Duration::from_secs(60);

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {} s: {what}", SOON.as_secs());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A folder in which any user may make sockets, with the binary, which may lie where others cannot look.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_tautline"), folder.path().join("tautline")).unwrap();
        Folder(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// What is there beside the binary.
    fn left(&self) -> Vec<String> {
        let names = fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).filter(|name| name != "tautline").collect()
    }
}

/// Who a part is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Centre,
    Left,
    Right,
}

/// Two namespaces, and three switches that join them.
struct Joined {
    // Dropped first: namespaces last.
    centre: Background,
    left: Background,
    right: Background,
    namespaces: [Netns; 2],
    folder: Folder,
    queue_pairs: u16,
}

impl Joined {
    fn start(queue_pairs: u16) -> Self {
        let one = Netns::unprivileged().unwrap();
        let other = one.sibling().unwrap();
        let (namespaces, folder) = ([one, other], Folder::new());
        let begin = |part| begin(&namespaces, &folder, part, queue_pairs);
        let (left, right, centre) = (begin(Part::Left), begin(Part::Right), begin(Part::Centre));
        let joined = Joined { centre, left, right, namespaces, folder, queue_pairs };
        joined.talks();
        joined
    }

    fn part(&mut self, part: Part) -> &mut Background {
        match part {
            Part::Centre => &mut self.centre,
            Part::Left => &mut self.left,
            Part::Right => &mut self.right,
        }
    }

    fn said(&self) -> String {
        format!("centre:\n{}left:\n{}right:\n{}", self.centre.said(), self.left.said(), self.right.said())
    }

    /// Until a frame goes there and back.
    fn talks(&self) {
        let ping = || self.namespaces[0].run("ping -c 1 -W 1 10.9.0.2").unwrap().success();
        let deadline = Instant::now() + SOON;
        while !ping() {
            assert!(Instant::now() < deadline, "no answer; {}", self.said());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Bytes that arrived, by iperf3's own count, with these arguments of the client.
    fn iperf3(&self, arguments: &str) -> u64 {
        let [left, right] = &self.namespaces;
        let server = right.start("iperf3 --server --one-off --forceflush").unwrap();
        server.wait_for("Server listening", SOON).unwrap();
        let line = format!("iperf3 --client 10.9.0.2 --time 1 --json {arguments}");
        let report = left.run(&line).unwrap().expect_success();
        peers::bytes_received(&report).unwrap_or_else(|| panic!("{report}"))
    }

    /// Ends one part by a signal, checks that it leaves nothing and disturbs no other part, and starts it again.
    fn end_and_begin(&mut self, part: Part, signal: Signal) {
        let ended = self.part(part);
        kill_process(Pid::from_raw(ended.id() as i32).unwrap(), signal).unwrap();
        let status = ended.end(SOON).unwrap();
        let expected = match signal {
            Signal::INT => 130,
            Signal::KILL => 128 + 9,
            _ => 0,
        };
        assert_eq!(status, expected, "{part:?} {signal:?}; {}", self.said());
        match part {
            Part::Left => self.interface_goes(0),
            Part::Right => self.interface_goes(1),
            // No process can remove a socket after SIGKILL; the next server takes it over.
            Part::Centre if signal == Signal::KILL => {}
            Part::Centre => assert_eq!(self.folder.left(), [""; 0]),
        }
        for other in [Part::Centre, Part::Left, Part::Right] {
            assert!(
                other == part || self.part(other).runs(),
                "{other:?} ended with {part:?}; {}",
                self.said()
            );
        }
        let again = begin(&self.namespaces, &self.folder, part, self.queue_pairs);
        *self.part(part) = again;
        self.talks();
    }

    fn interface_goes(&self, namespace: usize) {
        let gone = || !self.namespaces[namespace].run("ip link show tap0").unwrap().success();
        eventually("the interface goes with its switch", gone);
    }

    /// Ends all, and sees that nothing is left.
    fn end(mut self) {
        for part in [Part::Centre, Part::Left, Part::Right] {
            let part = self.part(part);
            kill_process(Pid::from_raw(part.id() as i32).unwrap(), Signal::TERM).unwrap();
            assert_eq!(part.end(SOON).unwrap(), 0);
            assert!(!Path::new(&format!("/proc/{}", part.id())).exists());
        }
        self.interface_goes(0);
        self.interface_goes(1);
        assert_eq!(self.folder.left(), [""; 0]);
    }
}

fn begin(namespaces: &[Netns; 2], folder: &Folder, part: Part, pairs: u16) -> Background {
    let (tautline, [left, right]) =
        (folder.text("tautline"), ["left", "right"].map(|name| folder.text(name)));
    let plug = |last, socket| {
        // With an address of its own each time, the other side's kernel would look for the old one first.
        format!(
            "{tautline} switch --wire kernel=plug \
             --port kernel=tap:tap0,address=10.9.0.{last}/24,mac=02:00:00:00:00:0{last},queue-pairs={pairs} \
             --port plug=virtio-user:{socket},queue-pairs={pairs}"
        )
    };
    let line = match part {
        Part::Left => plug(1, &left),
        Part::Right => plug(2, &right),
        Part::Centre => format!(
            "{tautline} switch --port left=vhost-user:{left},queue-pairs={pairs} \
             --port right=vhost-user:{right},queue-pairs={pairs}"
        ),
    };
    namespaces[usize::from(part == Part::Right)].start(&line).unwrap()
}

#[test]
fn two_namespaces_talk_both_ways_and_nothing_is_left() {
    let joined = Joined::start(1);
    joined.namespaces[0].run("ping -c 3 -i 0.2 -W 10 10.9.0.2").unwrap().expect_success();
    joined.namespaces[1].run("ping -c 3 -i 0.2 -W 10 10.9.0.1").unwrap().expect_success();
    // A second's worth at 8 Mbit/s: far below what any machine does, far above what a broken path does.
    for arguments in ["", "--reverse", "--udp --bitrate 20M", "--udp --bitrate 20M --reverse"] {
        let bytes = joined.iperf3(arguments);
        assert!(bytes > 1_000_000, "{bytes} bytes with '{arguments}'; {}", joined.said());
    }
    joined.end();
}

#[test]
fn several_queues_are_used() {
    let joined = Joined::start(2);
    for arguments in ["--parallel 16", "--parallel 16 --reverse"] {
        assert!(joined.iperf3(arguments) > 1_000_000, "{}", joined.said());
    }
    kill_process(Pid::from_raw(joined.centre.id() as i32).unwrap(), Signal::USR1).unwrap();
    joined.centre.wait_for("worker 0:", SOON).unwrap();
    let said = joined.centre.said();
    let queues = |direction: &str| -> Vec<u64> {
        let lines = said.lines().filter(|line| line.trim_start().starts_with(direction));
        lines.map(|line| line.split_whitespace().nth(3).unwrap().parse().unwrap()).collect()
    };
    // Two queues of two ports; flows that are spread by a hash.
    for direction in ["from guest", "to guest"] {
        let frames = queues(direction);
        assert_eq!(frames.len(), 4, "{said}");
        assert!(frames.iter().all(|frames| *frames > 0), "{said}");
    }
    joined.end();
}

#[test]
fn each_part_may_end_by_any_signal_and_come_back() {
    let mut joined = Joined::start(1);
    for part in [Part::Left, Part::Right, Part::Centre] {
        for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
            joined.end_and_begin(part, signal);
        }
    }
    joined.end();
}

/// `tautline switch` with these ports, as an ordinary user, to its end: exit code and what it said.
fn refused(folder: &Folder, ports: &[String]) -> (i32, String) {
    let tautline = folder.path("tautline");
    let mut command = match peers::requirements::is_root() {
        false => Command::new(&tautline),
        true => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]).arg(&tautline);
            command
        }
    };
    command.current_dir("/").arg("switch");
    for port in ports {
        command.args(["--port", port]);
    }
    let output = peers::run(&mut command, SOON).unwrap();
    (output.status, output.stderr)
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let folder = Folder::new();
    fs::write(folder.path("file"), "").unwrap();
    let long = "x".repeat(120);
    // What was tried, what the system or the check said, and what to do.
    let cases: [(String, i32, &[&str]); 12] = [
        ("a".into(), 2, &["--port a", "write NAME=KIND:TARGET"]),
        ("a=tap".into(), 2, &["'tap' names no kind", "write KIND:TARGET"]),
        ("a=vhost:/tmp/s".into(), 2, &["no port of kind 'vhost'", "vhost-user:PATH"]),
        ("a=tap:t,queues=2".into(), 2, &["no option 'queues'", "it has fd, queue-pairs"]),
        ("a=tap:t,queue-pairs=0".into(), 2, &["queue-pairs=0", "write a number from 1 to 256"]),
        ("a=tap:t,address=10.9.0.1".into(), 2, &["address=10.9.0.1", "write an address with its prefix"]),
        (format!("a=vhost-user:/tmp/{long}"), 2, &["use vhost-user:", "at most 107 bytes", "shorter"]),
        (format!("a=virtio-user:/tmp/{long}"), 2, &["use virtio-user:", "at most 107 bytes", "shorter"]),
        (
            format!("a=vhost-user:{}/s", folder.text("missing")),
            1,
            &["port 'a': open vhost-user:", "No such file or directory", "give a path"],
        ),
        (
            format!("a=vhost-user:{}", folder.text("file")),
            1,
            &["port 'a': open vhost-user:", "is not a socket", "choose another path"],
        ),
        ("a=tap:tap0".into(), 1, &["attach to TAP tap0", "Operation not permitted", "run as root"]),
        ("a=pcap:/no/such/file".into(), 1, &["replay /no/such/file", "No such file", "name a capture"]),
    ];
    for (port, code, parts) in cases {
        let (status, said) = refused(&folder, std::slice::from_ref(&port));
        assert_eq!(status, code, "{port}: {said}");
        for part in parts {
            assert!(said.contains(part), "{port}: not '{part}' in: {said}");
        }
        assert_eq!(said.lines().count(), 1, "{port}: {said}");
    }
    assert_eq!(folder.left(), ["file"]);
}

#[test]
fn a_socket_in_use_is_left_to_its_server() {
    let (namespace, folder) = (Netns::unprivileged().unwrap(), Folder::new());
    let port = format!("a=vhost-user:{}", folder.text("socket"));
    let mut server = namespace.start(&format!("{} switch --port {port}", folder.text("tautline"))).unwrap();
    eventually("the first switch listens", || folder.path("socket").exists());
    let (status, said) = refused(&folder, &[port]);
    assert_eq!(status, 1, "{said}");
    for part in ["port 'a'", "in use by a running server", "choose another path or stop that server"] {
        assert!(said.contains(part), "not '{part}' in: {said}");
    }
    assert!(server.runs() && folder.path("socket").exists(), "{}", server.said());
    kill_process(Pid::from_raw(server.id() as i32).unwrap(), Signal::TERM).unwrap();
    assert_eq!(server.end(SOON).unwrap(), 0);
    assert_eq!(folder.left(), [""; 0]);
}
