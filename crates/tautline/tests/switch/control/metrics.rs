//! What Prometheus reads, and clients that read it slowly or never.
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::{Scene, wait_for};
use crate::switch_process::SOON;
use crate::switch_process::guest::{Guest, TRANSMIT, frame, layouts};

/// A port that was free a moment ago.
fn address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn client(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket
}

/// Clients that the switch serves at once.
const ROOM: usize = 16;

/// Whether the switch has closed it. It has nothing to say there.
fn has_ended(mut socket: &TcpStream) -> bool {
    socket.set_nonblocking(true).unwrap();
    !matches!(socket.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

/// Status line with headers, and body.
fn ask(address: SocketAddr, request: &str) -> (String, String) {
    let mut socket = client(address);
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    (head.to_owned(), body.to_owned())
}

fn scrape(address: SocketAddr) -> String {
    let (head, body) = ask(address, "GET /metrics HTTP/1.1\r\nHost: switch\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    body
}

fn value(text: &str, sample: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(sample)?.trim().parse().ok())
}

#[test]
fn counters_are_served_and_slow_clients_keep_nobody_waiting() {
    let address = address();
    let scene = Scene::with(&["--metrics".to_owned(), address.to_string()]);
    let mut one = Guest::running(&scene.sockets.path("one"), layouts()[0]);
    let mut two = Guest::running(&scene.sockets.path("two"), layouts()[1]);
    two.post(5);
    one.send(&frame(1, 100));
    assert_eq!(two.receive(), frame(1, 100));
    wait_for("the frame among the counters", || {
        let text = scrape(address);
        let to_two = r#"tautline_switch_port_frames_total{port="two",pair="0",direction="to_guest"}"#;
        (value(&text, to_two) >= Some(1.0)).then_some(())
    });
    // More than there are buffers for.
    let text = wait_for("a drop among the counters", || {
        one.send(&frame(1, 100));
        one.reclaim(TRANSMIT);
        let text = scrape(address);
        let reason = r#"port="two",pair="0",direction="to_guest",reason="receiver full"}"#;
        text.contains(reason).then_some(text)
    });
    let (mut samples, mut families) = (0, 0);
    for line in text.lines() {
        if line.starts_with('#') {
            families += usize::from(line.starts_with("# TYPE tautline_switch_"));
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line:?}"));
        assert!(name.starts_with("tautline_switch_") && value.parse::<f64>().is_ok(), "{line:?}");
        samples += 1;
    }
    println!("{samples} samples of {families} metrics");
    assert!(families > 15 && samples > families, "{text}");
    assert_eq!(text.lines().last(), Some("# EOF"));
    let dashboard = include_str!("../../../../../docs/grafana-dashboard.json");
    let drawn: Vec<&str> = dashboard.split(|c: char| !(c.is_ascii_lowercase() || c == '_')).collect();
    for name in drawn.into_iter().filter(|word| word.starts_with("tautline_switch_")) {
        let name = name.trim_end_matches("_total");
        assert!(text.contains(&format!("# TYPE {name} ")), "{name} of the dashboard: {text}");
    }
    let sum: f64 = ["busy", "polling", "asleep"]
        .iter()
        .map(|state| {
            let sample =
                format!(r#"tautline_switch_worker_time_seconds_total{{worker="0",state="{state}"}}"#);
            value(&text, &sample).unwrap_or_else(|| panic!("{sample}: {text}"))
        })
        .sum();
    assert!(sum > 0.0, "{text}");

    assert!(ask(address, "GET / HTTP/1.1\r\n\r\n").0.starts_with("HTTP/1.1 404"));
    assert!(ask(address, "POST /metrics HTTP/1.1\r\n\r\n").0.starts_with("HTTP/1.1 405"));
    assert!(ask(address, "\0\0\0\r\n\r\n").0.starts_with("HTTP/1.1 400"));
    assert!(ask(address, &"x".repeat(64 << 10)).0.starts_with("HTTP/1.1 400"));
    // Half a request each, and more of them than there is room for: the oldest are not waited for.
    let mut slow: Vec<TcpStream> = (0..40).map(|_| client(address)).collect();
    for socket in &mut slow {
        let _ = socket.write_all(b"GET /metrics HT");
    }
    let oldest = slow.len() - ROOM;
    wait_for("the end of those that there is no room for", || {
        slow[..oldest].iter().all(has_ended).then_some(())
    });
    assert_eq!(slow[oldest..].iter().filter(|socket| has_ended(socket)).count(), 0);
    // One that asks is answered at once, however many others say nothing.
    assert!(scrape(address).contains("# EOF"));
    // Answers that are not read.
    let unread = client(address);
    (&unread).write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    scene.bystanders.assert_undisturbed("slow readers of metrics");
    assert!(scrape(address).contains("# EOF"));
    drop((slow, unread));
    scene.end();
}

/// Time that the control thread has used.
fn control_time(scene: &Scene) -> Duration {
    let pid = scene.switch.id();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(10 * ticks)
}

/// Clients that cannot be accepted stay in the queues of their sockets, which are readable all the time.
#[test]
fn a_lack_of_descriptors_costs_no_processor_time_and_ends_with_its_cause() {
    let address = address();
    let scene = Scene::with(&["--metrics".to_owned(), address.to_string()]);
    let pid = Pid::from_raw(scene.switch.id() as i32);
    let limit_to = |count: u64| {
        let limit = getrlimit(Resource::Nofile);
        let limit = Rlimit { current: Some(count.min(limit.maximum.unwrap_or(u64::MAX))), ..limit };
        prlimit(pid, Resource::Nofile, limit).unwrap();
    };
    limit_to(scene.switch.open_fds() as u64);
    let mut control = UnixStream::connect(scene.sockets.path("control")).unwrap();
    control.write_all(b"{\"version\":1,\"command\":\"ports\"}\n").unwrap();
    let mut metrics = client(address);
    metrics.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let before = control_time(&scene);
    std::thread::sleep(Duration::from_secs(3));
    let used = control_time(&scene) - before;
    println!("{used:.1?} of 3 s used without descriptors");
    assert!(used < Duration::from_millis(500), "{used:.1?} of 3 s");
    // The control thread serves the connected clients.
    scene.switch.snapshot();
    scene.bystanders.assert_undisturbed("clients without a descriptor");
    limit_to(u64::MAX);
    let mut answers = [String::new(), String::new()];
    control.set_read_timeout(Some(SOON)).unwrap();
    BufReader::new(control).read_line(&mut answers[0]).unwrap();
    metrics.read_to_string(&mut answers[1]).unwrap();
    assert!(answers[0].contains("\"ok\"") && answers[1].contains("# EOF"), "{answers:?}");
    scene.end();
}
