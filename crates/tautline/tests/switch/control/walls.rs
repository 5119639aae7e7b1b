//! What the running switch has given up, as the kernel tells it.
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::process::Command;

use peers::requirements::root_required;
use rustix::process::Uid;

use super::{Scene, ctl};
use crate::common::{Run, tautline};
use crate::switch_process::guest::{Guest, frame, layouts};
use crate::switch_process::{Sockets, passed, wait_for};

/// A field of a thread's status.
fn field(status: &str, name: &str) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_else(|| panic!("no {name} in {status}")).trim().to_owned()
}

/// The status of each thread, by its name.
fn threads(process: u32) -> Vec<(String, String)> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    let statuses = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    statuses.map(|status| (field(&status, "Name"), status)).collect()
}

#[test]
fn a_worker_keeps_only_what_it_needs_and_ports_can_still_be_added() {
    let scene = Scene::new();
    let threads = threads(scene.switch.id());
    let workers: Vec<_> = threads.iter().filter(|(name, _)| name.starts_with("worker-")).collect();
    assert!(!workers.is_empty(), "{threads:?}");
    for (name, status) in workers {
        let of = |field_name| field(status, field_name);
        assert_eq!((of("Seccomp").as_str(), of("NoNewPrivs").as_str()), ("2", "1"), "{name}: {status}");
        for set in ["CapEff", "CapPrm", "CapInh"] {
            assert_eq!(u64::from_str_radix(&of(set), 16), Ok(0), "{name} has capabilities: {status}");
        }
    }
    // Threads that write what the switch says, and the others.
    for (name, status) in &threads {
        assert_eq!(field(status, "NoNewPrivs"), "1", "{name}: {status}");
        if ["log", "output"].contains(&name.as_str()) {
            assert_eq!(u64::from_str_radix(&field(status, "CapEff"), 16), Ok(0), "{name}: {status}");
        }
    }
    let (_, control) = threads.iter().find(|(name, _)| name == "tautline").unwrap();
    assert_eq!(field(control, "NoNewPrivs"), "1", "{control}");
    // SETUID, SETGID, SYS_MODULE, SYS_RAWIO, SYS_PTRACE and SYS_ADMIN are of use to no port.
    let kept = u64::from_str_radix(&field(control, "CapEff"), 16).unwrap();
    let of_no_use = [6, 7, 16, 17, 19, 21].iter().fold(0u64, |bits, bit| bits | 1 << bit);
    assert_eq!(kept & of_no_use, 0, "{kept:x}");
    // The control thread has what ports take that come later.
    let added = format!("late=vhost-user:{}", scene.sockets.path("late").display());
    assert_eq!(scene.ctl(&["add", &added]).code, Some(0));
    let mut one = Guest::running(&scene.sockets.path("one"), layouts()[0]);
    let mut late = Guest::running(&scene.sockets.path("late"), layouts()[1]);
    late.post(2);
    one.send(&frame(1, 100));
    assert_eq!(late.receive(), frame(1, 100));
    scene.end();
}

/// The worker may ask to be woken at that time.
#[test]
fn a_confined_worker_sleeps_until_the_next_frame_of_a_recording_is_due() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("two.pcap");
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    // Two frames, an hour apart.
    let mut recording = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1]);
    for seconds in [0, 3600] {
        recording.extend([words(&[seconds, 0, 60, 60]), frame(1, 60)].concat());
    }
    fs::write(&file, recording).unwrap();
    let scene = Scene::with(&["--port".to_owned(), format!("recording=pcap:{}", file.display())]);
    let asleep_ns = || {
        let stats = scene.json(&["stats"]);
        stats["workers"].as_array().unwrap().iter().map(|one| one["asleep_ns"].as_u64().unwrap()).sum::<u64>()
    };
    wait_for("the first frame", || (passed(&scene.json(&["stats"]), "recording", true) == 1).then_some(()));
    let before = asleep_ns();
    wait_for("a worker's sleep", || (asleep_ns() > before).then_some(()));
    scene.end();
}

/// Whose process has no number here: the kernel says 0.
#[test]
fn who_comes_from_outside_of_the_switchs_namespace_of_processes_is_served() {
    let sockets = Sockets::new();
    let control = sockets.path("control");
    let mut switch = Command::new("unshare");
    switch.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child"]);
    switch.arg(tautline()).arg("switch").args(sockets.port("one", "vhost-user", ""));
    switch.arg("--control").arg(&control);
    let mut switch = Run::of(&mut switch).spawn();
    wait_for("the control socket", || control.exists().then_some(()));
    let said = ctl(&control, &["ports"]);
    switch.kill();
    assert_eq!(said.code, Some(0), "{said}");
    println!("{}", switch.finish());
}

/// Calls a function as a user without rights: Linux gives each thread its own user.
fn as_nobody<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::spawn(move || {
        let nobody = Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        what()
    });
    thread.join().unwrap()
}

#[test]
fn the_control_socket_is_its_users_alone() {
    let scene = Scene::new();
    let path = scene.sockets.path("control");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    if root_required() {
        // Although the socket's mode permits it.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
        let said = as_nobody(move || {
            let mut socket = UnixStream::connect(path).unwrap();
            let _ = socket.write_all(b"{\"version\":1,\"command\":\"ports\"}\n");
            let mut said = String::new();
            let _ = socket.read_to_string(&mut said);
            said
        });
        assert!(said.contains("only the user who runs the switch, and root, may control it"), "{said}");
        assert!(!said.contains("\"ok\""), "{said}");
        assert_eq!(scene.ctl(&["ports"]).code, Some(0));
    }
    let path = scene.sockets.path("control");
    scene.end();
    assert!(!path.exists());
}
