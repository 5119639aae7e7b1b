//! A running switch is taken over by another process under load, again and again: front-ends notice nothing.
//!
//! `TAUTLINE_UPGRADE_ROUNDS` rounds of each layout (`make recovery`), or a few.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::switch_process::guest::{Guest, InFlight, layouts, plain, region};
use crate::switch_process::load::Load;
use crate::switch_process::{SOON, Sockets, SwitchProcess, wait_for};
use peers::requirements::root_required;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::SingleRegion;
use virtio::Features;

/// Time under load before each take-over.
const LOAD: Duration = Duration::from_millis(30);

/// More frames than the rings of both guests hold.
const ANEW: usize = 100;

/// The port of a front-end that is not to be handed over.
const HOSTILE: &str = "hostile";

/// What happens to both switches during a take-over.
#[derive(Clone, Copy, PartialEq)]
enum Among {
    Nothing,
    Signals,
}

/// Two guests at a switch with a control socket.
struct Scene {
    sockets: Sockets,
    arguments: Vec<String>,
    switch: SwitchProcess,
    load: Load,
}

impl Scene {
    fn new(wanted: Features) -> Self {
        Self::with_ports(wanted, &["one", "two"])
    }

    /// With more ports than those of the two guests.
    fn with_ports(wanted: Features, ports: &[&str]) -> Self {
        let sockets = Sockets::in_memory();
        let mut arguments: Vec<String> =
            ports.iter().flat_map(|name| sockets.port(name, "vhost-user", "")).collect();
        let control = sockets.path("control").display().to_string();
        arguments.extend(["--control".to_owned(), control]);
        // The receiver sends nothing, so its address is unknown, and with a third port each frame is flooded.
        arguments.extend(["--flood-limit".to_owned(), "0".to_owned()]);
        let switch = SwitchProcess::start(&arguments);
        // One of them tracks what is in flight, as QEMU does; the other does not.
        let (sender, _) = Guest::running_with_in_flight(&sockets.path("one"), wanted);
        let receiver = Guest::running(&sockets.path("two"), wanted);
        let mut scene = Scene { sockets, arguments, switch, load: Load::new(sender, receiver) };
        scene.load_for(LOAD);
        scene
    }

    fn control(&self) -> std::path::PathBuf {
        self.sockets.path("control")
    }

    /// Frames flow for so long, and more arrive than the rings held before.
    fn load_for(&mut self, time: Duration) {
        let (until, before) = (Instant::now() + time, self.load.received.len());
        self.step_until("frames", |load| Instant::now() > until && load.received.len() > before + ANEW);
    }

    /// Without a pause in between, so that times are exact.
    fn step_until(&mut self, what: &str, mut is_done: impl FnMut(&Load) -> bool) {
        let deadline = Instant::now() + SOON;
        while !is_done(&self.load) {
            self.load.step(true);
            assert!(
                Instant::now() < deadline,
                "did not come: {what}; the switch said {:#?}",
                self.switch.logged()
            );
            std::thread::yield_now();
        }
    }

    /// Another process of the same arguments takes over; for how long no frame moved, as it says and as the receiver
    /// saw it.
    fn take_over(&mut self, among: Among) -> (Duration, Duration) {
        let mut arguments = self.arguments.clone();
        arguments.extend(["--take-over".to_owned(), self.control().display().to_string()]);
        let new = SwitchProcess::begin(&arguments);
        let signalled = (among == Among::Signals).then(|| [self.switch.signalled(), new.signalled()]);
        self.load.longest_gap();
        let deadline = Instant::now() + SOON;
        let said = loop {
            self.load.step(true);
            let said = new.logged().into_iter().find_map(|line| {
                let (_, time) = line.split_once("taken over; no frame moved for ")?;
                time.strip_suffix(" ms")?.parse::<f64>().ok()
            });
            if let Some(said) = said {
                break said;
            }
            let old = self.switch.logged();
            assert!(Instant::now() < deadline, "the new one said {:#?}, the old one {old:#?}", new.logged());
        };
        drop(signalled);
        let old = std::mem::replace(&mut self.switch, new);
        self.load_for(LOAD);
        let logged = old.ended();
        assert!(logged.iter().any(|line| line.contains("another process has taken over")), "{logged:#?}");
        (Duration::from_secs_f64(said / 1e3), self.load.longest_gap())
    }

    /// A new switch that cannot take over ends with an error; what it said.
    fn refused(&mut self, arguments: &[String]) -> Vec<String> {
        let mut new = SwitchProcess::begin(arguments);
        let deadline = Instant::now() + SOON;
        let status = loop {
            self.load.step(true);
            if let Some(status) = new.status() {
                break status;
            }
            assert!(Instant::now() < deadline, "it runs on and said {:#?}", new.logged());
        };
        assert_eq!(status.code(), Some(1));
        std::thread::sleep(Duration::from_millis(20));
        new.logged()
    }

    /// After the end of both switches: the old one ended in order because it had handed over, and up to then no frame
    /// came twice or late.
    fn check_handed_over(mut self) {
        self.load.take();
        let logged = self.switch.ended();
        assert!(logged.iter().any(|line| line.contains("another process has taken over")), "{logged:#?}");
        let (doubled, late) = (self.load.doubled(), &self.load.out_of_order);
        assert!(doubled.is_empty() && late.is_empty(), "doubled {doubled:?}, late {late:?}");
        let notes = self.sockets.path("one.deliveries");
        assert!(notes.exists(), "the notes of deliveries stay for the next switch");
    }

    /// All that was sent arrives, once, in its order.
    fn check(mut self, what: &str) {
        let deadline = Instant::now() + SOON;
        while self.load.received.len() < self.load.sent as usize
            || self.load.completed.len() < self.load.sent as usize
        {
            self.load.step(false);
            assert!(Instant::now() < deadline, "{what}: {} frames missing", self.load.in_flight().len());
        }
        let (lost, doubled) = (self.load.lost(), self.load.doubled());
        let late = &self.load.out_of_order;
        println!(
            "{what}: {} frames, {} lost, {} doubled, {} out of order",
            self.load.sent,
            lost.len(),
            doubled.len(),
            late.len()
        );
        assert!(lost.is_empty() && doubled.is_empty(), "lost {lost:?}, doubled {doubled:?}");
        assert!(late.is_empty(), "behind frames that were sent later: {late:?}");
        let notes = self.sockets.path("one.deliveries");
        assert!(notes.exists(), "the old switch left them to the new one");
        let (_, logged) = self.switch.end();
        let lost = |line: &String| line.contains("disconnected") && !line.starts_with(HOSTILE);
        assert!(!logged.iter().any(lost), "{logged:#?}");
        assert!(!self.sockets.path("control").exists(), "the control socket goes with the last switch");
        assert!(!self.sockets.path("one").exists(), "and so do the ports'");
        assert!(!notes.exists(), "and what was noted of deliveries");
    }
}

fn median(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort_unstable();
    (times[times.len() / 2], *times.last().unwrap())
}

#[test]
fn front_ends_notice_nothing_of_an_upgrade() {
    let rounds = std::env::var("TAUTLINE_UPGRADE_ROUNDS").map_or(5, |rounds| rounds.parse().unwrap());
    for wanted in layouts() {
        let mut scene = Scene::new(wanted);
        let (said, seen): (Vec<_>, Vec<_>) = (0..rounds).map(|_| scene.take_over(Among::Nothing)).unzip();
        // Signals interrupt calls with a time limit (signal(7)).
        scene.take_over(Among::Signals);
        let ((said, longest), (seen, longest_seen)) = (median(said), median(seen));
        println!(
            "{wanted}: {rounds} take-overs; no frame moved for {said:.2?} (median), {longest:.2?} (longest); between two \
             frames at the receiver {seen:.2?} (median), {longest_seen:.2?} (longest)"
        );
        scene.check(&wanted.to_string());
    }
}

/// A new switch of which only the beginning is there: how far it comes, and its end of the connection.
fn half_a_take_over(control: &Path, steps: usize) -> UnixStream {
    let mut socket = UnixStream::connect(control).unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    if steps == 0 {
        return socket;
    }
    socket.write_all(b"{\"version\":1,\"command\":\"take-over\",\"format\":1}\n").unwrap();
    // No byte of the answer, a part, all of it (unread descriptors are closed), and then a wrong word.
    let mut some = vec![0; [0, 0, 100, 1 << 16, 1 << 16][steps]];
    if !some.is_empty() {
        assert!(socket.read(&mut some).unwrap() > 0);
    }
    if steps >= 3 {
        // To the last byte: the end of a connection with some unread hides what was said before it.
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        while socket.read(&mut some).is_ok_and(|read| read > 0) {}
    }
    if steps == 4 {
        socket.write_all(b"taken ov").unwrap();
    }
    socket
}

#[test]
fn the_old_switch_goes_on_when_the_new_one_is_gone() {
    let mut scene = Scene::new(plain());
    for steps in 0..5 {
        drop(half_a_take_over(&scene.control(), steps));
        scene.load_for(LOAD);
        assert!(scene.switch.lives(), "step {steps}");
    }
    // A process that stays, and says nothing or half its last word, is not waited for, whatever signals come.
    for steps in 3..5 {
        let _signalled = scene.switch.signalled();
        let silent = half_a_take_over(&scene.control(), steps);
        scene.load_for(LOAD);
        assert!(scene.switch.lives(), "step {steps}");
        drop(silent);
    }
    // A switch that cannot take what it is handed says so, and ends.
    let take_over = ["--take-over".to_owned(), scene.control().display().to_string()];
    let mut narrow = scene.arguments.clone();
    narrow[1] += ",server=off";
    let fewer = [&scene.arguments[..2], &scene.arguments[4..]].concat();
    for (arguments, why) in [(narrow, "server= differs"), (fewer, "has a port 'two'")] {
        let said = scene.refused(&[&arguments[..], &take_over].concat());
        assert!(said.iter().any(|line| line.contains(why)), "{said:#?}");
        scene.load_for(LOAD);
        assert!(scene.control().exists() && scene.sockets.path("one").exists());
    }
    scene.check("after failures");
}

/// To root the socket is open, and to take over it takes the same user.
#[test]
fn only_its_own_user_takes_a_switch_over() {
    if !root_required() {
        return;
    }
    let sockets = Sockets::new();
    let folder = sockets.path("control").parent().unwrap().to_owned();
    std::os::unix::fs::chown(&folder, Some(65534), None).unwrap();
    let mut arguments = sockets.port("one", "vhost-user", "").to_vec();
    arguments.extend(["--control".to_owned(), sockets.path("control").display().to_string()]);
    // Where it was built only its own user may come.
    let program = folder.join("tautline");
    std::fs::copy(env!("CARGO_BIN_EXE_tautline"), &program).unwrap();
    let mut switch = SwitchProcess::start_as(65534, &program, &arguments);
    let mut said = String::new();
    BufReader::new(half_a_take_over(&sockets.path("control"), 1)).read_line(&mut said).unwrap();
    assert!(said.contains("only the user who runs the switch may take it over"), "{said}");
    arguments.extend(["--take-over".to_owned(), sockets.path("control").display().to_string()]);
    let mut new = SwitchProcess::begin(&arguments);
    let status = wait_for("the new one's end", || new.status());
    assert_eq!(status.code(), Some(1));
    wait_for("its reason", || {
        new.logged().iter().any(|line| line.contains("another user runs it")).then_some(())
    });
    assert!(switch.lives());
    switch.end();
}

#[test]
fn a_new_switch_is_killed_at_any_moment() {
    let (mut resumed, mut behind) = (0, 0);
    let mut scene = Scene::new(plain().union(Features::RING_PACKED));
    for delay in [0, 3, 5, 7, 9, 12, 16, 24] {
        let take_over = ["--take-over".to_owned(), scene.control().display().to_string()];
        let new = SwitchProcess::begin(&[&scene.arguments[..], &take_over].concat());
        let until = Instant::now() + Duration::from_millis(delay);
        scene.step_until("the moment", |_| Instant::now() > until);
        new.kill();
        let before = scene.load.received.len();
        let deadline = Instant::now() + SOON;
        // Either the old one goes on, or the new one had said its last word: then both are gone, as after any kill.
        loop {
            scene.load.step(true);
            if scene.load.received.len() > before + ANEW {
                resumed += 1;
                break;
            }
            if !scene.switch.lives() {
                behind += 1;
                scene.check_handed_over();
                scene = Scene::new(plain().union(Features::RING_PACKED));
                break;
            }
            assert!(Instant::now() < deadline, "after {delay} ms: {:#?}", scene.switch.logged());
        }
    }
    println!(
        "{resumed} times the old switch went on; {behind} times the new one had taken over before it was killed"
    );
    assert!(resumed > 0);
    scene.check("after kills");
}

/// Shared memory of its own, which it may seal and shorten.
fn sealable(bytes: u64) -> OwnedFd {
    let file = memfd_create(c"hostile", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&file, bytes).unwrap();
    file
}

/// A front-end loses its own connection by what it does to its files, and the upgrade goes on.
#[test]
fn no_front_end_vetoes_an_upgrade() {
    const AT: u64 = 1 << 40;
    const BYTES: u64 = 1 << 20;
    type Harm = fn(&OwnedFd, &InFlight);
    let harms: [(&str, Harm); 3] = [
        ("a file that is too short now", |file, _| rustix::fs::ftruncate(file, 0).unwrap()),
        ("a file that is sealed now", |file, _| fcntl_add_seals(file, SealFlags::FUTURE_WRITE).unwrap()),
        ("an in-flight region of another version", |_, in_flight| in_flight.write(8, &[9, 0])),
    ];
    for (what, harm) in harms {
        let mut scene = Scene::with_ports(plain(), &["one", "two", HOSTILE]);
        let (mut hostile, in_flight) = Guest::running_with_in_flight(&scene.sockets.path(HOSTILE), plain());
        let file = sealable(BYTES);
        let region = Request::AddMemReg(SingleRegion(region(AT, BYTES)));
        hostile.ask(region, vec![file.try_clone().unwrap()]);
        harm(&file, &in_flight);
        let (said, seen) = scene.take_over(Among::Nothing);
        println!("{what}: no frame moved for {said:.2?}; between two frames at the receiver {seen:.2?}");
        hostile.wait_until_closed();
        let told = |line: &String| line.starts_with("hostile: ") && line.contains("cannot be gone on with");
        wait_for("why", || scene.switch.logged().iter().any(told).then_some(()));
        // The next one is served.
        let next = Guest::running(&scene.sockets.path(HOSTILE), plain());
        scene.load_for(LOAD);
        drop(next);
        scene.check(what);
    }
}

/// Added once for each of 128 queue pairs, as QEMU before 8.0 does: each region goes over once, with one descriptor.
#[test]
fn regions_added_again_and_again_do_not_stretch_an_upgrade() {
    const REGIONS: u64 = 50;
    let mut scene = Scene::with_ports(plain(), &["one", "two", HOSTILE]);
    let mut guest = Guest::running(&scene.sockets.path(HOSTILE), plain());
    let file = sealable(4096);
    let request = |number: u64| SingleRegion(region((1 << 40) + number * 8192, 4096));
    for number in 0..REGIONS {
        for _ in 0..128 {
            guest.ask(Request::AddMemReg(request(number)), vec![file.try_clone().unwrap()]);
        }
    }
    let open = scene.switch.open_fds();
    assert!(open < 600, "{open} descriptors are open");
    let (said, _) = scene.take_over(Among::Nothing);
    println!("{REGIONS} regions, each added 128 times: no frame moved for {said:.2?}");
    for number in 0..REGIONS {
        for _ in 0..128 {
            guest.ask(Request::RemMemReg(request(number)), vec![]);
        }
        // The region is removed one time more than it was added.
        guest.must_be_refused(Request::RemMemReg(request(number)), vec![]);
    }
    scene.load_for(LOAD);
    drop(guest);
    scene.check("regions added again and again");
}
