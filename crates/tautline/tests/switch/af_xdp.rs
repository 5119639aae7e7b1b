//! A switch between two veths by AF_XDP: a container's namespace attached without a TAP. Nothing of it stays at the
//! interfaces, however it ends.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use peers::Netns;
use peers::netns::Background;
use rustix::process::{Pid, Signal, kill_process};

const BINARY: &str = env!("CARGO_BIN_EXE_tautline");
/// Only a failing test waits for it.
const SOON: Duration = Duration::from_secs(60);

/// Two namespaces, each with one end of a veth, whose other ends are in the switch's.
struct Joined {
    left: Netns,
    _right: Netns,
    between: Netns,
    folder: tempfile::TempDir,
}

impl Joined {
    fn new() -> Self {
        let [left, right, between] = [(); 3].map(|()| Netns::new().unwrap());
        for (kernel, interface, last) in [(&left, "p1", 1), (&right, "p2", 2)] {
            between.join(interface, kernel, "e0").unwrap();
            between.ip(&format!("link set {interface} up")).unwrap();
            kernel.configure("e0", &format!("10.9.0.{last}/24")).unwrap();
            kernel.run("ethtool -K e0 tx off").unwrap().expect_success();
        }
        Joined { left, _right: right, between, folder: tempfile::tempdir().unwrap() }
    }

    fn control(&self) -> String {
        self.folder.path().join("control").display().to_string()
    }

    /// A switch with both ends, which is ready.
    fn switch(&self, options: &str) -> Background {
        let line = format!(
            "{BINARY} switch --control {} --port p1=af-xdp:p1 --port p2=af-xdp:p2 {options}",
            self.control()
        );
        let switch = self.between.start(&line).unwrap();
        self.talks(&switch);
        switch
    }

    fn answers(&self) -> bool {
        self.left.run("ping -c 1 -W 1 10.9.0.2").unwrap().success()
    }

    /// Until a frame goes there and back.
    fn talks(&self, switch: &Background) {
        let deadline = Instant::now() + SOON;
        while !self.answers() {
            assert!(Instant::now() < deadline, "no answer; {}", switch.said());
        }
    }

    fn ctl(&self, line: &str) -> String {
        let mut command = Command::new(BINARY);
        command.args(["ctl", &self.control()]).args(line.split_whitespace());
        let output = command.output().unwrap();
        let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(output.status.success(), "ctl {line}: {out}{err}");
        out
    }

    /// How the two interfaces stand, by the kernel's word.
    fn links(&self) -> String {
        let show =
            |name| self.between.run(&format!("ip -details link show {name}")).unwrap().expect_success();
        show("p1") + &show("p2")
    }
}

fn end(switch: &mut Background, signal: Signal) -> i32 {
    kill_process(Pid::from_raw(switch.id() as i32).unwrap(), signal).unwrap();
    switch.end(SOON).unwrap()
}

#[test]
fn nothing_stays_at_the_interfaces_however_the_switch_ends() {
    let joined = Joined::new();
    let before = joined.links();
    for (signal, status) in [(Signal::KILL, 128 + 9), (Signal::TERM, 0), (Signal::INT, 130)] {
        let mut switch = joined.switch("");
        let taken = joined.links();
        assert!(taken.contains("xdp") && taken.contains("promiscuity 1"), "{taken}");
        assert_eq!(end(&mut switch, signal), status, "{}", switch.said());
        assert_eq!(joined.links(), before, "after {signal:?}");
        assert!(!joined.answers());
        let _ = std::fs::remove_file(joined.control()); // which SIGKILL leaves behind
    }
}

#[test]
fn a_confined_switch_moves_frames_and_takes_ports_later() {
    let joined = Joined::new();
    let mut switch = joined.switch("");
    // Long enough asleep that a worker has to be woken.
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(300));
        joined.left.run("ping -c 20 -i 0.01 -W 10 10.9.0.2").unwrap().expect_success();
    }
    let ports = joined.ctl("ports");
    assert!(ports.contains("af-xdp p1") && ports.contains("copied by the kernel"), "{ports}");
    joined.ctl("remove p2");
    assert!(!joined.links().split("p2@").nth(1).unwrap().contains("xdp"), "{}", joined.links());
    assert!(!joined.answers());
    joined.ctl("add p2=af-xdp:p2,xdp-mode=generic");
    joined.talks(&switch);
    assert!(joined.ctl("ports").contains("generic"), "{}", joined.ctl("ports"));
    assert_eq!(end(&mut switch, Signal::TERM), 0, "{}", switch.said());
    assert!(!Path::new(&joined.control()).exists());
}

#[test]
fn another_switch_takes_the_interfaces_over() {
    let joined = Joined::new();
    let mut old = joined.switch("");
    let control = joined.folder.path().join("control");
    let mut new = joined.switch(&format!("--take-over {}", control.display()));
    assert_eq!(old.end(SOON).unwrap(), 0, "{}", old.said());
    joined.talks(&new);
    assert_eq!(end(&mut new, Signal::TERM), 0, "{}", new.said());
    assert!(!joined.links().contains("xdp"), "{}", joined.links());
}
