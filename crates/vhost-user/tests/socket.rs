//! The socket layer: pieces, deadlines, and paths.
mod common;

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::{Duration, Instant};

use common::{memfd, pair, soon};
use vhost_user::codec::Message;
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::header::Header;
use vhost_user::codec::payload::{MemoryRegion, MemoryTable};
use vhost_user::socket::{Connection, Listener, SocketError};
use virtio::Features;

#[test]
fn descriptors_arrive_in_order_and_close_on_exec() {
    let (mut a, mut b) = pair();
    let region = MemoryRegion { guest_address: 0, size_bytes: 1, user_address: 0, mmap_offset: 0 };
    let sent: Vec<_> = (0..8).map(|_| memfd()).collect();
    let inodes: Vec<_> = sent.iter().map(|fd| rustix::fs::fstat(fd).unwrap().st_ino).collect();
    let table = Request::SetMemTable(MemoryTable { regions: vec![region; 8] });
    a.send(table.to_message(sent), soon()).unwrap();
    let got = b.receive(soon()).unwrap();
    let arrived: Vec<_> = got.fds.iter().map(|fd| rustix::fs::fstat(fd).unwrap().st_ino).collect();
    assert_eq!(arrived, inodes);
    for fd in &got.fds {
        let flags = rustix::io::fcntl_getfd(fd).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }
}

#[test]
fn a_message_in_pieces_is_one_message() {
    let (mut writer, reader) = UnixStream::pair().unwrap();
    let mut connection = Connection::from(reader);
    let bytes = Request::SetFeatures(Features::VERSION_1).to_message(vec![]).to_bytes();
    for byte in &bytes[..bytes.len() - 1] {
        assert!(connection.try_receive().unwrap().is_none());
        writer.write_all(&[*byte]).unwrap();
        assert!(connection.try_receive().unwrap().is_none());
    }
    writer.write_all(&bytes[bytes.len() - 1..]).unwrap();
    let message = connection.try_receive().unwrap().unwrap();
    assert_eq!(Request::parse(&message), Ok(Request::SetFeatures(Features::VERSION_1)));
}

#[test]
fn messages_back_to_back_stay_apart() {
    let (mut a, mut b) = pair();
    for _ in 0..3 {
        a.send(Request::SetLogFd.to_message(vec![memfd()]), soon()).unwrap();
        a.send(Request::SetOwner.to_message(vec![]), soon()).unwrap();
    }
    for _ in 0..3 {
        assert_eq!(b.receive(soon()).unwrap().fds.len(), 1);
        assert_eq!(b.receive(soon()).unwrap().fds.len(), 0);
    }
}

#[test]
fn a_silent_peer_runs_into_the_deadline() {
    let (_silent, mut connection) = pair();
    let deadline = Some(Instant::now() + Duration::from_millis(20));
    assert!(matches!(connection.receive(deadline), Err(SocketError::Deadline { .. })));
}

#[test]
fn what_does_not_fit_now_is_sent_later() {
    let (mut a, mut b) = pair();
    let mut sent = 0;
    while a.try_send(Request::SetLogFd.to_message(vec![memfd()])).unwrap() {
        sent += 1;
        assert!(sent < 100_000, "the socket never fills");
    }
    let reader = thread::spawn(move || {
        for _ in 0..=sent {
            assert_eq!(b.receive(soon()).unwrap().fds.len(), 1);
        }
        assert!(b.try_receive().unwrap().is_none() || matches!(b.try_receive(), Err(SocketError::Closed)));
    });
    while !a.flush().unwrap() {
        thread::yield_now();
    }
    reader.join().unwrap();
}

/// Messages of many sizes against a small buffer: some go in two pieces, and pass their descriptors
/// once, with the first.
#[test]
fn messages_sent_in_pieces_pass_their_descriptors_once() {
    for size in (0..=4096u32).step_by(128) {
        let (writer, reader) = UnixStream::pair().unwrap();
        // The kernel rounds this up to its minimum.
        rustix::net::sockopt::set_socket_send_buffer_size(&writer, 1).unwrap();
        let (mut a, mut b) = (Connection::from(writer), Connection::from(reader));
        // A first one that takes part of the room, then large ones that find too little of it.
        let sizes = [size, 4096, 4096];
        for size in sizes {
            let header = Header { id: 99, reply: false, need_reply: false, size };
            let message = Message { header, payload: vec![7; size as usize], fds: vec![memfd().into()] };
            let _ = a.try_send(message).unwrap();
        }
        let mut received = 0;
        while received < sizes.len() {
            a.flush().unwrap();
            while let Some(message) = b.try_receive().unwrap() {
                assert_eq!((message.payload.len(), message.fds.len()), (sizes[received] as usize, 1));
                received += 1;
            }
        }
    }
}

/// As a child process does between its birth and its program.
#[test]
fn the_end_is_heard_while_somebody_holds_a_copy_of_the_descriptor() {
    let (mut a, mut b) = pair();
    let _copy = a.as_fd().try_clone_to_owned().unwrap();
    a.send(Request::SetOwner.to_message(vec![]), soon()).unwrap();
    drop(a);
    assert_eq!(Request::parse(&b.receive(soon()).unwrap()), Ok(Request::SetOwner), "what was sent arrives");
    assert!(matches!(b.receive(soon()), Err(SocketError::Closed)));
}

#[test]
fn a_stale_socket_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stale.sock");
    // As a crash leaves it: std does not remove the path.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let listener = Listener::bind(&path).unwrap();
    let _peer = Connection::connect(&path).unwrap();
    listener.accept(soon()).unwrap();
}

/// Only a socket that was just made may belong to a server that does not listen yet. With all of them waited for, it
/// would take 20 ms each.
#[test]
fn sockets_that_have_been_stale_for_long_are_replaced_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..20).map(|number| folder.path().join(format!("{number}.sock"))).collect();
    paths.iter().for_each(|path| drop(UnixListener::bind(path).unwrap()));
    thread::sleep(Duration::from_millis(50));
    let since = Instant::now();
    let listeners: Vec<_> = paths.iter().map(|path| Listener::bind(path).unwrap()).collect();
    let elapsed = since.elapsed();
    println!("{} stale sockets replaced in {elapsed:.1?}", listeners.len());
    assert!(elapsed < Duration::from_millis(200), "{elapsed:?}");
}

/// Every user who may open the folder can lock it, and keep the lock.
#[test]
fn a_lock_that_somebody_keeps_stops_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let lock = std::fs::File::open(folder.path()).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let path = folder.path().join("locked.sock");
    // A server that is gone has left it: only then is there a turn to take.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let (bound, binding) = std::sync::mpsc::channel();
    let thread = thread::spawn(move || bound.send(Listener::bind(&path)));
    let listener = binding.recv_timeout(Duration::from_secs(10)).expect("bind waits for the lock").unwrap();
    let _peer = Connection::connect(listener.path()).unwrap();
    listener.accept(soon()).unwrap();
    thread.join().unwrap().unwrap();
}

#[test]
fn a_live_socket_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("live.sock");
    let listener = Listener::bind(&path).unwrap();
    assert!(matches!(Listener::bind(&path), Err(SocketError::InUse(_))));
    let _peer = Connection::connect(&path).unwrap();
    // The probe came first and is gone.
    let mut probe = listener.accept(soon()).unwrap();
    assert!(matches!(probe.receive(soon()), Err(SocketError::Closed)));
    listener.accept(soon()).unwrap();
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("precious.txt");
    std::fs::write(&path, "precious").unwrap();
    assert!(matches!(Listener::bind(&path), Err(SocketError::NotASocket(_))));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

#[test]
fn a_listener_removes_its_own_path_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.sock");
    drop(Listener::bind(&path).unwrap());
    assert!(!path.exists());
    let listener = Listener::bind(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    drop(listener);
    assert!(path.exists());
}

#[test]
fn connecting_to_nobody_says_what_to_do() {
    let error = Connection::connect(std::path::Path::new("/nonexistent/vhost.sock")).unwrap_err();
    assert!(error.to_string().contains("is its server running?"), "{error}");
}

#[test]
fn an_event_loop_can_poll_it() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let (mut a, b) = pair();
    a.send(Request::SetOwner.to_message(vec![]), soon()).unwrap();
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut polled = [PollFd::new(&b, PollFlags::IN)];
    assert_eq!(poll(&mut polled, Some(&zero)).unwrap(), 1);
    let _borrowed = b.as_fd();
}

/// All find the stale socket of a crash, and start at the same moment.
#[test]
fn of_several_servers_that_start_at_once_one_listens() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..50 {
        let path = folder.path().join(format!("{round}.sock"));
        drop(UnixListener::bind(&path).unwrap());
        let starting = std::sync::Barrier::new(3);
        let listeners: Vec<_> = thread::scope(|scope| {
            let start = || {
                starting.wait();
                Listener::bind(&path)
            };
            let servers: Vec<_> = (0..3).map(|_| scope.spawn(start)).collect();
            servers.into_iter().map(|server| server.join().unwrap()).collect()
        });
        let living: Vec<_> = listeners.iter().flatten().collect();
        assert_eq!(living.len(), 1, "{listeners:?}");
        let _peer = Connection::connect(&path).unwrap();
        living[0].accept(soon()).unwrap();
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}
