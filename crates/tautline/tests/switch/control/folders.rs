//! Folders in which others may write, or hold locks.
use std::fs::{self, File};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, FlockOperation, Mode, flock, mknodat};

use super::Scene;
use crate::switch_process::guest::{Guest, frame, layouts};
use crate::switch_process::{Sockets, SwitchProcess};

/// Every user who may open the folder can hold its lock. Sockets of a switch that was killed are replaced nevertheless,
/// and no switch waits long.
#[test]
fn a_folder_that_somebody_has_locked() {
    let leave_behind = |sockets: &Sockets, name: &str| drop(UnixListener::bind(sockets.path(name)).unwrap());
    let lock = |sockets: &Sockets| {
        let lock = File::open(sockets.path(".")).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        lock
    };
    // SIGTERM is heard in the middle of the start.
    let sockets = Sockets::new();
    let _lock = lock(&sockets);
    let names = ["one", "two", "three", "four"];
    names.iter().for_each(|name| leave_behind(&sockets, name));
    let ports = names.map(|name| sockets.port(name, "vhost-user", "")).concat();
    let mut switch = SwitchProcess::begin(&ports);
    switch.wait_until_signals_are_caught();
    let took = switch.terminate();
    println!("SIGTERM while a switch starts in a locked folder: it ended after {took:?}");
    assert!(took < Duration::from_secs(4), "SIGTERM was heard after {took:?}");

    // A port is added.
    let scene = Scene::new();
    let _lock = lock(&scene.sockets);
    leave_behind(&scene.sockets, "late");
    let port = format!("late=vhost-user:{}", scene.sockets.path("late").display());
    let since = Instant::now();
    let run = scene.ctl(&["add", &port]);
    let took = since.elapsed();
    println!("a port added in a locked folder: {took:?}");
    assert!(run.code == Some(0) && took < Duration::from_secs(4), "{took:?}: {run}");
    scene.bystanders.assert_undisturbed("a folder that somebody has locked");
    let mut one = Guest::running(&scene.sockets.path("one"), layouts()[0]);
    let mut late = Guest::running(&scene.sockets.path("late"), layouts()[0]);
    late.post(2);
    one.send(&frame(1, 100));
    assert_eq!(late.receive(), frame(1, 100));
    scene.end();
}

/// A link in place of a recording would make the switch write to any file that the link's maker chose; a pipe would
/// make it wait.
#[test]
fn captures_that_others_have_put_there() {
    let scene = Scene::new();
    let path = |name: &str| scene.sockets.path(name);
    fs::write(path("precious"), "precious").unwrap();
    std::os::unix::fs::symlink(path("precious"), path("link")).unwrap();
    mknodat(CWD, path("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    for (port, said) in [
        (format!("late=pcap:-,record={}", path("link").display()), "it is a symbolic link"),
        (format!("late=pcap:-,record={}", path("pipe").display()), "it is a pipe or socket"),
        (format!("late=pcap:{}", path("pipe").display()), "it is no regular file"),
    ] {
        let since = Instant::now();
        let run = scene.ctl(&["add", &port]);
        let took = since.elapsed();
        assert!(run.code != Some(0) && run.to_string().contains(said), "{port}: {run}");
        assert!(took < Duration::from_secs(4), "{port}: {took:?}");
        scene.bystanders.assert_undisturbed(said);
    }
    assert_eq!(fs::read(path("precious")).unwrap(), b"precious");
    scene.end();
}
