//! For as long as asked, what the days of an operator bring, at random: guests and ports come and go, some are hostile,
//! some are killed, captures and mirrors run. The neighbours lose nothing, and the switch does not grow.
//!
//! `TAUTLINE_SOAK_SECONDS` (`make soak`), or a few; `TAUTLINE_SOAK_SEED` makes the same choices again.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::DirEntry;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use torture::Family;

use super::Scene;
use crate::common::Run;
use crate::switch_process::guest::{Guest, frame, layouts};
use crate::switch_process::load::Load;
use crate::switch_process::{SOON, SwitchProcess, description, wait_for};

const SHORT: Duration = Duration::from_secs(15);
/// Between two lines on how it goes.
const TOLD: Duration = Duration::from_secs(60);
/// What a switch may hold more than after its first round: what its allocator keeps back varies by some of it.
const SPARE_KIB: u64 = 2048;

#[test]
fn a_switch_does_not_grow() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    let time = number("TAUTLINE_SOAK_SECONDS").map_or(SHORT, Duration::from_secs);
    let seed = number("TAUTLINE_SOAK_SEED").unwrap_or(1);
    let mut soak = Soak { scene: Scene::new(), random: StdRng::seed_from_u64(seed), done: BTreeMap::new() };
    // Twice: what is made on first use is there then.
    for event in Event::ALL.repeat(2) {
        soak.happen(event);
    }
    let first = soak.at_rest(None);
    println!("seed {seed}; at first: {first} {:?}", open(soak.scene.switch.id()));
    let (start, mut told) = (Instant::now(), Instant::now());
    let mut last = first;
    while start.elapsed() < time {
        let event = Event::ALL[soak.random.random_range(0..Event::ALL.len())];
        soak.happen(event);
        last = soak.at_rest(Some(&first));
        if told.elapsed() > TOLD {
            told = Instant::now();
            soak.tell(start.elapsed(), last);
        }
    }
    soak.tell(start.elapsed(), last);
    assert!(last.private_kib <= first.private_kib + SPARE_KIB, "memory grew: {first}, and now {last}");
    soak.scene.end();
}

/// What happens to a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Two guests come, talk and leave.
    Guests,
    /// A guest is gone in the middle of its traffic.
    Vanishes,
    /// A port is added, used and removed, with or without its guest at it.
    Port,
    /// A front-end does its worst.
    Hostile,
    /// A front-end does its worst, and is killed meanwhile.
    Killed,
    /// A capture runs to its end.
    Capture,
    /// A capture is killed.
    CaptureKilled,
    /// A port is mirrored to one that is added for it, and removed again.
    Mirror,
    /// A client requests everything.
    Look,
}

impl Event {
    const ALL: [Self; 9] = [
        Self::Guests,
        Self::Vanishes,
        Self::Port,
        Self::Hostile,
        Self::Killed,
        Self::Capture,
        Self::CaptureKilled,
        Self::Mirror,
        Self::Look,
    ];
}

/// The resources of a switch while only the neighbours use it.
#[derive(Clone, Copy, Debug)]
struct Held {
    private_kib: u64,
    /// Guests' memory, and that of the switch's own rings.
    shared_mappings: usize,
    /// In-flight regions that ports have made: each port keeps the last two.
    in_flight_mappings: usize,
    /// Without those that close descriptors: each port keeps up to four, once it needed them.
    threads: usize,
    descriptors: usize,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Held { private_kib, shared_mappings, in_flight_mappings, threads, descriptors } = self;
        write!(
            f,
            "{private_kib} KiB, {shared_mappings} shared mappings, {in_flight_mappings} of in-flight regions, \
             {threads} threads, {descriptors} descriptors"
        )
    }
}

impl Held {
    fn by(switch: &SwitchProcess) -> Self {
        let of = |name: &str| format!("/proc/{}/{name}", switch.id());
        let status = std::fs::read_to_string(of("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        let maps = std::fs::read_to_string(of("maps")).unwrap();
        let is_shared = |line: &&str| line.split(' ').nth(1).is_some_and(|rights| rights.ends_with('s'));
        let is_counted = |task: &DirEntry| {
            std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name != "closer\n")
        };
        let (in_flight, others): (Vec<&str>, Vec<&str>) =
            maps.lines().filter(is_shared).partition(|line| line.contains("memfd:tautline in-flight"));
        Held {
            private_kib: line.trim().trim_end_matches(" kB").parse().unwrap(),
            shared_mappings: others.len(),
            in_flight_mappings: in_flight.len(),
            threads: std::fs::read_dir(of("task")).unwrap().flatten().filter(is_counted).count(),
            descriptors: switch.open_fds(),
        }
    }

    fn has_more_than(&self, first: &Self) -> bool {
        let counts = |held: &Self| [held.shared_mappings, held.threads, held.descriptors];
        /// Two for each of the scene's ports and of those that are added.
        const IN_FLIGHT_MAPPINGS: usize = 12;
        self.in_flight_mappings > IN_FLIGHT_MAPPINGS
            || counts(self).into_iter().zip(counts(first)).any(|(now, then)| now > then)
    }
}

/// What the descriptors of a process stand for, and how many for each.
fn open(process: u32) -> BTreeMap<String, u32> {
    let mut kinds = BTreeMap::new();
    for entry in std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().flatten() {
        let Ok(target) = std::fs::read_link(entry.path()) else { continue };
        let kind = target.display().to_string().split(":[").next().unwrap_or_default().to_owned();
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}

struct Soak {
    scene: Scene,
    random: StdRng,
    done: BTreeMap<Event, u32>,
}

impl Soak {
    fn happen(&mut self, event: Event) {
        match event {
            Event::Guests => self.talk(200),
            Event::Vanishes => {
                let mut load = self.load();
                for _ in 0..self.random.random_range(1..50) {
                    load.step(true);
                }
            }
            Event::Port => self.port(),
            Event::Hostile => {
                let ended = self.torture("5").finish();
                assert_eq!(ended.code, Some(0), "{ended}");
            }
            Event::Killed => {
                let mut torture = self.torture("100000").spawn();
                std::thread::sleep(Duration::from_millis(self.random.random_range(1..300)));
                torture.kill();
            }
            Event::Capture => {
                let mut capture = self.capture("10").spawn();
                wait_for("the capture's beginning", || self.captures().then_some(()));
                self.talk(200);
                let ended = capture.finish();
                assert_eq!(ended.code, Some(0), "{ended}");
            }
            Event::CaptureKilled => {
                let mut capture = self.capture("1000000").spawn();
                self.talk(20);
                capture.kill();
            }
            Event::Mirror => self.mirror(),
            Event::Look => {
                for what in ["ports", "stats", "drops", "rings"] {
                    self.scene.json(&[what]);
                }
                self.scene.switch.snapshot();
            }
        }
        *self.done.entry(event).or_default() += 1;
        self.scene.bystanders.go_on();
    }

    /// What the switch holds, once it has let go of what was only for a while.
    fn at_rest(&self, first: Option<&Held>) -> Held {
        wait_for("both ports' freedom", || {
            let snapshot = self.scene.switch.snapshot();
            let is_free = |port: &&str| description(&snapshot, port).contains("waits for a front-end");
            ["one", "two"].iter().all(is_free).then_some(())
        });
        let mut held = Held::by(&self.scene.switch);
        let Some(first) = first else { return held };
        let since = Instant::now();
        while held.has_more_than(first) {
            let id = self.scene.switch.id();
            assert!(since.elapsed() < SOON, "at first {first}, now {held}: {:#?}", open(id));
            std::thread::sleep(Duration::from_millis(5));
            held = Held::by(&self.scene.switch);
        }
        held
    }

    fn tell(&self, elapsed: Duration, held: Held) {
        let done: u32 = self.done.values().sum();
        let worst = self.scene.bystanders.take_worst_latency();
        println!("after {elapsed:.0?}: {done} events, {held}; a neighbour's worst latency {worst:.1?}");
        println!("  {:?}", self.done);
    }

    /// Guests of any layout at both ports.
    fn load(&mut self) -> Load {
        let [sender, receiver] = ["one", "two"].map(|port| self.guest(port));
        Load::new(sender, receiver)
    }

    fn guest(&mut self, port: &str) -> Guest {
        let layout = layouts()[self.random.random_range(0..2)];
        Guest::running(&self.scene.sockets.path(port), layout)
    }

    /// Sends at least this many frames, of which none is lost.
    fn talk(&mut self, frames: usize) {
        let mut load = self.load();
        wait_for("frames", || {
            load.step(load.received.len() < frames);
            (load.received.len() >= frames && load.received.len() == load.sent as usize).then_some(())
        });
    }

    fn port(&mut self) {
        let path = self.scene.sockets.path("late");
        let port = format!("late=vhost-user:{}", path.display());
        assert_eq!(self.scene.ctl(&["add", &port]).code, Some(0));
        let mut one = self.guest("one");
        let mut late = self.guest("late");
        late.post(1);
        one.send(&frame(1, 200));
        assert_eq!(late.receive(), frame(1, 200));
        let leaves_first = self.random.random();
        if leaves_first {
            late.hang_up();
        }
        assert_eq!(self.scene.ctl(&["remove", "late"]).code, Some(0));
        if !leaves_first {
            late.wait_until_closed();
        }
    }

    fn mirror(&mut self) {
        let path = self.scene.sockets.path("mirror");
        let port = format!("mirror=vhost-user:{}", path.display());
        assert_eq!(self.scene.ctl(&["add", &port]).code, Some(0));
        let mut watcher = self.guest("mirror");
        watcher.post(1);
        let mirror = self.scene.ctl(&["mirror", "one", "--to", "mirror"]);
        assert_eq!(mirror.code, Some(0), "{mirror}");
        self.talk(20);
        watcher.receive();
        for name in ["mirror-of-one", "mirror"] {
            let removed = self.scene.ctl(&["remove", name]);
            assert_eq!(removed.code, Some(0), "{removed}");
        }
    }

    fn torture(&mut self, cases: &str) -> Run {
        let kind = Family::ALL[self.random.random_range(0..Family::ALL.len())].name();
        let seed = self.random.random_range(1..1_000_000u32).to_string();
        let target = format!("vhost-user:{}", self.scene.sockets.path("one").display());
        Run::new(&["torture", &target, "--only", kind, "--cases", cases, "--seed", &seed, "--quiet"])
    }

    /// To a file that is not there yet.
    fn capture(&self, count: &str) -> Run {
        let file = self.scene.sockets.path("soak.pcapng");
        let _ = std::fs::remove_file(&file);
        Run::new(&["ctl"])
            .arg(self.scene.sockets.path("control"))
            .args(&["capture", "one", "--count", count, "--output"])
            .arg(file)
    }

    /// Whether the capture has begun: its file has a beginning.
    fn captures(&self) -> bool {
        std::fs::metadata(self.scene.sockets.path("soak.pcapng")).is_ok_and(|file| file.len() > 0)
    }
}
