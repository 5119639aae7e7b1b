//! What the running switch has given up, as the kernel tells it.
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;

use peers::requirements::is_root;
use rustix::process::Uid;

use crate::Scene;
use crate::switch_process::guest::{Guest, frame, layouts};

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

/// Does something as the user who has nothing: Linux gives each thread its own user.
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
    if is_root() {
        // Though somebody has opened the way to it.
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
    } else {
        println!("no other user connects: only root can try that");
    }
    let path = scene.sockets.path("control");
    scene.end();
    assert!(!path.exists());
}
