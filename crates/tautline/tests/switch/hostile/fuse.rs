//! Files in user space whose server does not answer: a thread that accesses them waits, and not even SIGKILL ends the
//! wait.
//!
//! The file system is real, and its server this program once more, in namespaces in which every user may mount.
use std::ffi::CString;
use std::fs::File;
use std::io::{BufRead, BufReader, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use linux::Child;
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::SingleRegion;

use super::scene::Scene;
use crate::switch_process::guest::{DATA, DATA_BYTES, Guest, TRANSMIT, plain, region};
use crate::switch_process::{SwitchProcess, wait_for};

/// The folder in which the server mounts, and which no other process sees.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");
/// Tells the server that it is one.
const SERVES: &str = "TAUTLINE_TEST_SERVES_FILES";

/// Requests of the kernel (include/uapi/linux/fuse.h).
const LOOKUP: u32 = 1;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const STATFS: u32 = 17;
const INIT: u32 = 26;

#[test]
#[ignore = "the server of `memory_that_does_not_answer`, which starts it"]
fn server() {
    assert!(std::env::var_os(SERVES).is_some(), "it would mount over a folder that others see");
    let device = File::options().read(true).write(true).open("/dev/fuse").expect("/dev/fuse (modprobe fuse)");
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
    let options = CString::new(options).unwrap();
    mount("slow", FOLDER, "fuse", MountFlags::NOSUID | MountFlags::NODEV, &*options).unwrap();
    // Node 2, attributes that hold for no time, and those: a regular file of 1 MiB.
    let mut entry = [0; 32];
    for (at, value) in [(0, 2), (10, 2), (12, 1 << 20), (25, 0o100_666), (26, 1), (30, 4096)] {
        entry[at] = value;
    }
    let mut request = [0; 64 << 10];
    // A header of 40 bytes, among them the length, the request and its number.
    while (&device).read(&mut request).unwrap() >= 40 {
        let answer: &[u32] = match u32::from_ne_bytes(request[4..8].try_into().unwrap()) {
            GETATTR | READ | STATFS => continue,
            // Version 7.31, and writes of 4 KiB.
            INIT => &[7, 31, 0, 0, 0, 4096, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            LOOKUP => &entry,
            OPEN => &[0; 4],
            _ => &[],
        };
        let errno = if answer.is_empty() { -Errno::NOSYS.raw_os_error() } else { 0 };
        let payload = answer.iter().flat_map(|word| word.to_ne_bytes());
        let mut reply = [(16 + 4 * answer.len() as u32).to_ne_bytes(), errno.to_ne_bytes()].concat();
        reply.extend_from_slice(&request[8..16]);
        reply.extend(payload);
        // Some requests expect none.
        let _ = (&device).write(&reply);
    }
}

/// Until it is dropped. Threads that wait for it then continue.
struct SlowFiles(Child);

impl SlowFiles {
    fn mount() -> Self {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "--"]).arg(std::env::current_exe().unwrap());
        command.args(["--exact", "hostile::fuse::server", "--ignored", "--nocapture"]).env(SERVES, "1");
        SlowFiles(Child::spawn(command.stdin(Stdio::null()).stdout(Stdio::null())).unwrap())
    }

    fn path(&self) -> String {
        format!("/proc/{}/root{FOLDER}/a file that nobody has made", self.0.id())
    }

    fn open(&self) -> File {
        wait_for("the file system", || File::options().read(true).write(true).open(self.path()).ok())
    }
}

/// With the option that allows memory files and those of disks, and without it.
#[test]
fn memory_that_does_not_answer() {
    for options in ["", ",memory-backing=any"] {
        let mut scene = Scene::with_options(options);
        // Dropped before the switch, which it may keep from ending.
        let files = SlowFiles::mount();
        let file = files.open();
        let share = |guest: &mut Guest| {
            guest.share_memory();
            guest.start_ring(TRANSMIT);
            let extra = Request::AddMemReg(SingleRegion(region(DATA + 2 * DATA_BYTES, 1 << 20)));
            guest.send_raw(extra, vec![file.try_clone().unwrap().into()]);
        };
        scene.attacked(plain(), Some("may take long to close (/"), |scene, mut guest| {
            share(&mut guest);
            // The control thread is there for others.
            scene.friend_leaves();
            scene.friend_returns();
            guest.wait_until_closed();
        });
        // Again, and the switch is told to end.
        share(&mut Guest::connect(&scene.path(), plain()));
        scene.bystanders.all_is_well();
        let took = scene.switch.terminate();
        println!("SIGTERM beside memory that does not answer{options}: the switch ended after {took:?}");
        assert!(took < Duration::from_secs(4), "SIGTERM was heard after {took:?}");
    }
}

/// A request with this file.
fn ask(socket: &UnixStream, request: &str, file: &File) {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    let request = format!("{{\"version\":1,{request}}}\n");
    sendmsg(socket, &[IoSlice::new(request.as_bytes())], &mut control, SendFlags::empty()).unwrap();
}

/// A port is not added whose capture does not answer, and the control thread is kept for no longer than that takes to
/// find out.
#[test]
fn a_port_of_a_capture_that_does_not_answer() {
    let mut scene = Scene::with_control("");
    let files = SlowFiles::mount();
    drop(files.open());
    let path = files.path();
    for port in [format!("late=pcap:{path}"), format!("late=pcap:-,record={path}")] {
        let mut control = UnixStream::connect(scene.path_of("control")).unwrap();
        let request = format!("{{\"version\":1,\"command\":\"add\",\"port\":\"{port}\",\"allow\":[]}}\n");
        control.write_all(request.as_bytes()).unwrap();
        let took = scene.connect_again();
        println!("{port}: another front-end was served after {took:?}");
        assert!(took < Duration::from_secs(5), "{took:?}");
        control.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut outcome = String::new();
        BufReader::new(control).read_line(&mut outcome).unwrap();
        assert!(outcome.contains("its file system has not answered for a second"), "{outcome}");
    }
    scene.bystanders.assert_undisturbed("captures that do not answer");
    drop(files);
    scene.end();
}

/// The thread of the capture waits for the file system, and the control thread serves the ports.
#[test]
fn a_capture_to_files_that_do_not_answer() {
    let folder = tempfile::tempdir().unwrap();
    let control = folder.path().join("control");
    let with_control = ["--control".to_owned(), control.display().to_string()];
    let mut scene =
        Scene::with_switch(|arguments| SwitchProcess::start(&[arguments, &with_control].concat()));
    let files = SlowFiles::mount();
    let file = files.open();
    let capturing = UnixStream::connect(&control).unwrap();
    ask(&capturing, r#""command":"capture","port":"friend","snaplen":64"#, &file);
    scene.friend_leaves();
    scene.friend_returns();
    // A file that no request asked for is let go of elsewhere.
    let other = UnixStream::connect(&control).unwrap();
    other.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    ask(&other, r#""command":"ports""#, &file);
    let answer = |socket: &UnixStream| {
        let mut answer = String::new();
        BufReader::new(socket).read_line(&mut answer).unwrap();
        answer
    };
    let ports = answer(&other);
    assert!(ports.contains("\"friend\""), "{ports}");
    // Nothing was said of the capture: it waits still.
    capturing.set_nonblocking(true).unwrap();
    let error = (&capturing).read(&mut [0; 64]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    // Without its server the file system answers with errors.
    drop(files);
    capturing.set_nonblocking(false).unwrap();
    let outcome = answer(&capturing);
    assert!(outcome.contains("\"error\""), "{outcome}");
    scene.end();
}
