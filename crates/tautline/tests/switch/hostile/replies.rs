//! Front-ends that ask and do not read their answers.
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::net::SendFlags;
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::Inflight;

use super::scene::Scene;
use crate::switch_process::guest::{Guest, plain};
use crate::switch_process::{OpenFiles, Sockets, SwitchProcess, listens, wait_for};

/// So few that a hoard of answers would use them up.
const OPEN_FILES: u32 = 256;

/// The class of CVE-2020-10726: each answer to GET_INFLIGHT_FD is a descriptor and memory, and they pile up. The
/// neighbour's front-end comes and goes meanwhile.
#[test]
fn answers_that_nobody_reads() {
    let start = |arguments: &[String]| {
        SwitchProcess::start_with(arguments, OpenFiles::Hard(OPEN_FILES), Stdio::piped())
    };
    let mut scene = Scene::with_switch(start);
    scene.attacked(plain(), None, |scene, guest| {
        let before = scene.switch.open_fds();
        let area = Inflight { size_bytes: 0, offset: 0, queue_count: 2, queue_size: 64 };
        let request = Request::GetInflightFd(area).to_message(vec![]).to_bytes();
        let (mut asked, mut most) = (0, before);
        let end = Instant::now() + Duration::from_secs(3);
        let mut neighbours = 1u32;
        while Instant::now() < end {
            // As fast as the switch reads.
            for _ in 0..1000 {
                match rustix::net::send(&guest.connection, &request, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                    Ok(sent) if sent == request.len() => asked += 1,
                    Ok(_) => break,
                    Err(errno) if errno.kind() == ErrorKind::WouldBlock => break,
                    Err(errno) => panic!("the switch has closed the connection: {errno}"),
                }
            }
            most = most.max(scene.switch.open_fds());
            if Instant::now() < end - Duration::from_secs(3) + Duration::from_millis(300) * neighbours {
                continue;
            }
            // The friend's port loses its front-end and gets another.
            scene.friend.hang_up();
            scene.friend = Guest::running(&scene.path_of("friend"), plain());
            neighbours += 1;
        }
        println!("{asked} requests; at most {most} descriptors open, {before} before; the neighbour came {neighbours} times");
        assert!(asked > 10, "only {asked} requests were taken");
        assert!(most <= before + 20, "{most} descriptors after {before}");
        scene.bystanders.assert_undisturbed("answers that nobody reads");
    });
    scene.end();
}

/// Out of descriptors for reasons of its own, the switch keeps its ports and takes front-ends later.
#[test]
fn a_port_outlives_a_lack_of_descriptors() {
    let start = |arguments: &[String]| {
        SwitchProcess::start_with(arguments, OpenFiles::Hard(OPEN_FILES), Stdio::piped())
    };
    let mut scene = Scene::with_switch(start);
    let pid = rustix::process::Pid::from_raw(scene.switch.id() as i32);
    let set = |count: u64| {
        let limit = rustix::process::Rlimit { current: Some(count), maximum: Some(OPEN_FILES.into()) };
        rustix::process::prlimit(pid, rustix::process::Resource::Nofile, limit).unwrap();
    };
    // Not one more than are open now.
    let fds = std::fs::read_dir(format!("/proc/{}/fd", scene.switch.id())).unwrap();
    let numbers = fds.map(|fd| fd.unwrap().file_name().to_str().unwrap().parse().unwrap());
    let numbers: BTreeSet<u64> = numbers.collect();
    set((0..).find(|number| !numbers.contains(number)).unwrap());
    let waiting = Guest::connect_bare(&scene.path());
    wait_for("what the switch says of it", || {
        scene.switch.logged().iter().any(|line| line.contains("Too many open files")).then_some(())
    });
    // The front-end of another port goes and comes.
    scene.friend.hang_up();
    scene.bystanders.assert_undisturbed("a lack of descriptors");
    set(OPEN_FILES.into());
    drop(waiting);
    assert!(listens(&scene.path()) && listens(&scene.path_of("friend")), "{:#?}", scene.switch.logged());
    scene.friend = Guest::running(&scene.path_of("friend"), plain());
    scene.victim_is_alone();
    scene.serves_the_next(plain());
    scene.end();
}

/// Most shells and services start programs with a soft limit of 1024, for those that use select(2).
#[test]
fn the_soft_limit_of_open_files_is_raised() {
    let sockets = Sockets::new();
    let port = sockets.port("only", "vhost-user", "");
    let switch = SwitchProcess::start_with(&port, OpenFiles::Soft(OPEN_FILES), Stdio::piped());
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", switch.id())).unwrap();
    let limits = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    println!("open files, soft and hard limit: {limits}");
    let [soft, hard] = [0, 1].map(|at| limits.split_whitespace().nth(at).unwrap());
    assert!(soft == hard && hard != OPEN_FILES.to_string(), "{limits}");
    switch.end();
}
