//! Memory that goes while it is used, and signals that look like it.
use std::fs::File;
use std::os::unix::process::ExitStatusExt;

use rustix::process::{Pid, Signal, kill_process};
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::SingleRegion;
use virtqueue::Piece;

use super::memfd;
use super::scene::Scene;
use crate::switch_process::guest::{
    DATA, DATA_BYTES, Guest, HEADER, RECEIVE, TRANSMIT, frame, layouts, plain, region,
};
use crate::switch_process::{Sockets, SwitchProcess, wait_for};

/// Where the file lies that is to be shortened, for the guest.
const AT: u64 = DATA + 2 * DATA_BYTES;

const SAID: &str = "shortened its shared memory file of";

/// Shares one file more, and starts both rings.
fn share(guest: &mut Guest, bytes: u64) -> File {
    let file = memfd(bytes);
    guest.share_memory();
    let extra = SingleRegion(region(AT, bytes));
    guest.ask(Request::AddMemReg(extra), vec![file.try_clone().unwrap().into()]);
    guest.start_ring(RECEIVE);
    guest.start_ring(TRANSMIT);
    file
}

/// A file that its owner shortens while it is mapped reads as zeros. Its owner is disconnected, the log says so, and no
/// process dies of it.
#[test]
fn memory_that_is_truncated_under_the_mapping() {
    let mut scene = Scene::new();
    for features in layouts() {
        // The memory of a frame to send is cut off, and that of a buffer to receive into.
        scene.attacked(features, Some(SAID), |scene, mut guest| {
            let file = share(&mut guest, DATA_BYTES / 2);
            file.set_len(4096).unwrap();
            scene.friend.post(1);
            guest.add(TRANSMIT, AT + 0x8000, 1012);
            assert_eq!(scene.friend.receive(), vec![0; 1000]);
            guest.wait_until_closed();
        });
        scene.attacked(features, Some(SAID), |scene, mut guest| {
            let file = share(&mut guest, DATA_BYTES / 2);
            file.set_len(4096).unwrap();
            guest.add(RECEIVE, AT + 0x10000, 1600);
            scene.friend.send(&frame(1, 600));
            guest.wait_until_closed();
            scene.friend.wait_for_used(TRANSMIT, 1);
        });
    }
    scene.end();
}

/// A page replaced by itself is a mapping more, and a process has 65 530: this many frames, each from a page of
/// its own, would end the switch.
#[test]
fn every_second_page_of_a_file_that_is_gone() {
    const PAGES: u64 = 80_000;
    const PIECES: usize = 31;
    let mut scene = Scene::new();
    scene.attacked(plain(), Some("file of 640 MiB"), |scene, mut guest| {
        let file = share(&mut guest, 640 << 20);
        guest.write(DATA, &[0; HEADER]);
        guest.write(DATA + HEADER as u64, &frame(1, 60));
        file.set_len(4096).unwrap();
        for first in (1..PAGES).step_by(PIECES) {
            // The net header and what frames are judged by, then a little of every second page.
            let mut readable = vec![Piece { address: DATA, len: 72 }];
            let pages = first..first + PIECES as u64;
            readable.extend(pages.map(|page| Piece { address: AT + page * 8192, len: 16 }));
            scene.friend.post(1);
            guest.add_chain(TRANSMIT, &readable, &[]);
            let is_over = wait_for("a frame, or the connection's end", || {
                if guest.is_closed() {
                    Some(true)
                } else {
                    (scene.friend.reclaim(RECEIVE) > 0).then_some(false)
                }
            });
            if is_over {
                println!("disconnected at page {first}");
                break;
            }
            guest.wait_for_used(TRANSMIT, 1);
        }
        guest.wait_until_closed();
        // Frames that were on their way have arrived by then.
        scene.friend.reclaim(RECEIVE);
    });
    scene.end();
}

/// A SIGBUS that another process sends is no fault: it ends the switch at once, like every process.
#[test]
fn a_bus_error_that_was_sent_is_no_truncation() {
    let sockets = Sockets::new();
    let mut switch = SwitchProcess::start(&sockets.port("only", "vhost-user", ""));
    let mut guest = Guest::running(&sockets.path("only"), plain());
    kill_process(Pid::from_raw(switch.id() as i32).unwrap(), Signal::BUS).unwrap();
    let status = wait_for("the switch's end", || switch.status());
    assert_eq!(status.signal(), Some(Signal::BUS.as_raw()), "{status}");
    guest.wait_until_closed();
}
