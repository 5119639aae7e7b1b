//! A front-end that keeps the control thread busy with messages and commands that each cost it much. It has its turns;
//! between them the control socket answers, and other front-ends connect.
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::{Inflight, VringAddress, VringFd};
use vhost_user::session::frontend::Answer;
use virtio::NetFeatures;

use super::scene::Scene;
use super::state;
use crate::switch_process::guest::{DATA, Guest, event_fd, plain, ring_addresses, ring_at};

/// As many as a port may have.
const PAIRS: u8 = 127;
const CONTROL: u8 = 2 * PAIRS;
/// The place of the control queue; all others share that of queue 0.
const CONTROL_PLACE: u8 = 15;

/// What another client of the control thread may have to wait, and a front-end from its connection until its queues
/// run. One message costs most where 254 rings have to be set up anew, and the program of a test is not optimized.
const ANSWER: Duration = Duration::from_secs(1);
const CONNECT: Duration = Duration::from_secs(2);

/// A front-end with all queues that a port may have, in memory that they share.
fn with_all_queues(scene: &Scene, size: u16, before: impl FnOnce(&mut Guest)) -> Guest {
    let wanted = plain().union(NetFeatures::MQ).union(NetFeatures::CTRL_VQ);
    let mut guest = Guest::connect(&scene.path(), wanted);
    guest.size = size;
    guest.share_memory();
    before(&mut guest);
    for index in 0..CONTROL {
        start(&mut guest, index, 0);
    }
    guest
}

/// Starts a ring whose parts lie at this place; its kick.
fn start(guest: &mut Guest, index: u8, place: u8) -> OwnedFd {
    let kick = event_fd();
    let fd = VringFd { index, has_fd: true };
    guest.ask(Request::SetVringCall(fd), vec![event_fd()]);
    guest.ask(Request::SetVringNum(state(index, guest.size.into())), vec![]);
    guest.ask(Request::SetVringBase(state(index, 0)), vec![]);
    guest.ask(Request::SetVringAddr(VringAddress { index: index.into(), ..ring_addresses(place) }), vec![]);
    guest.ask(Request::SetVringKick(fd), vec![kick.try_clone().unwrap()]);
    kick
}

/// The attack goes on while others use the control thread. Prints the worst they had to wait, and asserts it.
#[track_caller]
fn beside(scene: &mut Scene, mut guest: Guest, attack: impl Fn(&mut Guest) + Sync) {
    let over = AtomicBool::new(false);
    let (mut answer, mut connect) = (Duration::ZERO, Duration::ZERO);
    scene.bystanders.take_worst_latency();
    std::thread::scope(|scope| {
        let attacker = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                attack(&mut guest);
            }
        });
        // It has filled its socket.
        std::thread::sleep(Duration::from_millis(300));
        for _ in 0..4 {
            answer = answer.max(scene.ask_for_ports());
            connect = connect.max(scene.connect_again());
        }
        over.store(true, Ordering::Relaxed);
        attacker.join().unwrap();
    });
    println!("beside {}: an answer took {answer:.1?}, a connection {connect:.1?}", scene.bystanders.test);
    assert!(answer < ANSWER, "ctl was answered after {answer:.1?}");
    assert!(connect < CONNECT, "another front-end was served after {connect:.1?}");
    scene.bystanders.assert_undisturbed("a front-end that keeps the control thread busy");
}

#[test]
fn a_driver_that_asks_for_other_queue_pairs_again_and_again() {
    const COMMANDS: u16 = 16;
    let mut scene = Scene::with_control(",queue-pairs=127");
    let mut guest = with_all_queues(&scene, 64, |_| ());
    let kick = start(&mut guest, CONTROL, CONTROL_PLACE);
    (0..=CONTROL).for_each(|index| _ = guest.ask(Request::SetVringEnable(state(index, 1)), vec![]));
    // Chains of two: a command for 1 or 127 pairs, and its answer.
    let (descriptors, driver, _) = ring_at(CONTROL_PLACE);
    for (number, pairs) in (0..COMMANDS).zip([1, PAIRS].into_iter().cycle()) {
        let at = DATA + 0x1000 * u64::from(number);
        guest.write(at, &[4, 0, pairs, 0]);
        for (slot, (address, bytes, flags)) in (2 * number..).zip([(at, 4u32, 1u16), (at + 4, 1, 2)]) {
            let descriptor = [
                &address.to_le_bytes()[..],
                &bytes.to_le_bytes(),
                &flags.to_le_bytes(),
                &(slot + 1).to_le_bytes(),
            ];
            guest.write(descriptors + 16 * u64::from(slot), &descriptor.concat());
        }
    }
    // Each turns of the ring holds them four times.
    for slot in 0..64 {
        guest.write(driver + 4 + 2 * slot, &(2 * (slot as u16 % COMMANDS)).to_le_bytes());
    }
    beside(&mut scene, guest, move |guest| {
        let (_, driver, device) = ring_at(CONTROL_PLACE);
        // As many as the ring takes, beyond what was used.
        let used = u16::from_le_bytes(guest.read(device + 2, 2).try_into().unwrap());
        guest.write(driver + 2, &used.wrapping_add(64).to_le_bytes());
        rustix::io::write(&kick, &1u64.to_ne_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    });
    scene.end();
}

#[test]
fn memory_tables_that_come_faster_than_they_are_set_up() {
    let mut scene = Scene::with_control(",queue-pairs=127");
    let guest = with_all_queues(&scene, 64, |_| ());
    beside(&mut scene, guest, |guest| {
        let (table, files) = guest.table();
        guest.send_raw(Request::SetMemTable(table), files);
    });
    scene.end();
}

/// Every entry says that its chain was popped and not used: each new table has all of them looked at.
#[test]
fn memory_tables_beside_in_flight_entries_that_are_all_set() {
    const SIZE: u16 = 1024;
    let mut scene = Scene::with_control(",queue-pairs=127");
    let guest = with_all_queues(&scene, SIZE, |guest| {
        let asked = Inflight { size_bytes: 0, offset: 0, queue_count: CONTROL.into(), queue_size: SIZE };
        let Some(Answer::Inflight(area, file)) = guest.ask(Request::GetInflightFd(asked), vec![]) else {
            panic!()
        };
        let file = std::fs::File::from(std::os::fd::AsFd::as_fd(&file).try_clone_to_owned().unwrap());
        let stride = area.size_bytes / u64::from(CONTROL);
        for queue in 0..u64::from(CONTROL) {
            // Version 1, and the size; then entries of 16 bytes, of which the first says so.
            let mut part = [&[0; 8][..], &1u16.to_le_bytes(), &SIZE.to_le_bytes(), &[0; 4]].concat();
            (0..u64::from(SIZE)).for_each(|entry| {
                part.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0]);
                part.extend_from_slice(&entry.to_le_bytes());
            });
            assert!(part.len() as u64 <= stride);
            file.write_all_at(&part, queue * stride).unwrap();
        }
        guest.ask(Request::SetInflightFd(area), vec![file.into()]);
    });
    beside(&mut scene, guest, |guest| {
        let (table, files) = guest.table();
        guest.send_raw(Request::SetMemTable(table), files);
    });
    scene.end();
}
