//! Runs DPDK's testpmd, which forwards, answers or generates packets on virtio-user and vhost ports.

mod files;
mod stats;
mod vdev;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub use files::files;
use files::find;
pub use stats::{ForwardStats, PortStats};
pub use vdev::{VHOST_NET, Vdev, packed_vectorized_path};

use crate::process::{self, PAUSE, Process};
use crate::requirements::Requirements;
use crate::socket::wait_for_listener;
use crate::{Error, Netns, Output, Pages, cpus};

/// Long enough for a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
const PROMPT: &str = "testpmd> ";

/// The frame check sequence, which no virtual port carries: RFC 2544 counts it, testpmd does not.
const FCS_BYTES: u16 = 4;

/// The forwarding mode of testpmd (its `set fwd`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forward {
    /// Forward from each port to its pair (0 to 1, 1 to 0; a single port to itself), unchanged.
    Io,
    /// Forward to the pair, with testpmd's own and the peer's address as source and destination.
    Mac,
    /// Forward to the pair, with source and destination Ethernet addresses exchanged.
    MacSwap,
    /// Forward to the pair, with addresses and ports of all layers exchanged.
    FiveTupleSwap,
    /// Receive and drop.
    RxOnly,
    /// Generate and send.
    TxOnly,
    /// Generate UDP of several flows, which differ in their destinations, and send; receive and drop.
    FlowGen,
}

impl Forward {
    fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::Mac => "mac",
            Self::MacSwap => "macswap",
            Self::FiveTupleSwap => "5tswap",
            Self::RxOnly => "rxonly",
            Self::TxOnly => "txonly",
            Self::FlowGen => "flowgen",
        }
    }
}

/// MiB of memory for all its buffers and rings. Each buffer takes at least one page.
fn memory_mib(pages: Pages) -> u64 {
    match pages {
        Pages::Small => 192,
        Pages::Huge => 64,
    }
}

/// The settings of testpmd.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    program: Option<PathBuf>,
    pages: Pages,
    vdevs: Vec<Vdev>,
    queue_pairs: Option<u16>,
    simd_bits: Option<u16>,
    forwarding_cpu: Option<usize>,
    eal: Vec<String>,
    arguments: Vec<String>,
}

impl Settings {
    /// Adds a port; the first is 0.
    pub fn port(mut self, vdev: Vdev) -> Self {
        self.vdevs.push(vdev);
        self
    }

    /// Sets the number of queue pairs of each port. The default is one.
    pub fn queue_pairs(mut self, pairs: u16) -> Self {
        self.queue_pairs = Some(pairs);
        self
    }

    /// The widest vector instructions that DPDK may use, in bits: the packed ring's vector path requires 512.
    pub fn simd_bits(mut self, bits: u16) -> Self {
        self.simd_bits = Some(bits);
        self
    }

    /// The CPU of the thread that moves packets; by default the system chooses the CPU. Two processes whose packet
    /// threads share one CPU take CPU time from each other, so each should have its own.
    pub fn forwarding_cpu(mut self, cpu: usize) -> Self {
        self.forwarding_cpu = Some(cpu);
        self
    }

    /// Sets the program. The default is the installed one.
    pub fn program(mut self, program: Option<PathBuf>) -> Self {
        self.program = program;
        self
    }

    /// Sets the kind of pages of testpmd's memory. The default is small pages.
    pub fn pages(mut self, pages: Pages) -> Self {
        self.pages = pages;
        self
    }

    /// Adds arguments for DPDK's environment layer.
    pub fn eal<const N: usize>(mut self, arguments: [&str; N]) -> Self {
        self.eal.extend(arguments.map(str::to_owned));
        self
    }

    /// Adds arguments for testpmd.
    pub fn arguments<const N: usize>(mut self, arguments: [&str; N]) -> Self {
        self.arguments.extend(arguments.map(str::to_owned));
        self
    }

    /// Starts testpmd, and waits until it accepts commands. testpmd does not forward yet.
    ///
    /// # Errors
    /// The test is not root, testpmd, `stdbuf` or free huge pages are missing, a port's socket has no listener within
    /// 60 s, or testpmd ends or shows no prompt within 60 s.
    pub fn start(self) -> Result<Testpmd, Error> {
        Testpmd::start(self, None)
    }

    /// Starts testpmd in a network namespace, which contains the interfaces that its devices name. Waits until
    /// testpmd accepts commands.
    ///
    /// # Errors
    /// The causes of [`Settings::start`].
    pub fn start_in(self, namespace: &Netns) -> Result<Testpmd, Error> {
        Testpmd::start(self, Some(namespace))
    }
}

/// A running testpmd. It is killed when this value is dropped.
pub struct Testpmd {
    process: Process,
    /// The forwarding mode and the packet size in bytes that were set last.
    set: Option<(Forward, u16)>,
    /// The number of ports that are drivers.
    drivers: usize,
    _folder: tempfile::TempDir,
}

impl Testpmd {
    /// Starts testpmd with these ports and default settings.
    ///
    /// # Errors
    /// The causes of [`Settings::start`].
    pub fn with_ports(vdevs: impl IntoIterator<Item = Vdev>) -> Result<Self, Error> {
        vdevs.into_iter().fold(Settings::default(), Settings::port).start()
    }

    fn start(settings: Settings, namespace: Option<&Netns>) -> Result<Self, Error> {
        let mut needs = Requirements::new();
        needs.root();
        let program = find(settings.program.as_deref(), &mut needs);
        let stdbuf = needs.program("stdbuf", "coreutils");
        let memory_mib = memory_mib(settings.pages);
        settings.pages.require(memory_mib, &mut needs);
        let mut command =
            namespace.map_or_else(|| Command::new(&stdbuf), |namespace| namespace.tied(&stdbuf));
        needs.met()?;
        let folder = tempfile::tempdir().map_err(Error::system("making a folder for testpmd"))?;
        // testpmd has two threads, for commands and for packets. Without CPUs, the system places them: if DPDK pinned
        // them, the threads of two processes would share one CPU and leave the other idle.
        let cpus = linux::cpus::list(&cpus::usable()?);
        let forwarding = settings.forwarding_cpu.map_or_else(|| cpus.clone(), |cpu| cpu.to_string());
        command.arg("-oL").arg(&program);
        command.args(["-m", &memory_mib.to_string(), "--no-pci", "--no-telemetry"]);
        match settings.pages {
            Pages::Small => command.arg("--no-huge"),
            // Without a file system for huge pages, and in one file: a vhost-user device takes eight at the most.
            Pages::Huge => command.args(["--in-memory", "--single-file-segments"]),
        };
        command.args(["--no-shconf", "--file-prefix", "peer"]);
        command.args(["--lcores", &format!("0@({cpus}),1@({forwarding})")]);
        // The driver says which features were agreed on, and which paths it took; of packets it says nothing.
        command.args(["--log-level=lib.vhost.config:warning", "--log-level=pmd.net.virtio.init:debug"]);
        command.env("RUNTIME_DIRECTORY", folder.path());
        if let Some(bits) = settings.simd_bits {
            command.arg(format!("--force-max-simd-bitwidth={bits}"));
        }
        for (index, vdev) in settings.vdevs.iter().enumerate() {
            if let Some(path) = vdev.waits_for() {
                wait_for_listener(path, LIMIT)?;
            }
            command.arg("--vdev").arg(vdev.text(index));
        }
        let pairs = settings.queue_pairs.unwrap_or(1).to_string();
        command.args(&settings.eal).args(["--", "-i", "--rxq", &pairs, "--txq", &pairs]);
        command.arg("--total-num-mbufs=8192");
        command.args(&settings.arguments);
        let process = Process::start("testpmd", &mut command)?;
        process.wait_for("the prompt", 0, LIMIT, |said| said.contains(PROMPT).then_some(()))?;
        let drivers = settings.vdevs.iter().filter(|vdev| vdev.is_driver()).count();
        Ok(Self { process, drivers, set: None, _folder: folder })
    }

    /// Sends a line and returns all that testpmd prints up to the next prompt.
    ///
    /// # Errors
    /// testpmd has ended, or shows no prompt within 60 s.
    pub fn command(&mut self, line: &str) -> Result<String, Error> {
        let mark = self.process.mark();
        self.process.write(&format!("{line}\n"))?;
        self.process.wait_for(&format!("the answer to `{line}`"), mark, LIMIT, |said| {
            said.rfind(PROMPT).map(|end| said[..end].to_owned())
        })
    }

    /// Sets the forwarding mode for the next start.
    ///
    /// # Errors
    /// The causes of [`Testpmd::command`], or testpmd refuses the mode.
    pub fn set_forward(&mut self, forward: Forward) -> Result<(), Error> {
        self.expect(&format!("set fwd {}", forward.name()), "packet forwarding mode")
    }

    /// Sets the size of generated packets in bytes, as RFC 2544 counts it: with the frame check sequence, which is in
    /// no buffer.
    ///
    /// # Errors
    /// The causes of [`Testpmd::command`], or testpmd refuses the size.
    pub fn set_frame_size(&mut self, bytes_with_fcs: u16) -> Result<(), Error> {
        let bytes = bytes_with_fcs.saturating_sub(FCS_BYTES);
        self.command(&format!("set txpkts {bytes}"))?;
        // testpmd reports a refusal elsewhere.
        self.expect("show config txpkts", &format!("Segment sizes: {bytes}\n"))
    }

    /// Sets the forwarding mode and the packet size, unless they are set already.
    ///
    /// # Errors
    /// The causes of [`Testpmd::set_forward`] and [`Testpmd::set_frame_size`].
    pub fn set_up(&mut self, forward: Forward, bytes_with_fcs: u16) -> Result<(), Error> {
        if self.set.is_none_or(|(set, _)| set != forward) {
            self.set_forward(forward)?;
        }
        if self.set.is_none_or(|(_, set)| set != bytes_with_fcs) {
            self.set_frame_size(bytes_with_fcs)?;
        }
        self.set = Some((forward, bytes_with_fcs));
        Ok(())
    }

    /// Starts to forward.
    ///
    /// # Errors
    /// The causes of [`Testpmd::command`], or testpmd does not start, for example because it forwards already.
    pub fn start_forwarding(&mut self) -> Result<(), Error> {
        self.expect("start", "packet forwarding - ports=")
    }

    /// Sends `bursts` bursts of 32 generated packets from each port, then forwards.
    ///
    /// # Errors
    /// The causes of [`Testpmd::command`], or testpmd does not start, for example because it forwards already.
    pub fn start_with_bursts(&mut self, bursts: u32) -> Result<(), Error> {
        self.expect(&format!("start tx_first {bursts}"), "packet forwarding - ports=")
    }

    /// Stops forwarding, and returns the text of testpmd's counters.
    ///
    /// # Errors
    /// The causes of [`Testpmd::command`].
    pub fn stop_forwarding(&mut self) -> Result<String, Error> {
        self.command("stop")
    }

    /// The counters of a port.
    ///
    /// # Errors
    /// The causes of [`Testpmd::command`], or the answer lacks a counter, for example because there is no such port.
    pub fn stats(&mut self, port: u16) -> Result<PortStats, Error> {
        let text = self.command(&format!("show port stats {port}"))?;
        PortStats::parse(&text)
            .ok_or_else(|| Error::refused(format!("reading the counters of port {port}"), text))
    }

    /// The counters of the forwarding thread.
    ///
    /// # Errors
    /// The causes of [`Testpmd::command`], or the answer lacks a counter.
    pub fn forward_stats(&mut self) -> Result<ForwardStats, Error> {
        let text = self.command("show fwd stats all")?;
        ForwardStats::parse(&text).ok_or_else(|| Error::refused("reading what testpmd forwarded", text))
    }

    /// Reads a port's counters every 5 ms until `enough` returns true.
    ///
    /// # Errors
    /// The causes of [`Testpmd::stats`], or `enough` has not returned true within the limit.
    pub fn wait_for_stats(
        &mut self,
        port: u16,
        limit: Duration,
        enough: impl Fn(&PortStats) -> bool,
    ) -> Result<PortStats, Error> {
        let doing = || format!("waiting for packets on testpmd's port {port}");
        crate::process::look_until(limit, doing, || self.stats(port), enough)
    }

    /// Waits up to 60 s until a port's link is up.
    ///
    /// # Errors
    /// The causes of [`Testpmd::command`], or the link is not up in time.
    pub fn wait_for_link(&mut self, port: u16) -> Result<(), Error> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let said = self.command(&format!("show port info {port}"))?;
            if said.contains("Link status: up") {
                return Ok(());
            }
            if Instant::now() > deadline {
                let doing = format!("waiting for the link of testpmd's port {port}");
                return Err(Error::TimedOut { doing, limit: LIMIT, said });
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The transmit and receive paths that the virtio driver logs: two lines for each port that is a driver.
    ///
    /// # Errors
    /// testpmd ends, or does not log the lines within 60 s.
    pub fn paths(&self) -> Result<Vec<String>, Error> {
        self.process.wait_for_log("the driver's paths", LIMIT, |said| {
            let lines = said.lines().filter(|line| line.contains(" path on port "));
            let paths: Vec<_> =
                lines.filter_map(|line| Some(line.split("using ").nth(1)?.to_owned())).collect();
            (paths.len() >= 2 * self.drivers).then_some(paths)
        })
    }

    /// The feature bits of VIRTIO that the last driver negotiated; `None` if no port is a driver.
    ///
    /// # Errors
    /// The causes of [`Testpmd::paths`].
    pub fn features(&self) -> Result<Option<u64>, Error> {
        // The paths come after these lines.
        self.paths()?;
        let said = self.process.said();
        let agreed = said.rsplit_once("features after negotiate = ").map_or("", |(_, rest)| rest);
        let digits = agreed.split(|c: char| !c.is_ascii_hexdigit()).next().unwrap_or_default();
        Ok(u64::from_str_radix(digits, 16).ok())
    }

    /// testpmd's exit status, if it has ended: 128 plus the signal's number if a signal ended it.
    pub fn ended(&mut self) -> Option<i32> {
        self.process.ended()
    }

    /// All output of testpmd.
    pub fn said(&self) -> String {
        self.process.said()
    }

    /// testpmd's process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Ends testpmd in order: testpmd stops its rings, and closes and removes its sockets. Dropping the value kills
    /// testpmd.
    ///
    /// # Errors
    /// testpmd accepts no commands, or does not end within 60 s.
    pub fn quit(mut self) -> Result<Output, Error> {
        self.process.write("quit\n")?;
        let status = self.process.end(LIMIT)?;
        Ok(Output { status, stdout: self.process.said(), stderr: String::new() })
    }

    /// Kills testpmd, with the same effect as a crash.
    pub fn kill(self) {}

    fn expect(&mut self, line: &str, answer: &str) -> Result<(), Error> {
        let said = self.command(line)?;
        if said.contains(answer) { Ok(()) } else { Err(Error::refused(format!("testpmd's `{line}`"), said)) }
    }
}

/// The version of a build of testpmd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The path of the program.
    pub program: PathBuf,
    /// The version, such as "DPDK 26.07.0".
    pub version: String,
    /// Whether DPDK is part of the program ("static") or in libraries beside it ("shared").
    pub linkage: String,
}

/// Asks this build, or the installed one, for its version. testpmd prints its version when it starts, and ends after
/// its help.
///
/// # Errors
/// testpmd is missing, cannot be run, or does not print its version and linkage.
pub fn version(program: Option<&Path>) -> Result<Version, Error> {
    let mut needs = Requirements::new();
    let program = find(program, &mut needs);
    needs.met()?;
    let folder = tempfile::tempdir().map_err(Error::system("making a folder for testpmd"))?;
    let mut command = Command::new(&program);
    command.args([
        "-v",
        "--no-huge",
        "--no-pci",
        "--no-shconf",
        "--no-telemetry",
        "-m",
        "64",
        "--",
        "--help",
    ]);
    let output = process::run(command.env("RUNTIME_DIRECTORY", folder.path()), LIMIT)?;
    let said = output.stdout + &output.stderr;
    let between = |before: &str, after: &str| {
        said.lines().find_map(|line| Some(line.split_once(before)?.1.split_once(after)?.0.to_owned()))
    };
    match between("RTE Version: '", "'").zip(between("EAL: Detected ", " linkage")) {
        Some((version, linkage)) => Ok(Version { program, version, linkage }),
        None => {
            Err(Error::refused(format!("asking {} for its version", program.display()), process::tail(&said)))
        }
    }
}
