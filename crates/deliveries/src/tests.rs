use std::fs::OpenOptions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use memory::{Mapping, TruncationGuard, sealed_memfd};
use peers::requirements::root_required;
use rustix::process::Uid;
use virtqueue::{PackedPosition, Position};

use crate::file::is_of;
use crate::{Area, DeliveryFile, ReceiverLog, SenderLog};

fn mapping() -> Arc<Mapping> {
    let bytes = Area::bytes(1);
    Arc::new(Mapping::shared(sealed_memfd(c"deliveries", bytes).unwrap(), 0, bytes).unwrap())
}

fn split(at: u16) -> Position {
    Position::Split { next_available: at, next_used: at }
}

fn packed(slot: u16, wrap: bool) -> Position {
    let at = PackedPosition { slot, wrap };
    Position::Packed { next_available: at, next_used: at }
}

/// The files of a sender and two receivers.
struct Ports([Arc<Mapping>; 3]);

/// The areas as one process maps them.
struct Process([Arc<Area>; 3]);

impl Ports {
    fn new() -> Self {
        Ports([mapping(), mapping(), mapping()])
    }

    fn opened_by(&self, process: u64) -> Process {
        Process([0, 1, 2].map(|port| Arc::new(Area::opened_by(&self.0[port], 1, process).unwrap())))
    }
}

impl Process {
    fn receiver(&self, port: usize, at: Position) -> ReceiverLog {
        let log = ReceiverLog::new(&self.0[port], 0).unwrap();
        log.started(at);
        log
    }

    fn sender(&self, at: Position) -> SenderLog {
        SenderLog::new(&self.0[0], 0, at).unwrap()
    }
}

/// A process that is killed during a burst of 8 frames: frames 0 to 3 and all odd ones are published to the first
/// receiver in two turns, and the even ones are about to be published to the second.
fn killed(ports: &Ports) {
    let process = ports.opened_by(1);
    let (first, second) = (process.receiver(1, split(10)), process.receiver(2, packed(20, true)));
    let mut sender = process.sender(split(0));
    sender.begin(split(65_530), 8);
    sender.note(&first, split(10), &[0, 1, 2, 3]);
    sender.note(&first, split(14), &[5, 7]);
    sender.note(&second, packed(20, true), &[0, 2, 4, 6]);
}

/// A process stands still for another one, which has started the receiver's ring and is gone; it goes on, and is killed.
#[test]
fn what_was_delivered_before_and_after_a_take_over_that_failed() {
    let ports = Ports::new();
    let (process, other) = (ports.opened_by(1), ports.opened_by(2));
    let receiver = process.receiver(1, split(10));
    other.receiver(1, split(14));
    receiver.started(split(14));
    let mut sender = process.sender(split(0));
    sender.begin(split(0), 8);
    sender.note(&receiver, split(14), &ALL);
    let after = ports.opened_by(3);
    let receiver = after.receiver(1, split(22));
    let mut sender = after.sender(split(0));
    sender.begin(split(0), 8);
    assert_eq!(sender.past().unwrap().left_for(Some(&receiver), &ALL), [0; 0]);
}

const ALL: [u16; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

#[test]
fn what_a_receiver_has_is_left_out() {
    let (unmoved, moved) = (packed(20, true), packed(20, false));
    // Where the receivers stand after the kill, and what they have still to get.
    let cases: [(_, _, &[u16], &[u16]); 3] = [
        (split(14), unmoved, &[4, 5, 6, 7], &ALL),
        (split(16), unmoved, &[4, 6], &ALL),
        (split(16), moved, &[4, 6], &[1, 3, 5, 7]),
    ];
    for (first_at, second_at, first_left, second_left) in cases {
        let ports = Ports::new();
        killed(&ports);
        let process = ports.opened_by(2);
        let (first, second) = (process.receiver(1, first_at), process.receiver(2, second_at));
        let mut sender = process.sender(split(65_530));
        sender.begin(split(65_530), 8);
        let past = sender.past().unwrap();
        assert_eq!(past.left_for(Some(&first), &ALL), first_left, "{first_at:?}");
        assert_eq!(past.left_for(Some(&second), &ALL), second_left, "{second_at:?}");
        assert_eq!(past.left_for(None, &ALL), ALL);
    }
}

#[test]
fn a_burst_that_comes_in_parts_is_the_same_burst() {
    let ports = Ports::new();
    killed(&ports);
    let process = ports.opened_by(2);
    let first = process.receiver(1, split(16));
    let mut sender = process.sender(split(65_530));
    sender.begin(split(65_530), 3);
    assert!(sender.past().unwrap().left_for(Some(&first), &[0, 1, 2]).is_empty());
    sender.begin(split(65_533), 3);
    assert_eq!(sender.past().unwrap().left_for(Some(&first), &[0, 1, 2]), [1]);
    sender.begin(split(0), 32);
    assert_eq!(sender.past().unwrap().left_for(Some(&first), &[0, 1, 2, 3]), [0, 2, 3]);
    sender.begin(split(32), 32);
    assert!(sender.past().is_none(), "nothing is noted of later frames");
}

#[test]
fn what_was_completed_is_not_looked_at() {
    let ports = Ports::new();
    killed(&ports);
    assert!(ports.opened_by(2).sender(split(65_531)).past().is_none());
    // The ring started anew in the same process: it has noted nothing that another has not published.
    assert!(ports.opened_by(1).sender(split(65_530)).past().is_none());
}

#[test]
fn a_receiver_that_ran_in_between_is_not_taken_for_one_that_has_it() {
    let ports = Ports::new();
    killed(&ports);
    ports.opened_by(2).receiver(1, split(10));
    let process = ports.opened_by(3);
    let (first, mut sender) = (process.receiver(1, split(90)), process.sender(split(65_530)));
    sender.begin(split(65_530), 8);
    assert_eq!(sender.past().unwrap().left_for(Some(&first), &ALL), ALL);
}

/// A ring of 256 slots stands at each of 512 places again and again.
#[test]
fn a_receiver_that_comes_back_to_where_it_was_has_what_it_got() {
    let ports = Ports::new();
    let process = ports.opened_by(1);
    let (receiver, mut sender) = (process.receiver(1, packed(10, true)), process.sender(split(0)));
    sender.begin(split(0), 8);
    sender.note(&receiver, packed(2, true), &ALL);
    let process = ports.opened_by(2);
    let (receiver, mut sender) = (process.receiver(1, packed(10, true)), process.sender(split(0)));
    sender.begin(split(0), 8);
    assert_eq!(sender.past().unwrap().left_for(Some(&receiver), &ALL), [0; 0]);
}

/// The process had written a note, but had not published its frames yet.
#[test]
fn a_process_that_was_about_to_give_a_receiver_its_first_hides_nothing() {
    let ports = Ports::new();
    killed(&ports);
    let process = ports.opened_by(2);
    let receiver = process.receiver(1, split(14));
    let mut second = SenderLog::new(&process.0[2], 0, split(0)).unwrap();
    second.begin(split(0), 1);
    second.note(&receiver, split(14), &[0]);
    let process = ports.opened_by(3);
    let (receiver, mut sender) = (process.receiver(1, split(14)), process.sender(split(65_530)));
    sender.begin(split(65_530), 8);
    assert_eq!(sender.past().unwrap().left_for(Some(&receiver), &ALL), [4, 5, 6, 7]);
}

#[test]
fn a_process_that_gave_a_receiver_nothing_hides_nothing() {
    let ports = Ports::new();
    killed(&ports);
    ports.opened_by(2).receiver(1, split(14));
    let process = ports.opened_by(3);
    let (first, mut sender) = (process.receiver(1, split(14)), process.sender(split(65_530)));
    sender.begin(split(65_530), 8);
    assert_eq!(sender.past().unwrap().left_for(Some(&first), &ALL), [4, 5, 6, 7]);
}

#[test]
fn a_ring_made_anew_that_begins_where_a_completed_burst_did() {
    let ports = Ports::new();
    let process = ports.opened_by(1);
    let (receiver, mut sender) = (process.receiver(1, split(0)), process.sender(split(0)));
    sender.begin(split(0), 8);
    sender.note(&receiver, split(0), &ALL);
    assert!(ports.opened_by(2).sender(split(0)).past().is_some());
    sender.completed();
    assert!(ports.opened_by(2).sender(split(0)).past().is_none());
}

#[test]
fn only_the_first_start_in_a_process_counts() {
    let ports = Ports::new();
    killed(&ports);
    let process = ports.opened_by(2);
    process.receiver(1, split(10));
    // Its front-end came again after other frames.
    let (first, mut sender) = (process.receiver(1, split(50)), process.sender(split(65_530)));
    sender.begin(split(65_530), 8);
    assert_eq!(sender.past().unwrap().left_for(Some(&first), &[0, 1, 2, 3]), [0, 1, 2, 3]);
}

#[test]
fn a_file_made_anew_names_another_port() {
    let mut ports = Ports::new();
    killed(&ports);
    ports.0[1] = mapping();
    let process = ports.opened_by(2);
    let (first, mut sender) = (process.receiver(1, split(16)), process.sender(split(65_530)));
    sender.begin(split(65_530), 8);
    assert_eq!(sender.past().unwrap().left_for(Some(&first), &ALL), ALL);
}

#[test]
fn more_notes_than_there_is_room_for_are_left_out() {
    let ports = Ports::new();
    let process = ports.opened_by(1);
    let receiver = process.receiver(1, split(0));
    let mut sender = process.sender(split(0));
    sender.begin(split(0), 200);
    (0..200).for_each(|frame| sender.note(&receiver, split(frame), &[frame]));
    let process = ports.opened_by(2);
    let (receiver, mut sender) = (process.receiver(1, split(200)), process.sender(split(0)));
    sender.begin(split(0), 200);
    let left = sender.past().unwrap().left_for(Some(&receiver), &(0..200).collect::<Vec<_>>());
    assert_eq!(left, (64..200).collect::<Vec<u16>>());
}

#[test]
fn a_file_is_one_processs_and_goes_with_its_port() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let socket = folder.path().join("socket");
    let file = folder.path().join("socket.deliveries");
    let open = || DeliveryFile::open(&socket, 2);
    let first = open().unwrap().unwrap();
    assert!(file.exists());
    assert!(open().is_err(), "another process has it");
    let second = DeliveryFile::take_over(first.descriptor().clone(), 2).unwrap();
    first.leave();
    assert!(file.exists());
    drop(second);
    assert!(!file.exists());
    // One of a switch with other options, or of anything else.
    std::fs::write(&file, [0xff; 10_000]).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let third = open().unwrap().unwrap();
    let words = &std::fs::read(&file).unwrap()[16..Area::bytes(2) as usize];
    assert!(words.iter().all(|byte| *byte == 0));
    drop(third);
    assert!(!file.exists());
}

/// The process that continues if the other fails keeps its words mapped, and finds them unchanged.
#[test]
fn a_take_over_with_other_queue_pairs_shortens_no_file() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let socket = folder.path().join("socket");
    let first = DeliveryFile::open(&socket, 40).unwrap().unwrap();
    let last = ReceiverLog::new(first.area(), 39).unwrap();
    last.started(split(7));
    for pairs in [1, 60] {
        let other = DeliveryFile::take_over(first.descriptor().clone(), pairs).unwrap();
        assert_eq!(other.area().id(), first.area().id());
        other.leave();
        // Beyond the end of the file it would be the end of this process.
        last.started(split(8));
        assert_eq!(last.name(split(7)), ReceiverLog::new(first.area(), 39).unwrap().name(split(7)));
    }
}

#[test]
fn a_file_that_is_not_ours_is_left_alone() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let socket = folder.path().join("socket");
    let beside = folder.path().join("socket.deliveries");
    let target = folder.path().join("target");
    let is_root = root_required();
    let plant: [&dyn Fn(); 4] = [
        &|| symlink(&target, &beside).unwrap(),
        &|| std::fs::hard_link(&target, &beside).unwrap(),
        &|| {
            std::fs::write(&beside, "theirs").unwrap();
            std::fs::set_permissions(&beside, PermissionsExt::from_mode(0o666)).unwrap();
        },
        &|| {
            std::fs::write(&beside, "theirs").unwrap();
            std::fs::set_permissions(&beside, PermissionsExt::from_mode(0o600)).unwrap();
            std::os::unix::fs::chown(&beside, Some(65534), None).unwrap();
        },
    ];
    // Only root can give a file away.
    let plant = if is_root { &plant[..] } else { &plant[..3] };
    for plant in plant {
        std::fs::write(&target, "theirs").unwrap();
        std::fs::set_permissions(&target, PermissionsExt::from_mode(0o600)).unwrap();
        plant();
        assert!(DeliveryFile::open(&socket, 1).is_err());
        assert_eq!(std::fs::read(&beside).unwrap(), b"theirs");
        std::fs::remove_file(&beside).unwrap();
    }
}

/// An ordinary user cannot make a file of another user that it may open: this asks the check itself.
#[test]
fn a_file_is_of_one_user() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let metadata = file.as_file().metadata().unwrap();
    let (user, other) = (metadata.uid(), metadata.uid() + 1);
    assert!(is_of(&metadata, Uid::from_raw(user)) && !is_of(&metadata, Uid::from_raw(other)));
}

/// Notes go on after a truncation, and are lost with the process.
#[test]
fn a_truncated_file_ends_nothing_and_is_told() {
    let _guard = TruncationGuard::install().unwrap();
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let socket = folder.path().join("socket");
    let file = DeliveryFile::open(&socket, 1).unwrap().unwrap();
    let receiver = ReceiverLog::new(file.area(), 0).unwrap();
    receiver.started(split(7));
    let mut sender = SenderLog::new(file.area(), 0, split(0)).unwrap();
    assert!(file.memory().take_loss().is_none());
    OpenOptions::new().write(true).open(file.path()).unwrap().set_len(0).unwrap();
    for burst in 0..100 {
        sender.begin(split(burst), 8);
        sender.note(&receiver, split(burst), &[0, 1, 5]);
        sender.completed();
    }
    receiver.started(split(8));
    assert!(file.memory().take_loss().is_some());
    // The next process begins afresh.
    let next = DeliveryFile::take_over(file.descriptor().clone(), 1).unwrap();
    assert_ne!(next.area().id(), file.area().id());
}

/// A service has a folder of its own for the files; else they lie where no other user may write.
#[test]
fn files_lie_where_no_other_user_may_write() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let mode = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    let socket = folder.path().join("a+b");
    for others in [0o020, 0o002] {
        mode(folder.path(), 0o700 | others);
        assert!(DeliveryFile::open_in(None, &socket, 1).unwrap().is_none(), "{others:o}");
    }
    // Pods get at the sockets, and not at what is beside them.
    let runtime = tempfile::tempdir_in("/dev/shm").unwrap();
    let open = || DeliveryFile::open_in(Some(runtime.path()), &socket, 1);
    let file = open().unwrap().unwrap();
    let own = runtime.path().join("deliveries");
    assert!(file.path().starts_with(&own) && !folder.path().join("a+b.deliveries").exists());
    assert_eq!(own.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    // Sockets of one name in two folders, or with the separator in their name, have a file each.
    for other in ["/a/b", "/a+b", "/a%2Bb"] {
        assert!(DeliveryFile::open_in(Some(runtime.path()), Path::new(other), 1).unwrap().is_some());
    }
    assert!(open().is_err(), "another port has it");
    drop(file);
    assert_eq!(std::fs::read_dir(&own).unwrap().count(), 0);
    mode(&own, 0o777);
    assert!(open().unwrap().is_none());
}
