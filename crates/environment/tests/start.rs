//! Every environment really started, lost, hung and interrupted; nothing left behind.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use environment::channel::ChannelError;
use environment::{Agent, Environment, Folder, Janitor, Proven, Running, Spec, Start};

const LIMIT: Duration = Duration::from_secs(60);

/// Cargo builds the examples next to the tests.
fn echo() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let binary = test.parent().unwrap().parent().unwrap().join("examples/echo");
    assert!(binary.exists(), "{} is missing: run `cargo test -p tautline-environment`", binary.display());
    binary
}

/// Each test looks for what the others would leave, so that one runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Setting {
    agent: Agent,
    janitor: Arc<Janitor>,
    cpus: Vec<usize>,
}

impl Setting {
    fn new(arguments: &[&str]) -> Self {
        let agent = Agent {
            binary: echo(),
            arguments: arguments.iter().map(|word| word.to_string()).collect(),
            files: vec![],
        };
        let janitor = Arc::new(Janitor::start(&agent.binary).unwrap());
        Setting { agent, janitor, cpus: vec![0, 1] }
    }

    fn start(&self) -> Start<'_> {
        Start { agent: &self.agent, cpus: &self.cpus, limit: LIMIT, janitor: &self.janitor }
    }

    fn prove(&self, spec: &str) -> Proven {
        let spec: Spec = spec.parse().unwrap();
        spec.prove(&self.start()).unwrap_or_else(|failure| panic!("{failure}"))
    }
}

/// Processes whose command line holds this text.
fn processes_with(mark: &str) -> Vec<String> {
    let own = std::process::id().to_string();
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()) && *name != own)
        .filter_map(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains(mark).then(|| format!("{pid}: {line}"))
        })
        .collect()
}

/// What a start of this process may leave: folders, cgroups, mounts and processes that carry its name.
fn leftovers(pid: u32) -> Vec<String> {
    let names = [format!("tautline-{pid}-"), format!("tautline-lxc-{pid}-")];
    let named = |text: &str| names.iter().any(|name| text.contains(name.as_str()));
    let mut found = Vec::new();
    let mut folders =
        vec![(std::env::temp_dir(), 0), (PathBuf::from("/sys/fs/cgroup"), 2), (PathBuf::from("/run"), 2)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if named(&entry.file_name().to_string_lossy()) {
                found.push(path.display().to_string());
            } else if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push((path, depth - 1));
            }
        }
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    found.extend(mounts.lines().filter(|line| named(line)).map(str::to_owned));
    found.extend(names.iter().flat_map(|name| processes_with(name)));
    found
}

fn wait_until(mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition() {
        if Instant::now() > deadline {
            return false;
        }
        sleep(Duration::from_millis(20));
    }
    true
}

/// What the agent says next; where it does not, the console tells why.
fn next_line(running: &mut Running) -> String {
    let said = running.channel().receive(LIMIT);
    said.unwrap_or_else(|error| panic!("{}", running.explain("waiting for the agent", &error, "look")))
}

fn echoes(spec: &str, setting: &Setting, place: &Proven) {
    let mut running = place.start(&setting.start()).unwrap();
    assert!(next_line(&mut running).starts_with("ready"));
    let long = "x".repeat(3000);
    for text in ["hello", "{\"a\": \"ä\"}", &long] {
        running.channel().send(text, LIMIT).unwrap();
        assert_eq!(running.channel().receive(LIMIT).unwrap(), text);
    }
    let pid = running.process_id();
    drop(running);
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "{spec}: process {pid} lives on");
    assert_eq!(leftovers(std::process::id()), Vec::<String>::new(), "{spec}");
    // What was proven is not proven again: an agent that never greets would fail a proof.
    let mute = Setting::new(&["mute"]);
    assert!(place.spec().trusted(&mute.start()).is_ok(), "{spec}");
}

fn dies(spec: &str, setting: &Setting, place: &Proven) {
    let words = if spec.starts_with("vm") { "Attempted to kill init" } else { "dying as told" };
    let mut running = place.start(&setting.start()).unwrap();
    next_line(&mut running);
    running.channel().send("die", LIMIT).unwrap();
    let error = running.channel().receive(LIMIT).unwrap_err();
    assert!(matches!(error, ChannelError::Closed), "{spec}: {error}");
    let failure = running.explain("asking", &error, "look");
    assert!(failure.answer.contains("ended with"), "{spec}: {failure}");
    assert!(failure.answer.contains(words), "{spec}: {failure}");
}

fn hangs(spec: &str, setting: &Setting, place: &Proven) {
    let mut running = place.start(&setting.start()).unwrap();
    next_line(&mut running);
    running.channel().send("hang", LIMIT).unwrap();
    let error = running.channel().receive(Duration::from_millis(300)).unwrap_err();
    assert!(matches!(error, ChannelError::Late(_)), "{spec}: {error}");
    let pid = running.process_id();
    drop(running);
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "{spec}: process {pid} lives on");
}

#[test]
fn two_folders_for_one_purpose_are_two() {
    let setting = Setting::new(&[]);
    let one = Folder::make("purpose", &setting.janitor).unwrap();
    std::fs::write(one.path().join("file"), "kept").unwrap();
    let other = Folder::make("purpose", &setting.janitor).unwrap();
    drop(other);
    assert_eq!(std::fs::read_to_string(one.path().join("file")).unwrap(), "kept");
    let path = one.path().to_owned();
    drop(one);
    assert!(!path.exists());
}

#[test]
fn every_environment_echoes_dies_hangs_and_leaves_nothing() {
    let _alone = alone();
    for spec in ["host", "container:runtime=runc", "container:runtime=lxc", "vm:accel=tcg"] {
        eprintln!("{spec}");
        // One proof for all: each proof of a guest is a boot.
        let setting = Setting::new(&[]);
        let place = setting.prove(spec);
        echoes(spec, &setting, &place);
        dies(spec, &setting, &place);
        hangs(spec, &setting, &place);
        assert_eq!(leftovers(std::process::id()), Vec::<String>::new(), "{spec}");
    }
    three_containers_of_one_run_live_side_by_side();
    guest_that_never_greets_is_explained();
    killed_parent_leaves_nothing();
}

fn guest_that_never_greets_is_explained() {
    let setting = Setting::new(&["mute"]);
    let start = Start { limit: Duration::from_secs(12), ..setting.start() };
    let spec: Spec = "vm:accel=tcg".parse().unwrap();
    let failure = spec.prove(&start).expect_err("it is mute");
    assert!(failure.answer.contains("no answer within 12s"), "{failure}");
    assert!(failure.answer.contains("mute as told"), "{failure}");
}

/// This test's binary, as a child, starts every environment and is then killed without warning.
fn killed_parent_leaves_nothing() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "parent_to_be_killed", "--nocapture"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    assert!(lines.any(|line| line.unwrap().contains("all started")));
    let pid = child.id();
    assert!(!leftovers(pid).is_empty(), "the child has made nothing that could be left");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(wait_until(|| leftovers(pid).is_empty()), "left behind: {:?}", leftovers(pid));
    let echo = echo().display().to_string();
    assert!(
        wait_until(|| processes_with(&echo).is_empty() && processes_with(" -name tautline").is_empty()),
        "{:?} {:?}",
        processes_with(&echo),
        processes_with(" -name tautline")
    );
}

#[test]
#[ignore = "the child process of another test, which starts it by name"]
fn parent_to_be_killed() {
    let _alone = alone();
    let setting = Setting::new(&[]);
    let mut running = Vec::new();
    for spec in ["host", "container:runtime=runc", "container:runtime=lxc", "vm:accel=tcg"] {
        let place = setting.prove(spec);
        let mut one = place.start(&setting.start()).unwrap();
        one.channel().receive(LIMIT).unwrap();
        running.push(one);
    }
    println!("all started");
    sleep(Duration::from_secs(600));
}

#[test]
fn a_missing_agent_a_missing_kernel_and_a_file_that_is_no_program_are_said() {
    let _alone = alone();
    let mut setting = Setting::new(&[]);
    let spec: Spec = "vm:accel=tcg,kernel=/nonexistent/vmlinuz".parse().unwrap();
    let failure = spec.prove(&setting.start()).expect_err("no kernel");
    assert!(failure.to_string().contains("/nonexistent/vmlinuz"), "{failure}");
    setting.agent.binary = "/nonexistent/agent".into();
    for (spec, words) in [("host", "/nonexistent/agent"), ("vm:accel=tcg", "/nonexistent/agent")] {
        let spec: Spec = spec.parse().unwrap();
        let started = spec.prove(&setting.start()).and_then(|place| place.start(&setting.start()).map(drop));
        let failure = started.expect_err("no agent");
        assert!(failure.to_string().contains(words), "{failure}");
    }
}

fn three_containers_of_one_run_live_side_by_side() {
    let setting = Setting::new(&[]);
    let place = setting.prove("container:runtime=runc");
    let mut all: Vec<_> = (0..3).map(|_| place.start(&setting.start()).unwrap()).collect();
    for running in &mut all {
        let greeting = running.channel().receive(LIMIT);
        assert!(
            greeting.as_ref().is_ok_and(|line| line.starts_with("ready")),
            "{greeting:?}: {}",
            running.last_output()
        );
    }
}

#[test]
fn a_containers_quota_is_found_in_its_cgroup_and_seen_to_be_used_up() {
    let _alone = alone();
    let setting = Setting::new(&[]);
    let start = |spec: &str| {
        let mut running = setting.prove(spec).start(&setting.start()).unwrap();
        next_line(&mut running);
        running
    };
    for runtime in ["runc", "lxc"] {
        let mut running = start(&format!("container:runtime={runtime},cpus=0.05"));
        let cgroup = running.cpu_cgroup();
        assert_eq!(cgroup.quota().map(|quota| quota.cpus()), Some(0.05), "{runtime}");
        let before = cgroup.throttling();
        let throttled = wait_until(|| {
            running.channel().send("work", LIMIT).unwrap();
            next_line(&mut running);
            cgroup.throttling().since(before).periods > 0
        });
        assert!(throttled, "{runtime}: {:?}", cgroup.throttling());
    }
    // Everything else is where this process is.
    let own = measure::quota::CpuCgroup::own();
    assert_eq!(start("host").cpu_cgroup(), own);
    assert_eq!(start("container:runtime=runc").cpu_cgroup().quota(), own.quota());
}
