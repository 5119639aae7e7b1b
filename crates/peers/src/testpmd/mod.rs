//! DPDK's testpmd: forwards, answers or makes packets on virtio-user and vhost ports.

mod stats;
mod vdev;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub use stats::{ForwardStats, PortStats};
pub use vdev::{VHOST_NET, Vdev};

use crate::process::{self, PAUSE, Process};
use crate::requirements::Requirements;
use crate::socket::wait_for_listener;
use crate::{Error, Netns, Output, Pages, chosen, cpus};

/// Long enough for a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
const PROMPT: &str = "testpmd> ";
const PACKAGES: &str = "dpdk-dev librte-net-virtio23 librte-net-vhost23";

/// What no virtual port carries: RFC 2544 counts it, testpmd does not.
const FCS_BYTES: u16 = 4;

/// What testpmd does with packets (its `set fwd`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forward {
    /// From each port to its pair (0 to 1, 1 to 0; a single port to itself) as it is.
    Io,
    /// The same with its own and the peer's address written in.
    Mac,
    /// The same with source and destination address exchanged.
    MacSwap,
    /// The same with addresses and ports of all layers exchanged.
    FiveTupleSwap,
    /// Receive and drop.
    RxOnly,
    /// Make and send.
    TxOnly,
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
        }
    }
}

/// Memory that it takes, all of its buffers and rings among it. Of small pages each buffer takes one and more.
fn memory_mib(pages: Pages) -> u64 {
    match pages {
        Pages::Small => 192,
        Pages::Huge => 64,
    }
}

/// What testpmd is to be.
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
    /// One more port; the first is 0.
    pub fn port(mut self, vdev: Vdev) -> Self {
        self.vdevs.push(vdev);
        self
    }

    /// Queue pairs that are used of each port; one otherwise.
    pub fn queue_pairs(mut self, pairs: u16) -> Self {
        self.queue_pairs = Some(pairs);
        self
    }

    /// The widest vector instructions that DPDK may use: 512 for the packed ring's vector path.
    pub fn simd_bits(mut self, bits: u16) -> Self {
        self.simd_bits = Some(bits);
        self
    }

    /// The CPU of the thread that moves packets; wherever the system puts it otherwise. Two processes whose
    /// packet threads share one CPU starve each other: give each its own.
    pub fn forwarding_cpu(mut self, cpu: usize) -> Self {
        self.forwarding_cpu = Some(cpu);
        self
    }

    /// This build of it; the one that is installed otherwise.
    pub fn program(mut self, program: Option<PathBuf>) -> Self {
        self.program = program;
        self
    }

    /// What its memory is made of; small pages otherwise.
    pub fn pages(mut self, pages: Pages) -> Self {
        self.pages = pages;
        self
    }

    /// Further arguments for DPDK's environment layer.
    pub fn eal<const N: usize>(mut self, arguments: [&str; N]) -> Self {
        self.eal.extend(arguments.map(str::to_owned));
        self
    }

    /// Further arguments for testpmd.
    pub fn arguments<const N: usize>(mut self, arguments: [&str; N]) -> Self {
        self.arguments.extend(arguments.map(str::to_owned));
        self
    }

    /// Starts it, and waits until it takes commands. Nothing is forwarded yet.
    pub fn start(self) -> Result<Testpmd, Error> {
        Testpmd::start(self, None)
    }

    /// The same in a network namespace: the interfaces that its devices name are those in there.
    pub fn start_in(self, namespace: &Netns) -> Result<Testpmd, Error> {
        Testpmd::start(self, Some(namespace))
    }
}

/// A running testpmd. Ended when dropped.
pub struct Testpmd {
    process: Process,
    /// What was chosen last.
    set: Option<(Forward, u16)>,
    /// How many of its ports are drivers.
    drivers: usize,
    _folder: tempfile::TempDir,
}

impl Testpmd {
    /// Starts it with these ports and nothing else unusual.
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
        // Two threads, of commands and of packets, wherever the system puts them if nothing is said: ones of
        // two processes that DPDK pins by itself would share one CPU and leave the other idle.
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

    /// Gives testpmd a line and returns all that it says until it asks for the next.
    pub fn command(&mut self, line: &str) -> Result<String, Error> {
        let mark = self.process.mark();
        self.process.write(&format!("{line}\n"))?;
        self.process.wait_for(&format!("the answer to `{line}`"), mark, LIMIT, |said| {
            said.rfind(PROMPT).map(|end| said[..end].to_owned())
        })
    }

    /// Stops, and chooses what to do with packets from the next start.
    pub fn set_forward(&mut self, forward: Forward) -> Result<(), Error> {
        self.expect(&format!("set fwd {}", forward.name()), "packet forwarding mode")
    }

    /// From now on packets of its own making are of this size, as RFC 2544 counts it: with the frame check sequence,
    /// which is in no buffer.
    pub fn set_frame_size(&mut self, bytes_with_fcs: u16) -> Result<(), Error> {
        let bytes = bytes_with_fcs.saturating_sub(FCS_BYTES);
        self.command(&format!("set txpkts {bytes}"))?;
        // It complains elsewhere of what it does not take.
        self.expect("show config txpkts", &format!("Segment sizes: {bytes}\n"))
    }

    /// Chooses what to do, with packets of which size, where it is not chosen already: each takes a moment.
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
    pub fn start_forwarding(&mut self) -> Result<(), Error> {
        self.expect("start", "packet forwarding - ports=")
    }

    /// Sends bursts of 32 packets of its own making from each port, then forwards.
    pub fn start_with_bursts(&mut self, bursts: u32) -> Result<(), Error> {
        self.expect(&format!("start tx_first {bursts}"), "packet forwarding - ports=")
    }

    /// Stops forwarding; what testpmd counted comes back as text.
    pub fn stop_forwarding(&mut self) -> Result<String, Error> {
        self.command("stop")
    }

    /// The counters of a port.
    pub fn stats(&mut self, port: u16) -> Result<PortStats, Error> {
        let text = self.command(&format!("show port stats {port}"))?;
        PortStats::parse(&text)
            .ok_or_else(|| Error::refused(format!("reading the counters of port {port}"), text))
    }

    /// The counters of the forwarding thread.
    pub fn forward_stats(&mut self) -> Result<ForwardStats, Error> {
        let text = self.command("show fwd stats all")?;
        ForwardStats::parse(&text).ok_or_else(|| Error::refused("reading what testpmd forwarded", text))
    }

    /// Looks at a port's counters until they satisfy.
    pub fn wait_for_stats(
        &mut self,
        port: u16,
        limit: Duration,
        enough: impl Fn(&PortStats) -> bool,
    ) -> Result<PortStats, Error> {
        let doing = || format!("waiting for packets on testpmd's port {port}");
        crate::process::look_until(limit, doing, || self.stats(port), enough)
    }

    /// Waits until a port has its other end.
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

    /// Which of its transmit and receive paths the virtio driver says it took, as it words it, a pair of
    /// lines for each port that is a driver.
    pub fn paths(&self) -> Result<Vec<String>, Error> {
        self.process.wait_for_log("the driver's paths", LIMIT, |said| {
            let lines = said.lines().filter(|line| line.contains(" path on port "));
            let paths: Vec<_> =
                lines.filter_map(|line| Some(line.split("using ").nth(1)?.to_owned())).collect();
            (paths.len() >= 2 * self.drivers).then_some(paths)
        })
    }

    /// The features that its last driver agreed on with its device, as bits of VIRTIO; none where no port is a driver.
    pub fn features(&self) -> Result<Option<u64>, Error> {
        // The paths come after them.
        self.paths()?;
        let said = self.process.said();
        let agreed = said.rsplit_once("features after negotiate = ").map_or("", |(_, rest)| rest);
        let digits = agreed.split(|c: char| !c.is_ascii_hexdigit()).next().unwrap_or_default();
        Ok(u64::from_str_radix(digits, 16).ok())
    }

    /// Its exit status, if it has ended: 128 and the signal's number where a signal ended it.
    pub fn ended(&mut self) -> Option<i32> {
        self.process.ended()
    }

    /// All that it has said.
    pub fn said(&self) -> String {
        self.process.said()
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Lets it end in order: rings are stopped, sockets closed and removed. Dropping kills it.
    pub fn quit(mut self) -> Result<Output, Error> {
        self.process.write("quit\n")?;
        let status = self.process.end(LIMIT)?;
        Ok(Output { status, stdout: self.process.said(), stderr: String::new() })
    }

    /// Ends it as a crash would.
    pub fn kill(self) {}

    fn expect(&mut self, line: &str, answer: &str) -> Result<(), Error> {
        let said = self.command(line)?;
        if said.contains(answer) { Ok(()) } else { Err(Error::refused(format!("testpmd's `{line}`"), said)) }
    }
}

/// What a build of testpmd says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The file that is run.
    pub program: PathBuf,
    /// Such as "DPDK 26.07.0".
    pub version: String,
    /// Whether DPDK is in the program or in libraries beside it: "static" or "shared".
    pub linkage: String,
}

/// Asks this build, or the one that is installed. It tells its version only where it starts, and ends after its help.
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

/// A named build, or the one that is installed.
fn find(named: Option<&Path>, needs: &mut Requirements) -> PathBuf {
    match named {
        Some(path) => {
            if !path.is_file() {
                needs.missing(format!("{} (testpmd: name the file that is run)", path.display()));
            }
            path.to_owned()
        }
        None => {
            chosen::file(chosen::TESTPMD, needs).unwrap_or_else(|| needs.program("dpdk-testpmd", PACKAGES))
        }
    }
}
