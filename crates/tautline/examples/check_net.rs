//! `make check-net`: the agent's TCP_STREAM beside iperf3, and its UDP_RR beside sockperf, on one veth path, in
//! alternation. Rates of a live machine, hence no test; what is read of their output is one.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use environment::network::{End, FAR_ADDRESS, Layer, Namespace, Path};
use environment::{Agent, Running};
use linux::Child;
use measure::statistics::median;
use workload::network::{Class, Flow, Side};
use workload::protocol::{Reply, Request};

const LIMIT: Duration = Duration::from_secs(30);
const SECONDS: u64 = 1;
const TURNS: usize = 15;
/// The share by which both may differ.
const TOLERANCE: f64 = 0.15;
/// The bytes of a TCP message, the same in both programs, and of a UDP message: sockperf's smallest that holds the
/// number of ours.
const STREAM_BYTES: usize = 65_000;
const REQUEST_BYTES: usize = 64;

fn main() -> ExitCode {
    let binary = PathBuf::from(std::env::args().nth(1).unwrap_or_else(beside));
    let agent = Agent { binary, arguments: vec!["agent".into()], files: vec![] };
    let path = Path::build(&[Layer::Veth], &agent).unwrap_or_else(|failure| panic!("{failure}"));
    let mut ends = Ends {
        near: greeted(path.start(End::Near, &agent).unwrap_or_else(|failure| panic!("{failure}"))),
        far: greeted(path.start(End::Far, &agent).unwrap_or_else(|failure| panic!("{failure}"))),
    };
    let rate = alternate(|| ends.flow(Class::TcpStream, STREAM_BYTES).0 * 8.0 / 1e6, || iperf3(&path));
    let latency = alternate(|| ends.flow(Class::UdpRr, REQUEST_BYTES).1 / 1e3, || sockperf(&path));
    let both = [
        judge("TCP_STREAM, Mb/s", "iperf3", rate),
        judge("UDP_RR, median round trip, µs", "sockperf", latency),
    ];
    if both == [true, true] { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The program of the same build.
fn beside() -> String {
    let own = std::env::current_exe().expect("the own program has a path");
    own.ancestors().nth(2).expect("in examples").join("tautline").to_string_lossy().into_owned()
}

fn alternate(mut ours: impl FnMut() -> f64, mut theirs: impl FnMut() -> f64) -> (Vec<f64>, Vec<f64>) {
    (0..TURNS)
        .map(|turn| {
            if turn % 2 == 0 {
                let one = ours();
                (one, theirs())
            } else {
                let other = theirs();
                (ours(), other)
            }
        })
        .unzip()
}

fn judge(what: &str, other: &str, (ours, theirs): (Vec<f64>, Vec<f64>)) -> bool {
    let ratios: Vec<f64> = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
    let ratio = median(&ratios).expect("several turns");
    let within = (ratio - 1.0).abs() <= TOLERANCE;
    let list =
        |values: &[f64]| values.iter().map(|value| format!("{value:.1}")).collect::<Vec<_>>().join(" ");
    println!("{what}\n  tautline  {}\n  {other:<9} {}", list(&ours), list(&theirs));
    println!("  median of the ratios {ratio:.3}: {}", if within { "within 15 %" } else { "BEYOND 15 %" });
    within
}

struct Ends {
    near: Running,
    far: Running,
}

fn greeted(mut end: Running) -> Running {
    let line = end.channel().receive(LIMIT).expect("an agent greets");
    Reply::parse(&line).and_then(Reply::greeting).expect("of this version");
    end
}

fn ask(end: &mut Running, request: &Request) -> Reply {
    end.channel().send(request.to_line().trim_end(), LIMIT).expect("the agent listens");
    Reply::parse(&end.channel().receive(LIMIT).expect("the agent answers")).expect("with a reply")
}

impl Ends {
    /// Bytes a second that arrived, and the median round trip in ns.
    fn flow(&mut self, class: Class, message_bytes: usize) -> (f64, f64) {
        let cpus = linux::cpus::usable().expect("some CPU");
        let flow = Flow {
            class,
            sender: Side::Near,
            message_bytes,
            connections: 1,
            per_second: None,
            duration: Duration::from_secs(SECONDS),
            verify: false,
        };
        let address = FAR_ADDRESS.into();
        let open = Request::OpenFarEnd { flow: flow.clone(), address, cpus: cpus.clone(), beside: false };
        let Reply::FarEnd { port } = ask(&mut self.far, &open) else { panic!("no far end") };
        let run = Request::RunNearEnd { flow, peer: SocketAddr::new(address, port), cpus, beside: None };
        let Reply::NearEnd(near) = ask(&mut self.near, &run) else { panic!("no flow") };
        let Reply::FarEndClosed(far) = ask(&mut self.far, &Request::CloseFarEnd) else { panic!("no counts") };
        let median_ns = near.latency.map_or(f64::NAN, |latency| latency.median_ns() as f64);
        (far.received_per_second(), median_ns)
    }
}

/// A server of theirs at the far end; it ends with the value.
fn server(path: &Path, words: &[&str]) -> Child {
    let mut command = within(&path.far, words);
    let child = Child::spawn(&mut command).expect("it is installed (scripts/setup.sh test)");
    std::thread::sleep(Duration::from_millis(500));
    child
}

fn within(namespace: &Namespace, words: &[&str]) -> Command {
    let mut command = namespace.command(words[0]).expect("nsenter is there");
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn client(path: &Path, words: &[&str]) -> String {
    let output = within(&path.near, words).stdout(Stdio::piped()).output().expect("it runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Mb/s that arrived.
fn iperf3(path: &Path) -> f64 {
    let _server = server(path, &["iperf3", "-s", "-1"]);
    let (address, seconds, bytes) = (FAR_ADDRESS.to_string(), SECONDS.to_string(), STREAM_BYTES.to_string());
    let text = client(path, &["iperf3", "-J", "-N", "-c", &address, "-t", &seconds, "-l", &bytes]);
    received_mbps(&text).unwrap_or_else(|| panic!("iperf3 said {text}"))
}

/// The median round trip, µs. sockperf prints half of it.
fn sockperf(path: &Path) -> f64 {
    let address = FAR_ADDRESS.to_string();
    let _server = server(path, &["sockperf", "server", "-i", &address]);
    let (seconds, bytes) = (SECONDS.to_string(), REQUEST_BYTES.to_string());
    let words = ["sockperf", "ping-pong", "-i", &address, "-t", &seconds, "-m", &bytes, "--full-rtt"];
    let text = client(path, &words);
    median_us(&text).unwrap_or_else(|| panic!("sockperf said {text}"))
}

fn received_mbps(json: &str) -> Option<f64> {
    let value: serde_json::Value = serde_json::from_str(json).ok()?;
    Some(value.pointer("/end/sum_received/bits_per_second")?.as_f64()? / 1e6)
}

fn median_us(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.contains("percentile 50.000"))?;
    line.rsplit('=').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_iperf3_received_is_read_and_not_what_it_sent() {
        let text =
            r#"{"end": {"sum_sent": {"bits_per_second": 9e9}, "sum_received": {"bits_per_second": 8.5e9}}}"#;
        assert_eq!(received_mbps(text), Some(8500.0));
        assert_eq!(received_mbps("iperf3: error - unable to connect"), None);
    }

    #[test]
    fn the_median_that_sockperf_prints_is_read() {
        let text = "sockperf: ====> avg-rtt=13.254 (std-dev=5.018)\nsockperf: # dropped messages = 0\n\
                    sockperf: Total 3000 observations; each percentile contains 30.00 observations\n\
                    sockperf: ---> <MAX> observation =  109.245\nsockperf: ---> percentile 99.000 =   30.112\n\
                    sockperf: ---> percentile 50.000 =   12.345\nsockperf: ---> <MIN> observation =    9.000\n";
        assert_eq!(median_us(text), Some(12.345));
        assert_eq!(median_us("sockperf: ERROR"), None);
    }

    #[test]
    fn fifteen_per_cent_is_the_most() {
        let verdict = |ours: f64| judge("x", "y", (vec![ours; 3], vec![100.0; 3]));
        assert!(verdict(86.0) && verdict(114.0) && !verdict(84.0) && !verdict(116.0));
    }
}
