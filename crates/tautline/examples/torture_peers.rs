//! `make torture-peers`: the cases of `tautline torture` at the back-ends of DPDK's testpmd and of Open vSwitch with
//! DPDK, kind by kind, started again where they end or fall silent. The acts of each peer are printed as a table. How a
//! peer ended is written to standard error, for the process that started it. Findings about other people's programs
//! fail nothing here.
//!
//! `torture_peers SECONDS`: so long for each kind, or until 1000 cases.

use std::path::{Path, PathBuf};
use std::time::Duration;

use measure::Failure;
use peers::testpmd::{Forward, Settings, Vdev};
use peers::{OvsDpdk, Testpmd, ovs, testpmd};
use tempfile::TempDir;
use torture::{Amount, Counts, Family, Health, Plan, Target};

const CASES: u64 = 1000;
const SECONDS: u64 = 20;
/// How long a back-end may be silent.
const PATIENCE: Duration = Duration::from_secs(3);
const PORT: &str = "victim";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(SECONDS), |text| text.parse())?;
    let dpdk = testpmd::version(None)?.version;
    let (_, ovs) = ovs::version(None)?;
    for (name, kind) in [(format!("{dpdk}, testpmd's vhost port"), Kind::Testpmd), (ovs, Kind::Ovs)] {
        let mut peer = Peer::start(kind)?;
        println!("\n{name}\n");
        println!(
            "| cases of | cases | messages | ring states | connections it closed | it ended | it fell silent |"
        );
        println!("|---|--:|--:|--:|--:|---|--:|");
        for family in Family::ALL {
            let plan = Plan {
                families: vec![family],
                amount: Amount::Cases { of_each: CASES, time: Some(Duration::from_secs(seconds)) },
                first: 0,
                seed: 1,
                check_every: 5,
                patience: PATIENCE,
            };
            peer.ends.clear();
            let all = torture::run(&mut peer, &plan, &mut |_| true)?;
            all.iter().for_each(|counts| row(counts, &peer.ends));
        }
    }
    Ok(())
}

fn row(counts: &Counts, ends: &[String]) {
    let silent = counts.findings.iter().filter(|finding| finding.health == Health::Silent).count();
    let mut kinds = ends.to_vec();
    kinds.sort_unstable();
    kinds.dedup();
    let ended = match ends.len() {
        0 => "no".to_owned(),
        1 => format!("once: {}", kinds.join(", ")),
        times => format!("{times} times: {}", kinds.join(", ")),
    };
    println!(
        "| {} | {} | {} | {} | {} | {ended} | {silent} |",
        counts.family.name(),
        counts.cases,
        counts.messages,
        counts.ring_states,
        counts.closed
    );
}

#[derive(Clone, Copy)]
enum Kind {
    Testpmd,
    Ovs,
}

enum Running {
    Testpmd { testpmd: Box<Testpmd>, _folder: TempDir },
    Ovs(Box<OvsDpdk>),
}

/// A back-end of another project.
struct Peer {
    kind: Kind,
    path: PathBuf,
    running: Option<Running>,
    /// How it ended, each time that it did.
    ends: Vec<String>,
}

impl Peer {
    fn start(kind: Kind) -> Result<Self, Failure> {
        let mut peer = Peer { kind, path: PathBuf::new(), running: None, ends: Vec::new() };
        peer.start_again()?;
        Ok(peer)
    }

    fn start_again(&mut self) -> Result<(), Failure> {
        let failed = |error: peers::Error| {
            Failure::new("starting the back-end", error, "scripts/setup.sh test fetches what it needs")
        };
        // The one before ends first: both use the same names.
        self.running = None;
        let (path, running) = match self.kind {
            Kind::Testpmd => {
                let folder = tempfile::tempdir()
                    .map_err(|error| Failure::new("making a folder", error, "see TMPDIR"))?;
                let path = folder.path().join(PORT);
                let mut testpmd = Settings::default().port(Vdev::vhost(&path)).start().map_err(failed)?;
                testpmd.set_forward(Forward::MacSwap).map_err(failed)?;
                testpmd.start_forwarding().map_err(failed)?;
                (path, Running::Testpmd { testpmd: Box::new(testpmd), _folder: folder })
            }
            Kind::Ovs => {
                let ovs = OvsDpdk::new().map_err(failed)?;
                (ovs.add_listening_port(PORT).map_err(failed)?, Running::Ovs(Box::new(ovs)))
            }
        };
        (self.path, self.running) = (path, Some(running));
        Ok(())
    }

    /// How it has ended, if it has, and what it said at last.
    fn ended(&mut self) -> Option<(i32, String)> {
        match self.running.as_mut()? {
            Running::Testpmd { testpmd, .. } => testpmd.ended().map(|status| (status, testpmd.said())),
            Running::Ovs(ovs) => ovs.ended().map(|status| (status, ovs.said())),
        }
    }
}

impl Target for Peer {
    fn path(&self) -> &Path {
        &self.path
    }

    fn restart(&mut self) -> Result<bool, Failure> {
        if let Some((status, said)) = self.ended() {
            let last: Vec<&str> = said.lines().rev().take(3).collect();
            eprintln!("it ended with {status}; its last lines: {last:#?}");
            self.ends.push(match status - 128 {
                7 => "SIGBUS".to_owned(),
                11 => "SIGSEGV".to_owned(),
                6 => "SIGABRT".to_owned(),
                _ => format!("status {status}"),
            });
        }
        self.start_again()?;
        Ok(true)
    }
}
