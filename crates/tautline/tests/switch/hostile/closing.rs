//! Descriptors that take long to close, however the front-end has hidden that: the control thread closes none of them,
//! so a client of the control socket and other front-ends are served meanwhile.
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::VringFd;

use super::descriptors::Lingering;
use super::scene::Scene;
use crate::switch_process::guest::{Guest, TRANSMIT, plain};
use crate::switch_process::{SOON, SwitchProcess};

/// No other client of the control thread waits for longer. A socket that lingers takes an hour; this much is for a
/// machine that is busy.
const MAX_LATENCY: Duration = Duration::from_millis(700);

/// A client of the control socket, in a thread of its own: it asks for the ports again and again.
struct Client {
    end: Arc<AtomicBool>,
    worst_ns: Arc<AtomicU64>,
    answers: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    fn start(control: PathBuf) -> Self {
        let end = Arc::<AtomicBool>::default();
        let (worst_ns, answers) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let thread = {
            let (end, worst_ns, answers) = (Arc::clone(&end), Arc::clone(&worst_ns), Arc::clone(&answers));
            std::thread::spawn(move || {
                while !end.load(Ordering::Relaxed) {
                    let since = Instant::now();
                    ask(&control);
                    worst_ns.fetch_max(since.elapsed().as_nanos() as u64, Ordering::Relaxed);
                    answers.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(2));
                }
            })
        };
        Client { end, worst_ns, answers, thread: Some(thread) }
    }

    /// It was answered all along: asks some more, and looks at the worst.
    #[track_caller]
    fn assert_undisturbed(mut self, by: &str) {
        let (before, deadline) = (self.answers.load(Ordering::Relaxed), Instant::now() + SOON);
        while self.answers.load(Ordering::Relaxed) < before + 3 {
            assert!(Instant::now() < deadline, "ctl is not answered beside {by}");
            std::thread::sleep(Duration::from_millis(1));
        }
        self.end.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        let worst = Duration::from_nanos(self.worst_ns.load(Ordering::Relaxed));
        let answers = self.answers.load(Ordering::Relaxed);
        println!("ctl beside {by}: worst latency {worst:.1?} of {answers} answers");
        assert!(worst < MAX_LATENCY, "ctl was answered after {worst:?} beside {by}");
    }
}

fn ask(control: &Path) {
    let mut socket = UnixStream::connect(control).unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    socket.write_all(b"{\"version\":1,\"command\":\"ports\"}\n").unwrap();
    socket.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\"ok\""), "{answer}");
}

/// A front-end does this and goes; a client of the control socket, a bystander and a neighbour are served all along.
#[track_caller]
fn beside(what: &str, said: Option<&str>, attack: impl FnOnce(&mut Scene, Guest)) {
    let folder = tempfile::tempdir().unwrap();
    let control = folder.path().join("control");
    let mut scene = Scene::with_switch(|arguments| {
        let with_control = [arguments, &["--control".to_owned(), control.display().to_string()]].concat();
        SwitchProcess::start(&with_control)
    });
    scene.attacked(plain(), said, |scene, mut guest| {
        guest.share_memory();
        guest.start_ring(TRANSMIT);
        let client = Client::start(control);
        attack(scene, guest);
        let since = Instant::now();
        scene.friend_leaves();
        scene.friend_returns();
        println!("a neighbour beside {what}: connected anew after {:.1?}", since.elapsed());
        client.assert_undisturbed(what);
    });
    scene.end();
}

/// A Unix socket in whose queue a socket lies that lingers: closing the one closes the other. To be called while the
/// switch stands still, like the closing of `beside`: the last reference is then the switch's.
fn holds_a_lingering_socket(lingering: &mut Lingering) -> (OwnedFd, UnixStream) {
    let (passed, kept) = UnixStream::pair().unwrap();
    let fd = lingering.take();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    sendmsg(&kept, &[std::io::IoSlice::new(b"x")], &mut control, SendFlags::NOSIGNAL).unwrap();
    (passed.into(), kept)
}

/// As the socket of the back-end's requests it is kept by the connection, the watch and the journal; in each other
/// message it is closed for what it is.
#[test]
fn sockets_that_hold_a_socket_that_lingers() {
    let ring = VringFd { index: TRANSMIT, has_fd: true };
    for (request, refused) in [
        (Request::SetBackendReqFd, false),
        (Request::SetLogFd, false),
        (Request::SetVringErr(ring), false),
        (Request::SetVringCall(ring), true),
    ] {
        let mut lingering = Lingering::new();
        let name = request.rule().name;
        beside(&format!("a socket in a socket ({name})"), None, |scene, mut guest| {
            scene.switch.paused(|| {
                let (passed, kept) = holds_a_lingering_socket(&mut lingering);
                guest.send_raw(request, vec![passed]);
                drop(kept);
            });
            if refused {
                guest.wait_until_closed();
            }
        });
    }
}

/// How many watches the set has: closing it takes about a microsecond for each.
const WATCHES: usize = 1_500_000;

/// An epoll set that watches so much. A watch stays when the number of its descriptor is closed and the descriptor is
/// not, so that few eventfds have a watch for each number that a descriptor may have.
fn watches_much(eventfds: &[OwnedFd]) -> OwnedFd {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let numbers = 1000..i32::try_from(limit.maximum.unwrap_or(20_000).min(20_000)).unwrap();
    let all = eventfds.iter().flat_map(|eventfd| numbers.clone().map(move |number| (eventfd, number)));
    for (eventfd, number) in all.take(WATCHES) {
        let duplicate = fcntl_dupfd_cloexec(eventfd, number).unwrap();
        let added = epoll::add(&set, &duplicate, epoll::EventData::new_u64(0), epoll::EventFlags::IN);
        // Where another thread has the number, the next free one comes twice.
        assert!(matches!(added, Ok(()) | Err(Errno::EXIST)), "{added:?}");
    }
    set
}

/// An epoll set that watches very many descriptors leaves them all when it is closed.
#[test]
fn a_set_of_very_many_watches() {
    let eventfds: Vec<OwnedFd> = (0..100).map(|_| eventfd(0, EventfdFlags::CLOEXEC).unwrap()).collect();
    let set = watches_much(&eventfds);
    beside("an epoll set", None, |scene, mut guest| {
        scene.switch.paused(|| guest.send_raw(Request::SetBackendReqFd, vec![set]));
        guest.wait_until_closed();
    });
}
