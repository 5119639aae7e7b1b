//! Open vSwitch's dummy datapath: frames go in by its control socket and come out in capture files.
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use flow::Flow;
use peers::OvsDummy;

use super::{flows, hex};

/// The type of frames that end a burst: each port sends them.
const MARK: [u8; 2] = [0x88, 0xb6];
const LIMIT: Duration = Duration::from_secs(60);

pub struct Peer {
    ovs: OvsDummy,
    /// Each port's file, and how far it has been read.
    files: Vec<(PathBuf, u64)>,
    marks: u64,
}

impl Peer {
    pub fn start(ports: u16) -> Self {
        let peer = Self::without_groups(ports);
        flows::GROUPS.iter().for_each(|group| peer.ofctl("add-group", group));
        peer
    }

    pub fn without_groups(ports: u16) -> Self {
        let ovs = OvsDummy::new(ports).unwrap();
        let files = (1..=ports).map(|port| (ovs.sent(port), 24)).collect(); // behind the file's header
        Self { ovs, files, marks: 0 }
    }

    pub fn ofctl(&self, command: &str, word: &str) {
        self.ovs.ofctl(&[command], &[word]).unwrap();
    }

    /// Stops the switch's clock, for good.
    pub fn stop_time(&self) {
        self.ovs.ask("time/stop", &[]).unwrap();
    }

    /// Moves a stopped clock on.
    pub fn move_time(&self, by_ms: u64) {
        if by_ms > 0 {
            self.ovs.ask("time/warp", &[&by_ms.to_string()]).unwrap();
        }
    }

    /// Puts these flows in place of all others. Their counters begin at zero.
    pub fn set_flows(&self, flows: &[String]) {
        // A flow that is added again would go on counting (OpenFlow 1.5 §6.4).
        self.ovs.ofctl(&["del-flows"], &[]).unwrap();
        let mark = "priority=65535,dl_type=0x88b6 actions=in_port,all";
        let flows = flows.join("\n");
        self.ovs
            .replace_flows(&format!("{flows}\n{mark}\n"))
            .unwrap_or_else(|error| panic!("{error}\n{flows}"));
    }

    /// What each port sends when these frames come in by this one.
    pub fn send(&mut self, input: u16, frames: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
        self.marks += 1;
        let mut mark = vec![2; 12];
        mark.extend(MARK);
        mark.extend(self.marks.to_be_bytes());
        mark.resize(60, 0);
        let mut words = vec![format!("p{input}")];
        words.extend(frames.iter().map(|frame| hex(frame)));
        words.push(hex(&mark));
        self.ovs.ask("netdev-dummy/receive", &words.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        let said = || format!("{}\nalive: {:?}", self.ovs.said(), self.ovs.ask("version", &[]));
        self.files.iter_mut().map(|(file, at)| until(file, at, &mark, &said)).collect()
    }

    /// Each flow with its packets and bytes.
    pub fn counters(&self) -> Vec<(String, u64, u64)> {
        self.ovs.ask("revalidator/purge", &[]).unwrap();
        let text = self.ovs.ofctl(&["dump-flows"], &[]).unwrap();
        let lines = text.lines().filter(|line| line.contains("actions="));
        let number = |line: &str, name: &str| -> u64 {
            let rest = line.split_once(name).unwrap().1;
            rest.split(',').next().unwrap().parse().unwrap()
        };
        lines
            .map(|line| {
                let flow = Flow::parse(line).unwrap().to_string();
                (flow, number(line, "n_packets="), number(line, "n_bytes="))
            })
            .collect()
    }

    /// The counts of all tables, as text.
    pub fn dump_tables(&self) -> String {
        self.ovs.ask("revalidator/purge", &[]).unwrap();
        self.ovs.ofctl(&["dump-tables"], &[]).unwrap()
    }

    pub fn trace(&self, input: u16, frame: &str) -> String {
        self.ovs.ask("ofproto/trace", &["ovs0", &format!("in_port={input}"), frame]).unwrap()
    }
}

/// Frames of a capture file up to a mark.
fn until(file: &PathBuf, at: &mut u64, mark: &[u8], said: &dyn Fn() -> String) -> Vec<Vec<u8>> {
    let deadline = Instant::now() + LIMIT;
    let mut frames = Vec::new();
    loop {
        let mut bytes = Vec::new();
        let mut file = File::open(file).unwrap();
        file.seek(SeekFrom::Start(*at)).unwrap();
        file.read_to_end(&mut bytes).unwrap();
        let mut rest = bytes.as_slice();
        while let Some((header, behind)) = rest.split_at_checked(16) {
            let length = u32::from_ne_bytes(header[8..12].try_into().unwrap()) as usize;
            let Some((frame, behind)) = behind.split_at_checked(length) else { break };
            *at += 16 + length as u64;
            rest = behind;
            if frame == mark {
                return frames;
            }
            frames.push(frame.to_vec());
        }
        assert!(Instant::now() < deadline, "Open vSwitch has not sent the mark\n{}", said());
        std::thread::sleep(Duration::from_millis(1));
    }
}
