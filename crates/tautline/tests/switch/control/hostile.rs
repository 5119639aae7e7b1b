//! Clients of the control socket that do not hold to the rules.
use std::io::{IoSlice, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::Scene;
use crate::switch_process::guest::{Guest, frame, layouts};
use crate::switch_process::wait_for;

/// Of these clients: far more than the switch has.
const PATIENCE: Duration = Duration::from_secs(60);

fn client(scene: &Scene) -> UnixStream {
    let socket = UnixStream::connect(scene.sockets.path("control")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn said(mut socket: &UnixStream) -> String {
    let mut text = Vec::new();
    // A connection that is closed with requests unread ends with an error.
    let _ = socket.read_to_end(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn no_client_keeps_the_switch_or_a_worker_from_its_work() {
    let scene = Scene::new();
    // More in a line than a request may have.
    let mut long = client(&scene);
    let _ = long.write_all(&[b'x'; 256 << 10]);
    assert!(said(&long).contains("longer than"));
    for garbage in
        [&b"\n"[..], b"{}\n", b"\xff\xfe\n", b"{\"version\":1,\"command\":\"ports\",\"x\":1}\n", b"[[[[\n"]
    {
        let mut socket = client(&scene);
        socket.write_all(garbage).unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        let said = said(&socket);
        assert!(said.contains("\"error\"") || said.contains("\"ok\""), "{garbage:?}: {said}");
    }
    // Requests without end whose answers are not read.
    let flooding = client(&scene);
    flooding.set_nonblocking(true).unwrap();
    let (mut written, until) = (0, Instant::now() + Duration::from_secs(1));
    while Instant::now() < until {
        written += (&flooding).write(&b"{\"version\":1,\"command\":\"stats\"}\n".repeat(100)).unwrap_or(0);
    }
    println!("{written} bytes of requests taken from a client that reads nothing");
    assert!(written < 4 << 20, "they are not taken faster than they are answered");
    // Many that say nothing, and half a request.
    let mut half = client(&scene);
    half.write_all(b"{\"version\":1,").unwrap();
    let since = Instant::now();
    let silent: Vec<UnixStream> = (0..40).map(|_| client(&scene)).collect();
    assert!(said(silent.last().unwrap()).contains("connections are open"));
    scene.bystanders.assert_undisturbed("clients that do not hold to the rules");
    // Half a request is waited for, but not for ever.
    let (said, waited) = (said(&half), since.elapsed());
    println!("half a request was waited for {waited:.1?}");
    // This end has more patience than that.
    assert!(said.is_empty() && waited < PATIENCE / 2, "{said} after {waited:.1?}");
    drop((silent, flooding));
    wait_for("an answer to an ordinary client", || (scene.ctl(&["ports"]).code == Some(0)).then_some(()));
    scene.end();
}

#[test]
fn a_capture_goes_to_no_pipe() {
    let scene = Scene::new();
    let (_read, write) = rustix::pipe::pipe().unwrap();
    let socket = client(&scene);
    let request = b"{\"version\":1,\"command\":\"capture\",\"port\":\"one\",\"snaplen\":64}\n";
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [write.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    sendmsg(&socket, &[IoSlice::new(request)], &mut control, SendFlags::empty()).unwrap();
    let said = answer(&socket);
    assert!(said.contains("regular file"), "{said}");
    scene.end();
}

#[test]
fn requests_in_one_breath_wait_their_turn() {
    let scene = Scene::new();
    let (greedy, modest) = (client(&scene), client(&scene));
    // Both are known, and have been answered.
    for socket in [&greedy, &modest] {
        ask(socket, "{\"version\":1,\"command\":\"ports\"}\n");
        answer(socket);
    }
    let adds: String = (0..20)
        .map(|number| {
            let path = scene.sockets.path(&format!("late{number}"));
            let port = format!("late{number}=vhost-user:{}", path.display());
            format!("{{\"version\":1,\"command\":\"add\",\"port\":\"{port}\",\"allow\":[]}}\n")
        })
        .collect();
    // All of it is there when the switch looks.
    scene.switch.paused(|| {
        ask(&greedy, &adds);
        ask(&modest, "{\"version\":1,\"command\":\"ports\"}\n");
    });
    let seen = answer(&modest).matches("/late").count();
    assert!(seen <= 2, "{seen} ports were added before another client's turn");
    for _ in 0..20 {
        let said = answer(&greedy);
        assert!(said.contains("\"ok\""), "{said}");
    }
    scene.end();
}

fn ask(mut socket: &UnixStream, requests: &str) {
    socket.write_all(requests.as_bytes()).unwrap();
}

/// One line.
fn answer(mut socket: &UnixStream) -> String {
    let mut text = Vec::new();
    while !text.ends_with(b"\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        text.push(byte[0]);
    }
    String::from_utf8(text).unwrap()
}

#[test]
fn whoever_looks_a_thousand_times_costs_nobody_a_frame() {
    let scene = Scene::new();
    let mut one = Guest::running(&scene.sockets.path("one"), layouts()[0]);
    let mut two = Guest::running(&scene.sockets.path("two"), layouts()[0]);
    let mut socket = client(&scene);
    for number in 0..1000 {
        socket.write_all(b"{\"version\":1,\"command\":\"rings\"}\n").unwrap();
        two.post(1);
        one.send(&frame(number, 100));
        assert_eq!(two.receive(), frame(number, 100));
        one.reclaim(crate::switch_process::guest::TRANSMIT);
        let mut answer = Vec::new();
        while !answer.ends_with(b"\n") {
            let mut byte = [0; 4096];
            let read = socket.read(&mut byte).unwrap();
            answer.extend_from_slice(&byte[..read]);
        }
        assert!(answer.starts_with(b"{\"version\":1,\"ok\""), "{}", String::from_utf8_lossy(&answer));
    }
    let port = format!("late=vhost-user:{}", scene.sockets.path("late").display());
    for _ in 0..10 {
        assert_eq!(scene.ctl(&["add", &port]).code, Some(0));
        assert_eq!(scene.ctl(&["remove", "late"]).code, Some(0));
    }
    scene.bystanders.assert_undisturbed("ports that come and go");
    scene.end();
}
