//! Memory that is too much, in too many parts, or of a kind that can be made to wait.
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstatfs, memfd_create};
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::{Inflight, LogArea, MemoryRegion, MemoryTable, SingleRegion};
use vhost_user::session::frontend::Answer;
use virtqueue::Piece;

use super::memfd;
use super::scene::Scene;
use crate::switch_process::bystanders::Bystanders;
use crate::switch_process::guest::{
    DATA, DATA_BYTES, Guest, HEADER, RECEIVE, TRANSMIT, frame, plain, region,
};
use crate::switch_process::{OpenFiles, Sockets, SwitchProcess, connect, description, wait_for};

/// Above all memory of a guest of these tests.
const AT: u64 = 1 << 40;

/// Whether one region more is accepted.
fn adds(guest: &mut Guest, region: MemoryRegion, file: impl Into<OwnedFd>) -> bool {
    let answer = guest.try_ask(Request::AddMemReg(SingleRegion(region)), vec![file.into()]);
    !matches!(answer, Some(Answer::Refused { .. }))
}

/// A buffer is in as many pieces as it crosses regions. Regions of one byte made 500 of a descriptor, and millions
/// of a table of descriptors.
#[test]
fn regions_smaller_than_a_page() {
    let mut scene = Scene::new();
    let page = region(AT, 4096);
    for (odd, said) in [
        (MemoryRegion { size_bytes: 1, ..page }, "size 0x1 of a region is no multiple of 4096"),
        (MemoryRegion { guest_address: AT + 1, ..page }, "guest address 0x10000000001 of a region"),
        (MemoryRegion { mmap_offset: 512, ..page }, "file offset 0x200 of a region"),
    ] {
        scene.attacked(plain(), Some(said), |_, mut guest| {
            guest.share_memory();
            assert!(!adds(&mut guest, odd, memfd(8192)), "{said}");
            assert!(adds(&mut guest, page, memfd(4096)));
        });
    }
    scene.attacked(plain(), Some("told no: SET_MEM_TABLE: size 0x1001"), |_, mut guest| {
        let regions = vec![MemoryRegion { size_bytes: 4097, ..page }];
        guest.must_be_refused(Request::SetMemTable(MemoryTable { regions }), vec![memfd(8192).into()]);
    });
    scene.end();
}

/// One front-end maps as much as it can, as sparse files; a neighbour comes with memory of its own and is served.
#[test]
fn an_address_space_used_up() {
    let mut scene = Scene::new();
    scene.attacked(plain(), None, |scene, mut guest| {
        guest.share_memory();
        scene.friend_leaves();
        let (mut at, mut mapped) = (AT, 0);
        for shift in (12..47).rev() {
            let bytes = 1 << shift;
            while adds(&mut guest, region(at, bytes), memfd(bytes)) {
                (at, mapped) = (at + bytes, mapped + bytes);
            }
        }
        println!("the attacker has mapped {} GiB", mapped >> 30);
        // The answer comes before the log's line.
        let is_refused = |line: &String| line.contains("memory=SIZE");
        wait_for("the refusal", || scene.switch.logged().iter().any(is_refused).then_some(()));
        scene.friend_returns();
        assert!(mapped <= 512 << 30, "{mapped:#x} bytes");
        // A table that is as large takes the place of the one that is there.
        let bytes = 500 << 30;
        let regions = vec![region(AT, bytes)];
        guest.ask(Request::SetMemTable(MemoryTable { regions }), vec![memfd(bytes).into()]);
    });
    scene.end();
}

/// Each region is a mapping and an open file, and a process has so many of both. Three front-ends share as many as
/// they can; a neighbour comes with memory of its own and is served.
#[test]
fn regions_used_up() {
    let sockets = Sockets::new();
    let ports = ["one", "two", "three", "late", "friend", "a", "b"];
    let ports = ports.map(|name| sockets.port(name, "vhost-user", "")).concat();
    let wires = [connect("late", "friend"), connect("a", "b")].concat();
    let switch = SwitchProcess::start_with(&[ports, wires].concat(), OpenFiles::Hard(1024), Stdio::piped());
    let bystanders = Bystanders::start([sockets.path("a"), sockets.path("b")]);
    let mut friend = Guest::running(&sockets.path("friend"), plain());
    // The same page again and again: no two mappings become one.
    let page = memfd(4096);
    let share_all = |name: &str| {
        let mut guest = Guest::connect(&sockets.path(name), plain());
        let more =
            |number: &u64| adds(&mut guest, region(AT + number * 4096, 4096), page.try_clone().unwrap());
        let shared = (0..509).take_while(more).count();
        (shared, guest)
    };
    let attackers = ["one", "two", "three"].map(share_all);
    // Twenty each, and beyond those half as many as files may be open.
    assert_eq!(attackers.each_ref().map(|(shared, _)| *shared), [509, 20 + 512 - 489, 20]);
    let said = "512 mappings of all peers, beyond the 20 that each may have, are there already";
    wait_for(said, || switch.logged().iter().any(|line| line.contains(said)).then_some(()));

    let mut late = Guest::running(&sockets.path("late"), plain());
    friend.post(1);
    late.send(&frame(1, 900));
    assert_eq!(friend.receive(), frame(1, 900));
    bystanders.assert_undisturbed("regions that are used up");
    bystanders.all_is_well();
    drop((attackers, late, friend));
    switch.end();
}

/// The operator says how much a front-end may share: regions, log and in-flight buffer together.
#[test]
fn a_limit_of_the_ports_own() {
    let mut scene = Scene::with_options(",memory=8M");
    let extra = region(AT, 4 << 20);
    scene.attacked(plain(), Some("9 MiB of shared memory are more than the 8 MiB"), |_, mut guest| {
        guest.share_memory();
        assert!(!adds(&mut guest, extra, memfd(4 << 20)));
        // The same table again is no more than it was.
        guest.share_memory();
        guest.share_memory();
    });
    scene.attacked(plain(), Some("SET_LOG_BASE was refused: 9 MiB"), |_, mut guest| {
        guest.share_memory();
        let area = LogArea { size_bytes: 4 << 20, offset: 0 };
        guest.send_raw(Request::SetLogBase(area), vec![memfd(4 << 20).into()]);
        guest.wait_until_closed();
    });
    scene.attacked(plain(), Some("told no: SET_INFLIGHT_FD"), |_, mut guest| {
        guest.share_memory();
        let area = Inflight { size_bytes: 4 << 20, offset: 0, queue_count: 2, queue_size: 64 };
        guest.must_be_refused(Request::SetInflightFd(area), vec![memfd(4 << 20).into()]);
    });
    scene.end();
}

/// Has the switch read the first bytes of so many pages of the region at [`AT`].
fn touch(scene: &mut Scene, guest: &mut Guest, pages: u64) {
    const PIECES: usize = 31;
    guest.start_ring(TRANSMIT);
    guest.write(DATA, &[0; HEADER]);
    guest.write(DATA + HEADER as u64, &frame(1, 60));
    for first in (0..pages).step_by(PIECES) {
        let mut readable = vec![Piece { address: DATA, len: 72 }];
        let touched = first..pages.min(first + PIECES as u64);
        readable.extend(touched.map(|page| Piece { address: AT + (page << 12), len: 16 }));
        scene.friend.post(1);
        guest.add_chain(TRANSMIT, &readable, &[]);
        guest.wait_for_used(TRANSMIT, 1);
        scene.friend.receive();
    }
}

/// A fresh page is charged to the process that touches it first, and a peer's buffers can make that the
/// switch: no more of them than the port's limit.
#[test]
fn memory_that_nobody_has_touched() {
    const PAGES: u64 = 12 << 10;
    let mut scene = Scene::with_options(",memory=64M");
    let resident = |scene: &Scene| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", scene.switch.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssShmem:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
    };
    let before = resident(&scene);
    scene.attacked(plain(), Some("more than the 64 MiB of this port"), |scene, mut guest| {
        guest.share_memory();
        assert!(adds(&mut guest, region(AT, PAGES << 12), memfd(PAGES << 12)));
        assert!(!adds(&mut guest, region(2 * AT, PAGES << 12), memfd(PAGES << 12)));
        touch(scene, &mut guest, PAGES);
        let touched = resident(scene) - before;
        println!("{touched} MiB of shared memory are the switch's");
        assert!((PAGES >> 8..=64).contains(&touched), "{touched} MiB");
    });
    let left = resident(&scene).saturating_sub(before);
    assert!(left <= 1, "{left} MiB are left");
    scene.end();
}

/// To connect again does not bring back what a front-end may share: pages count that the switch has touched first for as
/// long as their file is there. A guest that comes again with the memory that it had is served, and so is each one when
/// the files are gone.
#[test]
fn memory_that_a_front_end_keeps_over_connections() {
    const PAGES: u64 = 2 << 10;
    let mut scene = Scene::with_control(",memory=32M");
    let mut kept = Vec::new();
    for _ in 0..3 {
        scene.attacked(plain(), None, |scene, mut guest| {
            let file = memfd(PAGES << 12);
            guest.share_memory();
            assert!(adds(&mut guest, region(AT, PAGES << 12), file.try_clone().unwrap()));
            touch(scene, &mut guest, PAGES);
            kept.push(file);
        });
    }
    let held: u64 = kept.iter().map(|file| rustix::fs::fstat(file).unwrap().st_blocks as u64 * 512).sum();
    // A kernel that takes back idle memory (DAMON) may have taken pages to which nothing was written.
    let all = 3 * (PAGES << 12);
    assert!((all - (1 << 20)..=all).contains(&held), "{held} bytes are in files of former connections");

    let said = "13 MiB of shared memory, and up to 24 MiB in files that were shared before and still exist";
    let fresh = memfd(PAGES << 12);
    scene.attacked(plain(), Some(said), |scene, mut guest| {
        guest.share_memory();
        assert!(!adds(&mut guest, region(AT, PAGES << 12), fresh.try_clone().unwrap()));
        drop(guest);
        // Another client of the control thread is answered, and the port says why it waits.
        scene.victim_is_alone();
        scene.ask_for_ports();
        let words = description(&scene.switch.snapshot(), "victim");
        assert!(words.contains(said), "{words}");
    });
    scene.attacked(plain(), None, |_, mut guest| {
        guest.share_memory();
        assert!(adds(&mut guest, region(AT, PAGES << 12), kept[1].try_clone().unwrap()), "as before");
    });
    kept.truncate(1);
    scene.attacked(plain(), None, |_, mut guest| {
        guest.share_memory();
        assert!(adds(&mut guest, region(AT, PAGES << 12), fresh.try_clone().unwrap()));
    });
    scene.end();
}

/// The switch makes in-flight regions, and a front-end keeps the files of all that it ever had. Only the last two have
/// pages.
#[test]
fn in_flight_regions_that_a_front_end_keeps() {
    let mut scene = Scene::new();
    let mut kept = Vec::new();
    for _ in 0..6 {
        scene.attacked(plain(), None, |_, mut guest| {
            let asked = Inflight { size_bytes: 0, offset: 0, queue_count: 2, queue_size: 1 << 15 };
            let given = guest.ask(Request::GetInflightFd(asked), vec![]);
            let Some(Answer::Inflight(area, file)) = given else { panic!("{given:?}") };
            rustix::io::pwrite(&file, &vec![1; area.size_bytes as usize], area.offset).unwrap();
            kept.push(file);
        });
    }
    let blocks: Vec<_> = kept.iter().map(|file| rustix::fs::fstat(file).unwrap().st_blocks).collect();
    println!("blocks of 512 bytes of six in-flight regions: {blocks:?}");
    assert!(blocks[..4].iter().all(|blocks| *blocks == 0), "{blocks:?}");
    assert!(blocks[4..].iter().all(|blocks| *blocks > 1000), "{blocks:?}");
    scene.end();
}

/// A file on a disk, and what its file system is called.
fn disk_file(bytes: u64) -> (File, PathBuf) {
    const TMPFS: i64 = 0x0102_1994;
    for folder in [env!("CARGO_TARGET_TMPDIR"), "/var/tmp", env!("CARGO_MANIFEST_DIR")] {
        let Ok(file) = tempfile::tempfile_in(folder) else { continue };
        if fstatfs(&file).unwrap().f_type as i64 != TMPFS {
            file.set_len(bytes).unwrap();
            return (file, folder.into());
        }
    }
    panic!("this test needs a folder on a disk: set CARGO_TARGET_DIR to one");
}

/// The server of a file system decides how long a page fault takes, and with FUSE the server may be the peer.
#[test]
fn memory_that_can_be_made_to_wait() {
    let (file, folder) = disk_file(1 << 20);
    println!("a file in {}", folder.display());
    let disk = region(AT, 1 << 20);
    let mut scene = Scene::new();
    scene.attacked(plain(), Some("(memory-backing=any)"), |_, mut guest| {
        guest.share_memory();
        assert!(!adds(&mut guest, disk, file.try_clone().unwrap()));
    });
    scene.attacked(plain(), Some("told no: SET_INFLIGHT_FD"), |_, mut guest| {
        let area = Inflight { size_bytes: 4096, offset: 0, queue_count: 2, queue_size: 16 };
        guest.must_be_refused(Request::SetInflightFd(area), vec![file.try_clone().unwrap().into()]);
    });
    scene.end();

    let mut scene = Scene::with_options(",memory-backing=any");
    scene.attacked(plain(), None, |scene, mut guest| {
        let sent = frame(5, 1000);
        file.write_all_at(&sent, 8192 + HEADER as u64).unwrap();
        guest.share_memory();
        assert!(adds(&mut guest, disk, file.try_clone().unwrap()));
        guest.start_ring(RECEIVE);
        guest.start_ring(TRANSMIT);
        scene.friend.post(1);
        guest.add(TRANSMIT, AT + 8192, 1012);
        assert_eq!(scene.friend.receive(), sent);
        guest.wait_for_used(TRANSMIT, 1);
    });
    scene.end();
}

/// What is no memory, or may not be written, is refused with the reason.
#[test]
fn descriptors_that_are_no_memory_to_share() {
    let mut scene = Scene::new();
    let path = format!("/dev/shm/tautline-test-{}", std::process::id());
    std::fs::write(&path, [0; 4096]).unwrap();
    let read_only = File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let sealed = File::from(memfd_create("of a test", MemfdFlags::ALLOW_SEALING).unwrap());
    sealed.set_len(4096).unwrap();
    fcntl_add_seals(&sealed, SealFlags::WRITE).unwrap();
    for (file, said) in [
        (OwnedFd::from(read_only), "not open for reading and writing"),
        (sealed.into(), "sealed against writing"),
        (UnixStream::pair().unwrap().0.into(), "no regular file"),
        (File::open("/dev/zero").unwrap().into(), "no regular file"),
    ] {
        scene.attacked(plain(), Some(said), |_, mut guest| {
            guest.share_memory();
            assert!(!adds(&mut guest, region(DATA + 2 * DATA_BYTES, 4096), file), "{said}");
        });
    }
    scene.end();
}
