//! The switch with an attacker's port and three guests that do nothing wrong, and what each attack leaves.
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use virtio::Features;

use crate::switch_process::bystanders::Bystanders;
use crate::switch_process::guest::{Guest, TRANSMIT, frame, layouts, plain};
use crate::switch_process::{SOON, Sockets, SwitchProcess, connect, description, drops, wait_for};

pub struct Scene {
    /// Ends before the switch does.
    pub bystanders: Bystanders,
    sockets: Sockets,
    pub switch: SwitchProcess,
    pub friend: Guest,
    /// The switch's open descriptors while no front-end is at the victim's port.
    open_fds: usize,
    passed: u32,
}

/// The attack is made through these rings, in each layout; it is told the how manieth it is.
#[track_caller]
pub fn attacked_through(rings: &[u8], said: Option<&str>, attack: impl Fn(&mut Scene, Guest, u64)) {
    let mut scene = Scene::new();
    for (round, features) in (1..).zip(layouts()) {
        scene.attacked(features, said, |scene, mut guest| {
            guest.share_memory();
            for ring in rings {
                guest.start_ring(*ring);
            }
            attack(scene, guest, round);
        });
    }
    scene.end();
}

impl Scene {
    pub fn new() -> Self {
        Self::with("", plain(), SwitchProcess::start)
    }

    /// With a friend that has agreed on these features.
    pub fn with_friend(features: Features) -> Self {
        Self::with("", features, SwitchProcess::start)
    }

    /// With these options of the victim's port.
    pub fn with_options(options: &str) -> Self {
        Self::with(options, plain(), SwitchProcess::start)
    }

    /// With these options of the victim's port, and a control socket: [`ask_for_ports`](Self::ask_for_ports).
    pub fn with_control(options: &str) -> Self {
        let start = |arguments: &[String]| {
            let folder = Path::new(arguments[1].split_once(':').unwrap().1).parent().unwrap();
            let control = ["--control".to_owned(), folder.join("control").display().to_string()];
            SwitchProcess::start(&[arguments, &control].concat())
        };
        Self::with(options, plain(), start)
    }

    /// How long the control socket takes to answer a new client.
    #[track_caller]
    pub fn ask_for_ports(&self) -> Duration {
        let since = Instant::now();
        let mut socket = UnixStream::connect(self.sockets.path("control")).unwrap();
        socket.write_all(b"{\"version\":1,\"command\":\"ports\"}\n").unwrap();
        socket.set_read_timeout(Some(SOON)).unwrap();
        let mut answer = String::new();
        BufReader::new(socket).read_line(&mut answer).unwrap();
        assert!(answer.contains("\"ok\""), "{answer}");
        since.elapsed()
    }

    /// How long the friend's port takes to serve a new front-end: all messages until a queue runs each way.
    #[track_caller]
    pub fn connect_again(&mut self) -> Duration {
        self.friend.hang_up();
        let since = Instant::now();
        self.friend_returns();
        since.elapsed()
    }

    /// With a switch that is started in another way.
    pub fn with_switch(start: impl FnOnce(&[String]) -> SwitchProcess) -> Self {
        Self::with("", plain(), start)
    }

    fn with(options: &str, features: Features, start: impl FnOnce(&[String]) -> SwitchProcess) -> Self {
        let sockets = Sockets::new();
        let ports = [("victim", options), ("friend", ""), ("a", ""), ("b", "")];
        let ports = ports.map(|(name, options)| sockets.port(name, "vhost-user", options));
        let wires = [connect("victim", "friend"), connect("a", "b")];
        let switch = start(&[ports.concat(), wires.concat()].concat());
        let bystanders = Bystanders::start([sockets.path("a"), sockets.path("b")]);
        let friend = Guest::running(&sockets.path("friend"), features);
        let open_fds = switch.open_fds();
        Scene { sockets, switch, bystanders, friend, open_fds, passed: 0 }
    }

    pub fn path(&self) -> PathBuf {
        self.sockets.path("victim")
    }

    pub fn path_of(&self, port: &str) -> PathBuf {
        self.sockets.path(port)
    }

    /// A front-end that has agreed on these features does its worst, and goes. The switch says once what
    /// was wrong, if it is anything that people are told.
    #[track_caller]
    pub fn attacked(
        &mut self,
        features: Features,
        said: Option<&str>,
        attack: impl FnOnce(&mut Scene, Guest),
    ) {
        let attacker = Guest::connect(&self.path(), features);
        self.attacked_by(features, said, |scene| attack(scene, attacker));
    }

    #[track_caller]
    pub fn attacked_by(&mut self, features: Features, said: Option<&str>, attack: impl FnOnce(&mut Scene)) {
        let lines = self.switch.logged().len();
        self.bystanders.take_worst_latency();
        attack(self);
        self.bystanders.assert_undisturbed(said.unwrap_or(&self.bystanders.test));
        self.victim_is_alone();
        if let Some(said) = said {
            let found = |line: &&String| line.starts_with("victim: ") && line.contains(said);
            let count = || self.switch.logged()[lines..].iter().filter(found).count();
            wait_for(said, || (count() > 0).then_some(()));
            assert_eq!(count(), 1, "{said} in {:#?}", &self.switch.logged()[lines..]);
        }
        // Two kinds of lines, 64 of each at once, and two of each a second.
        assert!(self.switch.logged().len() <= lines + 2 * 64 + 72, "{:#?}", self.switch.logged());
        self.serves_the_next(features);
        self.bystanders.go_on();
        assert!(self.switch.lives());
    }

    /// The guest that does nothing wrong goes, until [`friend_returns`](Self::friend_returns).
    #[track_caller]
    pub fn friend_leaves(&mut self) {
        let (elsewhere, _) = UnixStream::pair().unwrap();
        self.friend.connection = OwnedFd::from(elsewhere).into();
        wait_for("the friend's end", || {
            description(&self.switch.snapshot(), "friend").contains("waits for a front-end").then_some(())
        });
    }

    /// It comes back, with memory of its own.
    #[track_caller]
    pub fn friend_returns(&mut self) {
        self.friend = Guest::running(&self.sockets.path("friend"), plain());
    }

    /// No front-end is at the victim's port, and nothing of the former one remains.
    #[track_caller]
    pub fn victim_is_alone(&self) {
        wait_for("the end of the front-end", || {
            description(&self.switch.snapshot(), "victim").contains("waits for a front-end").then_some(())
        });
        let before = self.open_fds;
        wait_for(&format!("{before} descriptors"), || (self.switch.open_fds() == before).then_some(()));
    }

    #[track_caller]
    pub fn serves_the_next(&mut self, features: Features) {
        let mut next = Guest::running(&self.path(), features.difference(Features::VHOST_LOG_ALL));
        self.passed += 1;
        let (there, back) = (frame(self.passed, 900), frame(self.passed + 1_000_000, 1200));
        self.friend.post(1);
        next.send(&there);
        assert_eq!(self.friend.receive(), there);
        next.wait_for_used(TRANSMIT, 1);
        next.post(1);
        self.friend.send(&back);
        assert_eq!(next.receive(), back);
        self.friend.wait_for_used(TRANSMIT, 1);
        drop(next);
        self.victim_is_alone();
    }

    pub fn drops(&self, reason: &str) -> u64 {
        drops(&self.switch.snapshot(), "victim", reason)
    }

    /// Waits until the victim's port has dropped so many frames for this reason.
    #[track_caller]
    pub fn wait_for_drops(&self, reason: &str, count: u64) {
        wait_for(reason, || (self.drops(reason) >= count).then_some(()));
        assert_eq!(self.drops(reason), count, "{reason}");
    }

    /// The others' frames were all delivered, and the switch ends as it should.
    pub fn end(self) {
        self.bystanders.all_is_well();
        self.switch.end();
    }
}
