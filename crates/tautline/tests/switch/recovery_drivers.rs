//! The switch killed and started again, and taken over by another process, under the drivers that people run: DPDK's
//! and a stock Linux guest's. Both listen, and the switch connects: a new one comes to them by itself.
//!
//! ```text
//!   sender ── a ─ switch ─ p0 ── testpmd ── p1 ─ switch ─ b ── receiver          and a guest with two interfaces
//! ```
//!
//! These drivers keep no in-flight region for a network device: where a split ring stands its used index says, and what
//! was delivered and not completed at a kill the killed switch has noted. `TAUTLINE_RECOVERY_ROUNDS` rounds with DPDK, a tenth of them
//! with the guest (`make recovery`), or two of each.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::switch_process::guest::{Guest, InFlight, plain};
use crate::switch_process::load::Load;
use crate::switch_process::{SOON, Sockets, SwitchProcess, connect, description, drops, wait_for};
use peers::Pages;
use peers::guest::{Port, Settings as GuestSettings};
use peers::pages::Grown;
use peers::testpmd::{Settings, Vdev};

const LOAD: Duration = Duration::from_millis(50);
/// Frames that have not come by then do not come any more.
const STUCK: Duration = Duration::from_millis(500);

fn rounds() -> usize {
    std::env::var("TAUTLINE_RECOVERY_ROUNDS").map_or(2, |rounds| rounds.parse().unwrap())
}

fn median(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort_unstable();
    (times[times.len() / 2], *times.last().unwrap())
}

/// Our own ends of both wires, and their load.
struct Ends {
    arguments: Vec<String>,
    switch: SwitchProcess,
    load: Load,
    in_flight: [InFlight; 2],
    sockets: Sockets,
    /// Frames that lay in DPDK's ring at a restart and were taken out of it before the receiver was back: the switch
    /// drops and counts them.
    without_receiver: u64,
}

impl Ends {
    /// Frames flow until some more have come than before.
    fn flow(&mut self, time: Duration, what: &str) {
        let (until, before, deadline) =
            (Instant::now() + time, self.load.received.len(), Instant::now() + SOON);
        let mut stuck = Instant::now() + time + STUCK;
        while Instant::now() < until || self.load.received.len() == before {
            self.load.step(true);
            if Instant::now() > stuck {
                // What a driver has dropped itself does not come any more.
                self.load.given_up = self.load.sent as usize - self.load.received.len();
                stuck = Instant::now() + STUCK;
            }
            assert!(
                Instant::now() < deadline,
                "no frame {what}; the switch said {:#?}",
                self.switch.logged()
            );
            std::thread::yield_now();
        }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.sockets.path(name)
    }

    /// Kills the switch and starts another; how long no frame came, from the start.
    fn killed(&mut self) -> Duration {
        let old = std::mem::replace(&mut self.switch, SwitchProcess::begin(&["--help".to_owned()]));
        old.kill();
        self.load.take();
        let since = Instant::now();
        self.switch = SwitchProcess::start(&self.arguments);
        // The receiver first: what comes for a port without a driver is dropped.
        self.load.receiver.reconnect(&self.path("b"), &self.in_flight[1], true);
        wait_for("DPDK's driver", || {
            let snapshot = self.switch.snapshot();
            ["p0", "p1"]
                .iter()
                .all(|port| description(&snapshot, port).contains("2 queues run"))
                .then_some(())
        });
        self.load.sender.reconnect(&self.path("a"), &self.in_flight[0], true);
        self.flow(Duration::ZERO, "after a restart");
        let blackout = since.elapsed();
        self.without_receiver += drops(&self.switch.snapshot(), "p1", "receiver not connected");
        blackout
    }

    /// Another process takes over.
    fn taken_over(&mut self) {
        let mut arguments = self.arguments.clone();
        arguments.extend(["--take-over".to_owned(), self.path("control").display().to_string()]);
        let new = SwitchProcess::begin(&arguments);
        let old = std::mem::replace(&mut self.switch, new);
        let deadline = Instant::now() + SOON;
        while !self.switch.logged().iter().any(|line| line.contains("taken over")) {
            self.load.step(true);
            assert!(Instant::now() < deadline, "{:#?}", self.switch.logged());
        }
        self.flow(LOAD, "after a take-over");
        old.ended();
    }

    /// Until all that can come has come.
    fn settle(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline && self.load.received.len() < self.load.sent as usize {
            self.load.step(false);
        }
    }
}

fn testpmd_behind(packed: bool) {
    let sockets = Sockets::in_memory();
    let mut arguments: Vec<String> =
        ["a", "b"].iter().flat_map(|name| sockets.port(name, "vhost-user", "")).collect();
    arguments.extend(["p0", "p1"].iter().flat_map(|name| sockets.port(name, "vhost-user", ",server=off")));
    arguments.extend([connect("a", "p0"), connect("p1", "b")].concat());
    arguments.extend(["--control".to_owned(), sockets.path("control").display().to_string()]);
    let switch = SwitchProcess::start(&arguments);
    let driver = |name: &str| Vdev::virtio_user(&sockets.path(name)).other_role().packed(packed);
    // As DPDK is meant to run. With small pages it looks through 49 152 of them whenever it connects, 8 ms for each port.
    let _grown = Grown::by(64).unwrap();
    let settings = Settings::default().pages(Pages::Huge).port(driver("p0")).port(driver("p1"));
    let settings = settings.arguments(["--disable-link-check"]);
    let mut testpmd = settings.start().unwrap();
    testpmd.start_forwarding().unwrap();
    let guest = |name: &str| Guest::running_with_in_flight(&sockets.path(name), plain());
    let ((sender, of_sender), (receiver, of_receiver)) = (guest("a"), guest("b"));
    let in_flight = [of_sender, of_receiver];
    let mut ends = Ends {
        arguments,
        switch,
        load: Load::new(sender, receiver),
        in_flight,
        sockets,
        without_receiver: 0,
    };
    ends.flow(LOAD, "at the start");
    ends.taken_over();
    ends.settle();
    let (lost, doubled) = (ends.load.lost(), ends.load.doubled());
    assert!(lost.is_empty() && doubled.is_empty(), "take-over: lost {lost:?}, doubled {doubled:?}");
    let (mut blackouts, mut on_the_way) = (Vec::new(), BTreeSet::new());
    for _ in 0..rounds() {
        ends.flow(LOAD, "under load");
        on_the_way.extend((0..ends.load.sent).filter(|number| !ends.load.received.contains_key(number)));
        blackouts.push(ends.killed());
    }
    ends.settle();
    let (median, longest) = median(blackouts);
    let (lost, doubled) = (ends.load.lost(), ends.load.doubled());
    println!(
        "DPDK, packed {packed}: {} kills, {} frames, {} lost, {} doubled of {} on the way at a kill; without traffic \
         {median:.1?} (median), {longest:.1?} (longest)",
        rounds(),
        ends.load.completed.len(),
        lost.len(),
        doubled.len(),
        on_the_way.len(),
    );
    if !packed {
        let dropped = ends.without_receiver;
        assert!(
            lost.len() as u64 <= dropped,
            "completed, not received, and {dropped} counted as dropped: {lost:?}"
        );
    }
    assert!(doubled.is_empty(), "received more often than once: {doubled:?}");
    // virtio-user empties packed rings when it connects again: what lay in them is gone, and it says so.
    assert!(lost.iter().all(|number| on_the_way.contains(number)), "{lost:?} were not on the way");
    drop(testpmd);
    drop(ends.switch);
}

#[test]
fn dpdks_split_driver_goes_on() {
    testpmd_behind(false);
}

#[test]
fn dpdks_packed_driver_goes_on() {
    testpmd_behind(true);
}

#[test]
fn a_stock_guest_with_split_rings_goes_on() {
    stock_guest(false);
}

#[test]
fn a_stock_guest_with_packed_rings_goes_on() {
    stock_guest(true);
}

/// Makes `eth0` and, in a namespace of its own, `eth1` the ends of one path.
const BOTH_ENDS: &str = "set -e
    ip address add 10.0.0.1/24 dev eth0
    ip link set eth0 up
    ip netns add far
    ip link set eth1 netns far
    ip -n far address add 10.0.0.2/24 dev eth1
    ip -n far link set eth1 up
    ping -c 3 -i 0.05 -W 10 10.0.0.2";

fn stock_guest(packed: bool) {
    let sockets = Sockets::in_memory();
    let mut arguments: Vec<String> =
        ["near", "far"].iter().flat_map(|name| sockets.port(name, "vhost-user", ",server=off")).collect();
    arguments.extend(connect("near", "far"));
    arguments.extend(["--control".to_owned(), sockets.path("control").display().to_string()]);
    let mut switch = SwitchProcess::start(&arguments);
    let port = |name: &str| Port::new(Path::new(&sockets.path(name))).server().packed(packed);
    let guest = GuestSettings::default().port(port("near")).port(port("far")).start().unwrap();
    guest.must(BOTH_ENDS);
    let kills = rounds().div_ceil(10).max(2);
    let seconds = 2 + kills;
    let ping = |count: usize| {
        let line = format!("ping -c {count} -i 0.01 -W 20 10.0.0.2");
        guest.begin(&line, Duration::from_secs(120 + seconds as u64)).unwrap()
    };
    // Answers that came, and those that came twice.
    let answers = |said: &str| {
        let of = |what: &str| said.lines().filter(|line| line.contains(what)).count();
        (of("icmp_seq=") - of("DUP!"), of("DUP!"))
    };
    // A take-over loses nothing and doubles nothing.
    let job = ping(100);
    std::thread::sleep(Duration::from_millis(300));
    let mut with = arguments.clone();
    with.extend(["--take-over".to_owned(), sockets.path("control").display().to_string()]);
    let new = SwitchProcess::begin(&with);
    std::mem::replace(&mut switch, new).ended();
    let said = job.wait().unwrap().stdout;
    assert_eq!(answers(&said), (100, 0), "{said}");
    let job = ping(seconds * 100);
    for _ in 0..kills {
        std::thread::sleep(Duration::from_millis(500));
        let new = SwitchProcess::begin(&["--help".to_owned()]);
        std::mem::replace(&mut switch, new).kill();
        switch = SwitchProcess::start(&arguments);
    }
    let said = job.wait().unwrap().stdout;
    let (came, doubled) = answers(&said);
    let of = seconds * 100;
    println!(
        "Linux, packed {packed}: {kills} kills: {came} of {of} answers came, {doubled} of them twice; a take-over: all, once"
    );
    // QEMU takes the link down while no back-end is connected, and Linux drops the frames sent meanwhile: half a second
    // at most.
    assert!(came + 50 * kills >= of, "{said}");
    assert_eq!(doubled, 0, "{said}");
    guest.must("ping -c 3 -i 0.05 -W 10 10.0.0.2");
    drop(switch);
}

/// A stock guest whose switch is killed again and again, at other moments of its traffic each time.
struct Killed {
    arguments: Vec<String>,
    switch: SwitchProcess,
    guest: peers::Guest,
    sockets: Sockets,
}

impl Killed {
    fn start(packed: bool, pairs: u16) -> Self {
        let sockets = Sockets::in_memory();
        let options = format!(",server=off,queue-pairs={pairs}");
        let mut arguments: Vec<String> =
            ["near", "far"].iter().flat_map(|name| sockets.port(name, "vhost-user", &options)).collect();
        arguments.extend(connect("near", "far"));
        arguments.extend(["--control".to_owned(), sockets.path("control").display().to_string()]);
        let switch = SwitchProcess::start(&arguments);
        let port =
            |name: &str| Port::new(Path::new(&sockets.path(name))).server().packed(packed).queue_pairs(pairs);
        let settings = GuestSettings::default().size(pairs, 256);
        let guest = settings.port(port("near")).port(port("far")).start().unwrap();
        guest.must(BOTH_ENDS);
        Self { arguments, switch, guest, sockets }
    }

    /// What guest, QEMU and switch say of rings that carry nothing.
    fn standing(&self) -> String {
        let control = self.sockets.path("control").display().to_string();
        let rings = std::process::Command::new(env!("CARGO_BIN_EXE_tautline"))
            .args(["ctl", &control, "rings"])
            .output()
            .map_or_else(
                |error| error.to_string(),
                |output| String::from_utf8_lossy(&output.stdout).into_owned(),
            );
        let look = "ip -s link; ip -n far -s link; grep virtio /proc/interrupts; sleep 1; \
                    grep virtio /proc/interrupts; dmesg | tail -n 30";
        let guest = self.guest.run(look).map_or_else(|error| error.to_string(), |output| output.stdout);
        format!("rings: {rings}\nguest: {guest}\nswitch: {:#?}", self.switch.logged())
    }

    /// Kills the switch this long after traffic began, and starts another; frames pass on all CPUs then.
    fn kill(&mut self, number: usize, after: Duration, cpus: u16) {
        let flood = (0..cpus).map(|cpu| format!("taskset {:x} ping -q -f -w 1 10.0.0.2 &", 1 << cpu));
        let flood = flood.collect::<Vec<_>>().join(" ") + " wait";
        let job = self.guest.begin(&flood, Duration::from_secs(60)).unwrap();
        std::thread::sleep(after);
        let new = SwitchProcess::begin(&["--help".to_owned()]);
        std::mem::replace(&mut self.switch, new).kill();
        self.switch = SwitchProcess::start(&self.arguments);
        let _ = job.wait().unwrap_or_else(|error| panic!("kill {number}: {error}\n{}", self.standing()));
        for cpu in 0..cpus {
            let line = format!("taskset {:x} ping -q -c 1 -W 20 10.0.0.2", 1 << cpu);
            let answered = self.guest.run(&line).is_ok_and(|output| output.success());
            assert!(answered, "kill {number}, {after:?} into traffic, CPU {cpu}\n{}", self.standing());
        }
    }
}

/// Both layouts, one queue pair and two: `TAUTLINE_GUEST_KILLS` in all.
#[test]
#[ignore = "a quarter of an hour: make guest-kills"]
fn a_stock_guest_answers_after_hundreds_of_kills() {
    let kills = std::env::var("TAUTLINE_GUEST_KILLS").map_or(500, |kills| kills.parse::<usize>().unwrap());
    let kinds = [(false, 1), (true, 1), (false, 2), (true, 2)];
    for (packed, pairs) in kinds {
        let mut killed = Killed::start(packed, pairs);
        for number in 0..kills / kinds.len() {
            // Spread over most of a second of traffic, and never twice the same.
            killed.kill(number, Duration::from_micros(number as u64 * 7919 % 800 * 1000 + 137), pairs);
        }
        println!(
            "Linux, packed {packed}, {pairs} queue pairs: it answered after each of {} kills",
            kills / kinds.len()
        );
    }
}
