//! What Prometheus reads, and clients that read it slowly or never.
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::{Scene, wait_for};
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
    // Half a request each, and more of them than there is room for: the first are waited for, the others are not.
    let since = Instant::now();
    let mut slow: Vec<TcpStream> = (0..40).map(|_| client(address)).collect();
    for socket in &mut slow {
        let _ = socket.write_all(b"GET /metrics HT");
    }
    let ended = wait_for("the end of those that there is no room for", || {
        let ended = slow.iter().filter(|socket| has_ended(socket)).count();
        (ended >= slow.len() - ROOM).then_some(ended)
    });
    // A machine that took longer than their time to look tells nothing of who was waited for.
    if since.elapsed() < Duration::from_secs(4) {
        assert_eq!((ended, has_ended(&slow[0])), (slow.len() - ROOM, false));
    } else {
        println!("{ended} ended after {:.1?}", since.elapsed());
    }
    // Answers that nobody reads.
    let unread = client(address);
    (&unread).write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    scene.bystanders.assert_undisturbed("slow readers of metrics");
    // Slow ones have had their time, and one more takes a place of theirs.
    wait_for("an answer beside slow clients", || {
        let mut socket = client(address);
        socket.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").ok()?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).ok()?;
        answer.starts_with("HTTP/1.1 200").then_some(())
    });
    drop((slow, unread));
    scene.end();
}
