use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, MemfdFlags, Mode, SealFlags, fcntl_add_seals, memfd_create};
use virtio::net::NetHeader;

mod foreign;

use frame::{DropReason, Sink, Source};

use super::*;
use crate::in_memory::testing::{Collector, Injector};
use crate::in_memory::{QueueOptions, queue};
use crate::testing::TestContext;

const ORDERS: [(Order, u32); 4] = [
    (Order::Little, 0xa1b2_c3d4),
    (Order::Little, 0xa1b2_3c4d),
    (Order::Big, 0xa1b2_c3d4),
    (Order::Big, 0xa1b2_3c4d),
];

#[derive(Clone, Copy)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn u32s(self, fields: &[u32]) -> Vec<u8> {
        let bytes = |field: &u32| match self {
            Order::Little => field.to_le_bytes(),
            Order::Big => field.to_be_bytes(),
        };
        fields.iter().flat_map(bytes).collect()
    }

    fn u16s(self, fields: &[u16]) -> Vec<u8> {
        let bytes = |field: &u16| match self {
            Order::Little => field.to_le_bytes(),
            Order::Big => field.to_be_bytes(),
        };
        fields.iter().flat_map(bytes).collect()
    }
}

/// A capture of frames a second apart, written field by field.
fn pcap(order: Order, magic: u32, link_type: u32, frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file =
        [order.u32s(&[magic]), order.u16s(&[2, 4]), order.u32s(&[0, 0, 65_535, link_type])].concat();
    for (second, frame) in (1_700_000_000..).zip(frames) {
        let bytes = frame.len() as u32;
        file.extend(order.u32s(&[second, 5, bytes, bytes]));
        file.extend(frame);
    }
    file
}

/// A block of pcapng.
fn block(order: Order, kind: u32, mut body: Vec<u8>) -> Vec<u8> {
    body.resize(body.len().next_multiple_of(4), 0);
    let bytes = body.len() as u32 + 12;
    [order.u32s(&[kind, bytes]), body, order.u32s(&[bytes])].concat()
}

/// A section and an Ethernet whose clock counts milliseconds, with this snapshot length and more options.
fn section(order: Order, snapshot_bytes: u32, options: &[u8]) -> Vec<u8> {
    let section = [order.u32s(&[0x1a2b_3c4d]), order.u16s(&[1, 0]), order.u32s(&[u32::MAX; 2])].concat();
    let resolution = [order.u16s(&[9, 1]), vec![3, 0, 0, 0]].concat();
    let end = order.u16s(&[0, 0]);
    let head = [order.u16s(&[1, 0]), order.u32s(&[snapshot_bytes])].concat();
    let interface = [&head[..], &resolution, options, &end].concat();
    [block(order, 0x0a0d_0d0a, section), block(order, 1, interface)].concat()
}

/// Body of an enhanced packet.
fn packet(order: Order, ms: u64, frame: &[u8]) -> Vec<u8> {
    let bytes = frame.len() as u32;
    let mut body = order.u32s(&[0, (ms >> 32) as u32, ms as u32, bytes, bytes]);
    body.extend(frame);
    body.resize(body.len().next_multiple_of(4), 0);
    body
}

/// Milliseconds of the frame with this number.
fn stamp(number: usize) -> u64 {
    1_700_000_000_000 + 1000 * number as u64
}

/// The frames as pcapng: a section, an Ethernet interface and enhanced packets.
fn pcapng(order: Order, frames: &[Vec<u8>]) -> Vec<u8> {
    let packets = frames.iter().enumerate();
    let packets = packets.flat_map(|(i, frame)| block(order, 6, packet(order, stamp(i), frame)));
    section(order, 0, &[]).into_iter().chain(packets).collect()
}

fn frames(count: usize) -> Vec<Vec<u8>> {
    let sizes = [14, 15, 60, 63, 64, 65, 128, 1514, 9014, 65_549];
    let frame = |i: usize| (0..sizes[i % sizes.len()]).map(|at| (at * 13 + i) as u8).collect();
    (0..count).map(frame).collect()
}

fn options(replay: &Path) -> PcapOptions {
    PcapOptions { timing: Timing::Fast, ..PcapOptions::replay(replay) }
}

fn source(options: PcapOptions) -> Result<Replay, PortError> {
    let capture = Arc::new(load::load(options.replay.as_deref().unwrap())?);
    Ok(Replay::new(capture, options.rounds, options.timing, Arc::default()).unwrap())
}

/// All that a source has, to a sink.
fn drain(source: &mut dyn Source, sink: &mut dyn Sink) {
    loop {
        let batch = source.rx_burst(7).unwrap();
        let all: Vec<u16> = (0..batch.len() as u16).collect();
        sink.accept(batch, &all).unwrap();
        if !source.needs_release() {
            return;
        }
        source.release();
    }
}

fn all_frames(options: PcapOptions) -> Vec<Vec<u8>> {
    let (mut sink, source_end) = queue(QueueOptions { slots: 1024, ..QueueOptions::default() }).unwrap();
    drain(&mut source(options).unwrap(), &mut sink);
    let mut collector = Collector::from(source_end);
    std::iter::from_fn(|| collector.take().map(|(_, frame)| frame)).collect()
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }
}

#[test]
fn every_format_and_byte_order_is_replayed() {
    let (folder, sent) = (Folder::new(), frames(25));
    let captures = ORDERS.map(|(order, magic)| pcap(order, magic, 1, &sent));
    let captures = captures.into_iter().chain([pcapng(Order::Little, &sent), pcapng(Order::Big, &sent)]);
    for (i, bytes) in captures.enumerate() {
        let file = folder.file("a", &bytes);
        let capture = load::load(&file).unwrap();
        assert_eq!(capture.frames[24].at, Duration::from_secs(24), "capture {i}");
        assert_eq!(all_frames(options(&file)), sent, "capture {i}");
    }
}

#[test]
fn a_recording_of_a_replay_holds_the_same_frames() {
    let (folder, sent) = (Folder::new(), frames(200));
    let file = folder.file("a", &pcap(Order::Little, 0xa1b2_c3d4, 1, &sent));
    let recorded = folder.path("b");
    let mut record = Record::new(File::create(&recorded).unwrap(), 262_144, Arc::default()).unwrap();
    drain(&mut source(PcapOptions { rounds: Rounds::Times(3), ..options(&file) }).unwrap(), &mut record);
    assert_eq!(record.counters().counts().frames, 600);
    // Nothing is left to be written, even if the recorder is never dropped.
    std::mem::forget(record);
    assert_eq!(all_frames(options(&recorded)), [sent.clone(), sent.clone(), sent].concat());
    assert_eq!(&fs::read(&recorded).unwrap()[..4], 0xa1b2_3c4d_u32.to_le_bytes());
}

#[test]
fn a_snapshot_length_cuts_and_a_cut_frame_is_not_replayed() {
    let (folder, sent) = (Folder::new(), frames(10));
    let file = folder.file("a", &pcap(Order::Little, 0xa1b2_c3d4, 1, &sent));
    let recorded = folder.path("b");
    let mut record = Record::new(File::create(&recorded).unwrap(), 64, Arc::default()).unwrap();
    drain(&mut source(options(&file)).unwrap(), &mut record);
    let capture = load::load(&recorded).unwrap();
    assert_eq!(capture.frames.len(), 5);
    assert!(capture.left_out[0].contains("5 of 10;"), "{:?}", capture.left_out);
    assert_eq!(all_frames(options(&recorded)), sent[..5]);
}

/// The Internet checksum (RFC 1071) of these bytes.
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
    let sum = words.fold(0, |sum, word| (sum + word) % 0xffff);
    (!(sum as u16)).to_be_bytes()
}

#[test]
fn offloads_are_finished_before_frames_are_recorded() {
    let folder = Folder::new();
    let (injecting, mut from) = queue(QueueOptions::default()).unwrap();
    let header =
        NetHeader { flags: NetHeader::F_NEEDS_CSUM, csum_start: 34, csum_offset: 6, ..NetHeader::default() };
    let mut frame = frames(3)[2].clone();
    assert!(Injector::from(injecting).inject(header, &frame));
    let file = folder.path("b");
    let mut record = Record::new(File::create(&file).unwrap(), 262_144, Arc::default()).unwrap();
    drain(&mut from, &mut record);
    let sum = checksum(&frame[34..]);
    frame[40..42].copy_from_slice(&sum);
    assert_eq!(all_frames(options(&file)), [frame]);
}

#[test]
fn the_captures_own_timing_is_kept() {
    let folder = Folder::new();
    let mut bytes = pcap(Order::Little, 0xa1b2_3c4d, 1, &frames(3));
    // The second and third frame 40 ms and 10 ms after the first: clocks of captures do go backwards.
    for (record, ns) in [(24 + 16 + 14, 40_000_000u32), (24 + 16 + 14 + 16 + 15, 10_000_000)] {
        bytes[record..record + 4].copy_from_slice(&1_700_000_000u32.to_le_bytes());
        bytes[record + 4..record + 8].copy_from_slice(&(ns + 5).to_le_bytes());
    }
    let file = folder.file("a", &bytes);
    let mut source = source(PcapOptions { rounds: Rounds::Times(2), ..PcapOptions::replay(&file) }).unwrap();
    let began = Instant::now();
    let mut went = Vec::new();
    while went.len() < 6 {
        let count = source.rx_burst(64).unwrap().len();
        went.extend(std::iter::repeat_n(began.elapsed().as_millis(), count));
        if source.needs_release() {
            source.release();
        } else if !source.sleep() {
            let fd = PollFd::from_borrowed_fd(source.wake_fd().unwrap(), PollFlags::IN);
            assert_eq!(poll(&mut [fd], Some(&Timespec { tv_sec: 60, tv_nsec: 0 })), Ok(1), "no wake-up");
        }
        source.wake();
    }
    for (went, due) in went.iter().zip([0, 40, 40, 40, 80, 80]) {
        assert!(*went >= due, "{went} ms instead of {due}");
    }
    assert!(!source.sleep(), "it is over");
}

#[test]
fn a_fast_replay_sleeps_only_when_it_is_over() {
    let folder = Folder::new();
    let file = folder.file("a", &pcap(Order::Little, 0xa1b2_c3d4, 1, &frames(2)));
    let mut once = source(options(&file)).unwrap();
    assert!(once.sleep());
    assert_eq!(once.rx_burst(64).unwrap().len(), 2);
    once.release();
    assert!(!once.sleep() && once.wake_fd().is_none());
    let mut forever = source(PcapOptions { rounds: Rounds::Forever, ..options(&file) }).unwrap();
    for _ in 0..10 {
        assert_eq!(forever.rx_burst(64).unwrap().len(), 64);
        forever.release();
    }
    let none = folder.file("b", &pcap(Order::Little, 0xa1b2_c3d4, 1, &[]));
    let mut none = source(PcapOptions { rounds: Rounds::Forever, ..options(&none) }).unwrap();
    assert!(none.rx_burst(64).unwrap().is_empty() && !none.needs_release() && !none.sleep());
}

#[test]
fn what_is_no_capture_is_refused_with_the_reason() {
    let folder = Folder::new();
    let refused = |file: &Path| load::load(file).unwrap_err().to_string();
    let whole = pcap(Order::Little, 0xa1b2_c3d4, 1, &frames(3));
    let cooked = pcap(Order::Little, 0xa1b2_c3d4, 113, &frames(1));
    let mut endless = whole.clone();
    endless[24 + 8..24 + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    for (bytes, said) in [
        (&b""[..], "it is empty"),
        (b"no capture at all, but some text", "neither pcap nor pcapng"),
        (&whole[..10], "ends within its header"),
        (&whole[..30], "ends within record 1"),
        (&whole[..24 + 16 + 13], "ends within record 1"),
        (&cooked, "link type"),
        (&endless, "record 1 claims"),
    ] {
        let error = refused(&folder.file("a", bytes));
        assert!(error.contains(said), "{said}: {error}");
    }
    assert!(refused(&folder.path("none")).contains("No such file"));
    assert!(refused(folder.0.path()).contains("no regular file"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Any file is read or refused, and frames that were read can be replayed.
    #[test]
    fn no_bytes_of_a_file_do_harm(
        which in 0..6usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
    ) {
        let sent = frames(5);
        let mut bytes = match which {
            0..4 => pcap(ORDERS[which].0, ORDERS[which].1, 1, &sent),
            4 => pcapng(Order::Little, &sent),
            _ => pcapng(Order::Big, &sent),
        };
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let folder = Folder::new();
        let file = folder.file("a", &bytes);
        if load::load(&file).is_ok() {
            prop_assert!(all_frames(options(&file)).len() <= 10);
        }
    }
}

/// In a folder where other users may write, a link could lead to a file that the operator did not name. A pipe would
/// block the worker, or give the frames to its reader.
#[test]
fn nothing_but_a_regular_file_is_recorded_to() {
    let folder = Folder::new();
    let precious = folder.file("precious", b"precious");
    let (link, pipe) = (precious.with_file_name("link"), precious.with_file_name("pipe"));
    std::os::unix::fs::symlink(&precious, &link).unwrap();
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let mut reader = None;
    for (path, what) in [(&link, "a symbolic link"), (&pipe, "a pipe"), (&pipe, "a pipe")] {
        let error = super::open_to_record(path).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
        // With a reader, and without one.
        reader = Some(File::options().read(true).write(true).open(&pipe).unwrap());
    }
    drop(reader);
    assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
    let mut port = Pcap::new(PcapOptions::record(&precious));
    port.start(&mut TestContext::new()).unwrap();
    assert_eq!(std::fs::read(&precious).unwrap().len(), 24, "it is emptied, and has a capture's header");
}

/// If a pipe were opened like a file, the control thread would wait for a writer.
#[test]
fn nothing_but_a_regular_file_is_replayed() {
    let folder = Folder::new();
    let pipe = folder.path("pipe");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
    for path in [pipe, folder.path("."), "/dev/zero".into()] {
        let (loaded, loading) = std::sync::mpsc::channel();
        let of = path.clone();
        std::thread::spawn(move || loaded.send(load::load(&of).map(drop)));
        let loaded = loading.recv_timeout(Duration::from_secs(10));
        let error =
            loaded.unwrap_or_else(|_| panic!("still opening {}", path.display())).unwrap_err().to_string();
        assert!(error.contains("it is no regular file; save the capture to a file first"), "{error}");
    }
}

#[test]
fn a_full_disk_ends_the_recording_and_leaves_whole_records() {
    assert!(Record::new(File::create("/dev/full").unwrap(), 262_144, Arc::default()).is_err());

    let (folder, sent) = (Folder::new(), frames(3));
    let file = folder.file("a", &pcap(Order::Little, 0xa1b2_c3d4, 1, &sent));
    let disk = File::from(memfd_create("disk", MemfdFlags::ALLOW_SEALING).unwrap());
    let mut record = Record::new(disk.try_clone().unwrap(), 262_144, Arc::default()).unwrap();
    drain(&mut source(options(&file)).unwrap(), &mut record);
    // Room for half a record more.
    let written = disk.metadata().unwrap().len();
    disk.set_len(written + 40).unwrap();
    fcntl_add_seals(&disk, SealFlags::GROW).unwrap();
    let mut again = source(options(&file)).unwrap();
    let error = record.accept(again.rx_burst(64).unwrap(), &[0, 1, 2]).unwrap_err();
    assert!(error.to_string().contains("write the recording"), "{error}");
    let counts = record.counters().counts();
    assert_eq!((counts.frames, counts.drops), (3, vec![(DropReason::System, 3)]));
    let left = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&disk));
    assert_eq!(disk.metadata().unwrap().len(), written);
    assert_eq!(all_frames(options(Path::new(&left))), sent);
}

/// Holds for any name of the file: links lead to the same file.
#[test]
fn a_file_is_recorded_to_by_one_port_and_by_none_that_it_is_replayed_by() {
    let folder = Folder::new();
    let bytes = pcap(Order::Little, 0xa1b2_c3d4, 1, &frames(3));
    let capture = folder.file("a", &bytes);
    let (same, other) = (folder.path("same"), folder.path("other"));
    fs::hard_link(&capture, &same).unwrap();
    let start = |port: &mut Pcap| port.start(&mut TestContext::new()).map_err(|error| error.to_string());
    let over_itself = PcapOptions { record: Some(same.clone()), ..options(&capture) };
    let error = start(&mut Pcap::new(over_itself)).unwrap_err();
    assert!(error.contains("to be replayed; name another file"), "{error}");
    // The recorder is started first, and may have been made first.
    for replay_first in [true, false] {
        let made_first = replay_first.then(|| Pcap::new(options(&capture)));
        let mut record = Pcap::new(PcapOptions::record(&same));
        let mut replay = made_first.unwrap_or_else(|| Pcap::new(options(&capture)));
        let error = start(&mut record).unwrap_err();
        assert!(error.contains("to be replayed"), "{error}");
        start(&mut replay).unwrap();
        // Two may replay it.
        start(&mut Pcap::new(options(&same))).unwrap();
        assert!(start(&mut record).is_err());
        assert_eq!(fs::read(&capture).unwrap(), bytes);
    }
    let mut one = Pcap::new(PcapOptions::record(&other));
    start(&mut one).unwrap();
    let recorded = fs::read(&other).unwrap();
    for again in [PcapOptions::record(&other), options(&other)] {
        let error = start(&mut Pcap::new(again)).unwrap_err();
        assert!(error.contains("another port or capture records to it; name another file"), "{error}");
    }
    assert!(FileClaim::record(&other.metadata().unwrap()).is_err());
    assert_eq!(fs::read(&other).unwrap(), recorded);
    // It is free again.
    one.end(&mut TestContext::new());
    start(&mut Pcap::new(options(&other))).unwrap();
    start(&mut Pcap::new(PcapOptions::record(&other))).unwrap();
}

#[test]
fn a_port_plugs_what_it_was_asked_for_and_says_once_what_stopped() {
    let (folder, sent) = (Folder::new(), frames(10));
    let mut bytes = pcap(Order::Little, 0xa1b2_c3d4, 1, &sent);
    // The last frame was longer than what was captured of it.
    let last = bytes.len() - sent[9].len() - 4;
    bytes[last..last + 4].copy_from_slice(&100_000u32.to_le_bytes());
    let (file, recorded) = (folder.file("a", &bytes), folder.path("b"));
    let mut port = Pcap::new(PcapOptions { record: Some(recorded.clone()), ..options(&file) });
    let mut context = TestContext::new();
    port.start(&mut context).unwrap();
    assert_eq!(context.logged.len(), 1, "{:?}", context.logged);
    assert!(context.logged[0].contains("1 of 10;"), "{}", context.logged[0]);
    drain(context.sources.get_mut(&0).unwrap().as_mut(), context.sinks.get_mut(&0).unwrap().as_mut());
    assert_eq!(port.counters(0, Side::FromGuest).unwrap().counts().frames, 9);
    assert_eq!(port.counters(0, Side::ToGuest).unwrap().counts().frames, 9);
    assert!(port.counters(1, Side::ToGuest).is_none());

    context.sinks.clear();
    let why =
        QueueError::System { action: "write the recording", source: std::io::ErrorKind::StorageFull.into() };
    port.stopped(0, Side::ToGuest, why, &mut context);
    assert_eq!(context.logged.len(), 2);
    for said in [recorded.to_str().unwrap(), "write the recording", "make room"] {
        assert!(context.logged[1].contains(said), "{}", context.logged[1]);
    }
    port.end(&mut context);
    assert!(context.sources.is_empty() && context.sinks.is_empty());
    assert_eq!(all_frames(options(&recorded)), sent[..9]);
}

#[test]
fn a_port_that_cannot_start_leaves_nothing_plugged_in_and_no_file() {
    let folder = Folder::new();
    let garbage = folder.file("a", b"no capture at all, but some text");
    let mut context = TestContext::new();
    let recorded = folder.path("b");
    let mut port = Pcap::new(PcapOptions { record: Some(recorded.clone()), ..options(&garbage) });
    assert!(port.start(&mut context).is_err());
    let mut port = Pcap::new(PcapOptions::record(folder.path("none/b")));
    let error = port.start(&mut context).unwrap_err().to_string();
    assert!(error.contains("none/b") && error.contains("may write"), "{error}");
    assert!(context.sources.is_empty() && context.sinks.is_empty() && !recorded.exists());
}
