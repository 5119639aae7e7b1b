//! What an idle `tautline switch` costs, and how long the first frame after idleness takes.
//!
//! The switch is the binary itself, a process of its own; guests are `virtio-user` ports of this process,
//! whose one thread sends and looks for what arrives without ever sleeping. So the only wake-up in a
//! frame's time is the switch's. For scale the same with an eventfd, in turn with the frames: another process
//! of this program sleeps in `read` and answers by a second eventfd.
//!
//! Both are measured twice: with sleeper and sender on a CPU each, and wherever the scheduler puts them. It
//! may put a sleeper on the sender's own CPU, which costs a switch of context instead of waking a CPU.
//!
//! Prints tables and asserts nothing: `cargo bench -p tautline --bench switch_idle [-- SAMPLES [SECONDS]]`.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use frame::FrameBatch;
use linux::{Child, cpus};
use port::virtio_user::{VirtioUser, VirtioUserOptions};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};
use rustix::process::Signal;
use traffic::rig::TestRig;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Only something broken takes longer.
const LIMIT: Duration = Duration::from_secs(20);
const GAPS: [Duration; 3] = [Duration::from_millis(10), Duration::from_millis(100), Duration::from_secs(1)];
/// Samples without a gap: they cost next to nothing.
const POLLING_SAMPLES: usize = 20_000;
const PORTS: [usize; 3] = [1, 2, 16];
/// The argument of the other process.
const ECHO: &str = "echo-eventfd";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    if arguments.first().is_some_and(|word| word == ECHO) {
        return echo();
    }
    let number = |at: usize, default| arguments.get(at).map_or(Ok(default), |word| word.parse::<usize>());
    let (samples, seconds) = (number(0, 200)?, number(1, 10)?);
    println!("{}", machine());

    println!("\nCPU use of an idle switch over {seconds} s");
    println!("{:>6}  {:>12}  {:>16}  {:>12}", "ports", "% of a CPU", "by ticks, %", "wake-ups/s");
    for ports in PORTS {
        println!("{}", idle(ports, Duration::from_secs(seconds as u64))?);
    }

    println!("\nOne way, in µs");
    println!("{:<34}  {:>8}  {:>8}  {:>8}  {:>8}", "", "samples", "median", "99 %", "maximum");
    // With a spin budget that never ends, so that no sample has a wake-up in it.
    let mut polling = FrameClock::start(&["--spin", "60s"])?;
    let mut times = Vec::with_capacity(POLLING_SAMPLES);
    for _ in 0..POLLING_SAMPLES {
        times.push(polling.sample()?);
    }
    println!("{}", row("frame, the switch polls", &mut times));
    drop(polling);
    let anywhere = cpus::usable()?;
    match anywhere[..] {
        [ours, theirs, ..] => {
            println!("sender on CPU {ours}, sleeper on CPU {theirs}:");
            after_idle(samples, Some((ours, theirs)))?;
            cpus::bind(&anywhere)?;
        }
        _ => println!("(not with a CPU for each: there is only one)"),
    }
    println!("on any CPU:");
    after_idle(samples, None)
}

/// Frames and eventfds in turn, each after a gap; sender and sleeper on CPUs of their own or anywhere.
fn after_idle(samples: usize, cpus: Option<(usize, usize)>) -> Result<()> {
    let worker = cpus.map(|(_, sleeper)| sleeper.to_string());
    let options: Vec<&str> = worker.iter().flat_map(|cpu| ["--cpus", cpu]).collect();
    let mut frames = FrameClock::start(&options)?;
    let mut bare = EventFdClock::start()?;
    if let Some((ours, sleeper)) = cpus {
        cpus::bind_thread(bare.other.id(), &[sleeper])?;
        // Only now: the switch refuses CPUs that its parent may not use.
        cpus::bind(&[ours])?;
    }
    for gap in GAPS {
        let (mut with_switch, mut without) = (Vec::with_capacity(samples), Vec::with_capacity(samples));
        for _ in 0..samples {
            std::thread::sleep(gap);
            with_switch.push(frames.sample()?);
            std::thread::sleep(gap);
            without.push(bare.sample()?);
        }
        println!("{}", row(&format!("  frame after {gap:?} idle"), &mut with_switch));
        println!("{}", row(&format!("  eventfd and back after {gap:?}"), &mut without));
    }
    Ok(())
}

/// What the figures belong to.
fn machine() -> String {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = text("/proc/cpuinfo");
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cpus = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    let kernel = text("/proc/sys/kernel/osrelease");
    let load = text("/proc/loadavg");
    let mut facts = String::new();
    let _ =
        write!(facts, "{}, {cpus} CPUs, kernel {}, ", model.map_or("CPU unknown", |m| m.1), kernel.trim());
    let _ = write!(facts, "load {} before", load.split_whitespace().next().unwrap_or("unknown"));
    facts
}

/// A switch of some `vhost-user` ports, each of which is plugged in. Ended when dropped.
struct Plugged {
    switch: Child,
    rig: TestRig,
    _folder: tempfile::TempDir,
}

impl Plugged {
    fn start(ports: usize, options: &[&str]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let sockets: Vec<_> = (0..ports).map(|port| folder.path().join(format!("{port}.sock"))).collect();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tautline"));
        command.arg("switch").args(options);
        for (port, socket) in sockets.iter().enumerate() {
            command.args(["--port", &format!("p{port}=vhost-user:{}", socket.display())]);
        }
        let switch = Child::spawn(command.stdout(Stdio::null()).stderr(Stdio::null()))?;
        let mut plugged = Plugged { switch, rig: TestRig::new(), _folder: folder };
        for socket in &sockets {
            let port = VirtioUser::new(VirtioUserOptions::new(socket))?;
            plugged.rig.attach("bench", Box::new(port))?;
        }
        plugged.rig.wait_until_up(LIMIT)?;
        Ok(plugged)
    }
}

impl Drop for Plugged {
    fn drop(&mut self) {
        let _ = self.switch.signal(Signal::TERM);
        let _ = self.switch.wait_within(LIMIT);
    }
}

/// What a process has used so far.
struct Used {
    /// On a CPU, by the scheduler's clock, ns.
    ran_ns: u64,
    /// How often a thread was put on a CPU.
    slices: u64,
    /// User and system time, in ticks of 10 ms.
    ticks: u64,
}

fn used(process: u32) -> io::Result<Used> {
    let folder = format!("/proc/{process}");
    let stat = fs::read_to_string(format!("{folder}/stat"))?;
    // Behind the name, which may hold anything, in brackets: state is field 3, utime and stime 14 and 15.
    let behind = stat.rsplit(')').next().unwrap_or_default();
    let ticks = behind.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
    let mut used = Used { ran_ns: 0, slices: 0, ticks };
    for thread in fs::read_dir(Path::new(&folder).join("task"))? {
        let schedstat = fs::read_to_string(thread?.path().join("schedstat"))?;
        let numbers: Vec<u64> = schedstat.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        if let [ran_ns, _waited_ns, slices] = numbers[..] {
            used.ran_ns += ran_ns;
            used.slices += slices;
        }
    }
    Ok(used)
}

fn idle(ports: usize, time: Duration) -> Result<String> {
    let plugged = Plugged::start(ports, &[])?;
    // Plugging in is over, and the spin budget used up.
    std::thread::sleep(Duration::from_secs(1));
    let (since, before) = (Instant::now(), used(plugged.switch.id())?);
    std::thread::sleep(time);
    let (seconds, after) = (since.elapsed().as_secs_f64(), used(plugged.switch.id())?);
    let ran = (after.ran_ns - before.ran_ns) as f64 / 1e9 / seconds;
    // USER_HZ is 100 on every architecture that this runs on (proc(5)).
    let ticks = (after.ticks - before.ticks) as f64 / 100.0 / seconds;
    let slices = (after.slices - before.slices) as f64 / seconds;
    Ok(format!("{ports:>6}  {:>12.4}  {:>16.1}  {slices:>12.1}", 100.0 * ran, 100.0 * ticks))
}

/// Times frames from one port of a switch to the other.
struct FrameClock {
    plugged: Plugged,
    frame: FrameBatch,
}

impl FrameClock {
    fn start(options: &[&str]) -> Result<Self> {
        let mut frame = [0u8; 64];
        // To and from locally administered addresses; the type is one for experiments (IEEE 802).
        frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
        let plugged = Plugged::start(2, options)?;
        let mut clock = FrameClock { plugged, frame: FrameBatch::of_frame(&frame)? };
        // A worker may still be taking a queue over: the first frames are not counted.
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(1));
            clock.sample()?;
        }
        Ok(clock)
    }

    fn sample(&mut self) -> Result<Duration> {
        let (from, to) = self.plugged.rig.two_ends(0, 1).ok_or("no two ends")?;
        let sink = from.sinks().next().ok_or("no queue to send")?;
        let source = to.sources().next().ok_or("no queue to receive")?;
        let since = Instant::now();
        sink.accept(&self.frame, &[0])?;
        loop {
            let arrived = (!source.rx_burst(8)?.is_empty()).then(|| since.elapsed());
            if source.needs_release() {
                source.release();
            }
            if let Some(time) = arrived {
                return Ok(time);
            }
            if since.elapsed() > LIMIT {
                return Err(format!("no frame within {} s", LIMIT.as_secs()).into());
            }
            std::hint::spin_loop();
        }
    }
}

/// Times how long another process takes to wake up and answer.
struct EventFdClock {
    other: Child,
    there: OwnedFd,
    back: OwnedFd,
}

impl EventFdClock {
    fn start() -> Result<Self> {
        let there = eventfd(0, EventfdFlags::CLOEXEC)?;
        let back = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(ECHO).stdin(there.try_clone()?).stdout(back.try_clone()?);
        let mut clock = EventFdClock { other: Child::spawn(&mut command)?, there, back };
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(1));
            clock.sample()?;
        }
        Ok(clock)
    }

    fn sample(&mut self) -> Result<Duration> {
        let since = Instant::now();
        write(&self.there, &1u64.to_ne_bytes())?;
        loop {
            match read(&self.back, &mut [0; 8]) {
                Ok(_) => return Ok(since.elapsed()),
                Err(Errno::AGAIN) if since.elapsed() < LIMIT => std::hint::spin_loop(),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The other process: standard input and output are eventfds.
fn echo() -> Result<()> {
    let mut count = [0; 8];
    loop {
        read(io::stdin(), &mut count)?;
        write(io::stdout(), &1u64.to_ne_bytes())?;
    }
}

fn row(what: &str, times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |share: f64| {
        let index = ((times.len() as f64 * share).ceil() as usize).clamp(1, times.len()) - 1;
        times[index].as_secs_f64() * 1e6
    };
    let (median, high, most) = (at(0.5), at(0.99), at(1.0));
    format!("{what:<34}  {:>8}  {median:>8.1}  {high:>8.1}  {most:>8.1}", times.len())
}
