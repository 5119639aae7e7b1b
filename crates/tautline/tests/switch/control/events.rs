//! Programs that use the crate `control`: they add ports, follow events, and say which ports there are to be.
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use control::{Client, ClientError, Event, EventKind, Events, OptionValue, PortDescription};

use super::Scene;
use crate::switch_process::guest::{Guest, frame, layouts};

#[allow(dead_code, reason = "it is a program of its own")]
#[path = "../../../../control/examples/follow_events.rs"]
mod follow_events;

/// For what a switch does at once.
const PATIENCE: Duration = Duration::from_secs(60);

fn vhost_user(scene: &Scene, name: &str) -> PortDescription {
    let target = scene.sockets.path(name).display().to_string();
    PortDescription { kind: "vhost-user".to_owned(), target, ..PortDescription::default() }
}

/// Lines of a program that runs in a thread.
struct Lines(Sender<String>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let _ = self.0.send(String::from_utf8_lossy(bytes).into_owned());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The next line of that port: neighbours connect meanwhile.
fn line(lines: &Receiver<String>, port: &str) -> String {
    loop {
        let mut line = String::new();
        while !line.ends_with('\n') {
            line += &lines.recv_timeout(PATIENCE).unwrap();
        }
        if line.starts_with(port) {
            return line.trim_end().to_owned();
        }
    }
}

/// The next event that is not the neighbours'.
fn event(events: &mut Events) -> (EventKind, String) {
    loop {
        let Event { event, port } = events.next(Some(PATIENCE)).unwrap();
        if !["a", "b"].contains(&port.as_str()) {
            return (event, port);
        }
    }
}

#[test]
fn the_example_adds_a_port_and_follows_events() {
    let example = include_str!("../../../../control/examples/follow_events.rs");
    assert!(example.lines().count() < 60, "an example is short");
    let scene = Scene::new();
    let (socket, port) = (scene.sockets.path("control"), vhost_user(&scene, "three"));
    let (said, lines) = channel();
    let example = std::thread::spawn(move || {
        follow_events::follow(&socket, "three", port, Lines(said)).map_err(|error| error.to_string())
    });
    assert_eq!(line(&lines, "three"), "three: added");
    let three = Guest::running(&scene.sockets.path("three"), layouts()[0]);
    assert_eq!(line(&lines, "three"), "three: connected");
    drop(three);
    assert_eq!(line(&lines, "three"), "three: disconnected");
    assert_eq!(scene.ctl(&["remove", "three"]).code, Some(0));
    assert_eq!(line(&lines, "three"), "three: removed");
    assert_eq!(example.join().unwrap(), Ok(()));
    scene.end();
}

#[test]
fn an_apply_adds_what_is_missing_removes_what_is_not_wanted_and_keeps_the_same() {
    let scene = Scene::new();
    let mut client = Client::connect(&scene.sockets.path("control")).unwrap();
    let mut events = Client::connect(&scene.sockets.path("control")).unwrap().subscribe().unwrap();
    let mut one = Guest::running(&scene.sockets.path("one"), layouts()[0]);
    assert_eq!(event(&mut events), (EventKind::Connected, "one".to_owned()));
    let wanted = |names: &[&str]| -> BTreeMap<String, PortDescription> {
        names.iter().map(|name| ((*name).to_owned(), vhost_user(&scene, name))).collect()
    };
    let changes = |client: &mut Client, wanted| -> Vec<String> {
        client.apply(wanted).unwrap().changes.iter().map(ToString::to_string).collect()
    };
    let mut ports = wanted(&["a", "b", "one", "three"]);
    assert_eq!(changes(&mut client, ports.clone()), ["two: removed", "three: added"]);
    for (kind, port) in [(EventKind::Removed, "two"), (EventKind::Added, "three")] {
        assert_eq!(event(&mut events), (kind, port.to_owned()));
    }
    assert_eq!(changes(&mut client, ports.clone()), Vec::<String>::new());
    // A limit is changed in place: the front-end of `one` stays connected.
    ports.get_mut("one").unwrap().allow = vec!["52:54:00:00:00:02".to_owned()];
    ports.get_mut("three").unwrap().options.insert("packed".to_owned(), OptionValue::Switch(false));
    let said = ["three: removed", "one: given other limits", "three: added"];
    assert_eq!(changes(&mut client, ports.clone()), said);
    let mut three = Guest::running(&scene.sockets.path("three"), layouts()[0]);
    three.post(1);
    one.send(&frame(1, 100));
    assert_eq!(three.receive(), frame(1, 100));
    // A wire's end stays, and the answer says why.
    let refused = changes(&mut client, wanted(&["one", "three"]));
    assert!(
        refused.iter().any(|line| line.contains("a: not removed") && line.contains("end of a wire")),
        "{refused:?}"
    );
    assert_eq!(changes(&mut client, ports.clone()), said);
    // Wires are as wanted, where they are said; then their ends can go.
    let wired = |client: &mut Client, ports: &BTreeMap<_, _>, wires: &[(&str, &str)]| {
        let wires = wires.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
        client
            .apply_with_wires(ports.clone(), wires)
            .map(|applied| applied.changes.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let both = [("b", "a"), ("three", "one")];
    assert_eq!(wired(&mut client, &ports, &both).unwrap(), ["one: wired to three"]);
    assert_eq!(wired(&mut client, &ports, &both).unwrap(), Vec::<String>::new());
    let error = wired(&mut client, &ports, &[("one", "two")]).unwrap_err().to_string();
    assert!(error.contains("there is no port two"), "{error}");
    let without_three = BTreeMap::from_iter(ports.clone().into_iter().filter(|(name, _)| name != "three"));
    let said = ["one: unwired from three", "three: removed"];
    assert_eq!(wired(&mut client, &without_three, &both[..1]).unwrap(), said);
    assert_eq!(wired(&mut client, &ports, &both[..1]).unwrap(), ["three: added"]);
    // What is wrong changes nothing.
    ports.get_mut("three").unwrap().kind = "teleport".to_owned();
    ports.remove("one");
    let error = client.apply(ports).unwrap_err().to_string();
    assert!(error.contains("port three: there is no port of kind 'teleport'"), "{error}");
    assert!(UnixStream::connect(scene.sockets.path("three")).is_ok());
    scene.end();
}

/// The switch's memory and its other clients are safe from a program that subscribes and does not read.
#[test]
fn a_subscriber_that_does_not_read_loses_its_subscription_and_is_told() {
    let scene = Scene::new();
    let control = scene.sockets.path("control");
    let mut slow = Client::connect(&control).unwrap().subscribe().unwrap();
    let mut client = Client::connect(&control).unwrap();
    // What the socket holds, and the switch's 64 KiB, are filled in some thousand events.
    for _ in 0..1500 {
        client.add("three", vhost_user(&scene, "three")).unwrap();
        client.ask(control::Request::Remove { port: "three".to_owned() }).unwrap();
    }
    let mut read = 0;
    let end = loop {
        match slow.next(Some(PATIENCE)) {
            Ok(_) => read += 1,
            Err(end) => break end,
        }
    };
    println!("{read} events read before the end");
    assert!(matches!(&end, ClientError::Refused(why) if why.contains("64 KiB of events")), "{end}");
    scene.end();
}
