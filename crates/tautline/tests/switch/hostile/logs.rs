//! Log lines that a peer causes, and a log that is not read.
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use vhost_user::codec::frontend_request::FrontendRequest as Request;

use super::scene::Scene;
use super::state;
use crate::switch_process::guest::{Guest, TRANSMIT, plain};
use crate::switch_process::{OpenFiles, SwitchProcess};

/// Connects, and has the switch say something, as fast as it takes that; how often.
fn connect_as_fast_as_possible(scene: &Scene, time: Duration) -> u32 {
    let end = Instant::now() + time;
    let mut count = 0;
    while Instant::now() < end {
        drop(UnixStream::connect(scene.path()).unwrap());
        count += 1;
    }
    count
}

#[test]
fn connections_without_end_fill_no_log() {
    let mut scene = Scene::new();
    let before = scene.switch.logged().len();
    let count = connect_as_fast_as_possible(&scene, Duration::from_secs(2));
    scene.bystanders.assert_undisturbed("connections as fast as possible");
    let said = scene.switch.logged().len() - before;
    println!("{count} connections in 2 s, {said} lines");
    assert!(said <= 2 * 64 + 20, "{said} lines for {count} connections");

    // A new connection for each mistake, so that no limit of one connection holds.
    let before = scene.switch.logged().len();
    let (mut mistakes, end) = (0, Instant::now() + Duration::from_secs(2));
    while Instant::now() < end {
        let mut guest = Guest::connect(&scene.path(), plain());
        guest.share_memory();
        // A queue runs, so that the port is patient.
        guest.start_ring(TRANSMIT);
        for _ in 0..20 {
            guest.must_be_refused(Request::SetVringNum(state(TRANSMIT, 7)), vec![]);
            mistakes += 1;
        }
    }
    let said = scene.switch.logged().len() - before;
    println!("{mistakes} mistakes in 2 s, {said} lines");
    assert!(mistakes > 200 && said <= 2 * 64 + 20, "{said} lines for {mistakes} mistakes");
    scene.bystanders.assert_undisturbed("mistakes on new connections");
    scene.victim_is_alone();
    scene.serves_the_next(plain());
    scene.end();
}

/// QEMU whose `queues=` are more than the port's does this: it tries again at once, thousands of times a second.
#[test]
fn a_front_end_that_wants_more_queues() {
    let mut scene = Scene::new();
    let before = scene.switch.logged().len();
    let (mut connections, end) = (0, Instant::now() + Duration::from_secs(3));
    while Instant::now() < end {
        let mut guest = Guest::connect(&scene.path(), plain());
        guest.ask(Request::GetQueueNum, vec![]);
        connections += 1;
    }
    scene.bystanders.assert_undisturbed("a front-end that wants more queues");
    let said = scene.switch.logged().split_off(before);
    println!("{connections} connections in 3 s, {} lines", said.len());
    let why = |line: &String| {
        line.starts_with("victim: ")
            && line.contains("more queue pairs than this port's 1, start the port with queue-pairs=N")
    };
    assert!(said.iter().any(why), "{said:#?}");
    // Five at once, then after pauses that grow from 10 ms to a second; of each that it came, went, and why.
    assert!(connections <= 20 && said.len() <= 3 * connections, "{connections} connections: {said:#?}");
    scene.victim_is_alone();
    scene.serves_the_next(plain());
    scene.end();
}

/// Attacks that make the switch say more than a pipe holds.
fn be_talked_about(scene: &mut Scene) {
    connect_as_fast_as_possible(scene, Duration::from_secs(1));
    scene.bystanders.assert_undisturbed("a log that nobody reads");
    scene.victim_is_alone();
    scene.serves_the_next(plain());
}

#[test]
fn a_closed_log_ends_nothing() {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut scene =
        Scene::with_switch(|arguments| SwitchProcess::start_with(arguments, OpenFiles::Inherited, writer));
    drop(reader);
    be_talked_about(&mut scene);
    scene.bystanders.all_is_well();
    println!("SIGTERM with a closed log: the switch ended after {:?}", scene.switch.terminate());
}

#[test]
fn a_full_log_that_nobody_reads_stops_nothing() {
    let (reader, writer) = std::io::pipe().unwrap();
    // Full from the beginning.
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    while rustix::io::write(&writer, &[b'x'; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).unwrap();
    let mut scene =
        Scene::with_switch(|arguments| SwitchProcess::start_with(arguments, OpenFiles::Inherited, writer));
    be_talked_about(&mut scene);
    scene.bystanders.all_is_well();
    let took = scene.switch.terminate();
    println!("SIGTERM with a full log: the switch ended after {took:?}");
    assert!(took < Duration::from_secs(15), "{took:?}");
    drop(reader);
}
