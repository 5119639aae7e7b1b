//! A kind of device other than a network card: one queue, whose buffers come back with the bytes that were read from
//! them.
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use vhost_device::testing::echo::Echo;
use vhost_device::testing::front_end::{BackEnd, FrontEnd};
use vhost_device::testing::guest_memory::DATA;
use vhost_device::{Backend, BackendOptions, Log, PlainContext};
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::{ConfigAccess, VringFd};
use vhost_user::session::frontend::Answer;
use vhost_user::socket::Connection;
use vhost_user::vring::VringBase;
use virtio::Features;
use virtqueue::Piece;

/// Lines of the log.
type Logged = Arc<Mutex<Vec<String>>>;

/// The device behind its socket, on a context of its own.
struct Host<L> {
    backend: Backend<Echo>,
    context: PlainContext<L>,
    logged: Logged,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

fn host() -> Host<impl FnMut(&dyn Display)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("echo.sock");
    let logged = Logged::default();
    let lines = Arc::clone(&logged);
    let mut context =
        PlainContext::new(move |line: &dyn Display| lines.lock().unwrap().push(line.to_string()));
    let options = BackendOptions::new(&path);
    let mut backend = Backend::new(Echo, Arc::new(Log::new("echo")), options).unwrap();
    backend.start(&mut context).unwrap();
    Host { backend, context, logged, path, _folder: folder }
}

impl<L: FnMut(&dyn Display)> Host<L> {
    fn turn(&mut self, limit: Duration) {
        for token in self.context.wait(limit).unwrap() {
            self.backend.ready(token, &mut self.context).unwrap();
        }
    }

    fn until<T>(&mut self, what: &str, mut holds: impl FnMut(&mut Backend<Echo>) -> Option<T>) -> T {
        // Only a failing test waits for it.
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            if let Some(held) = holds(&mut self.backend) {
                return held;
            }
            assert!(Instant::now() < deadline, "waited for: {what}; said {:#?}", self.logged());
            self.turn(Duration::from_millis(10));
        }
    }
}

impl<L: FnMut(&dyn Display)> BackEnd for Host<L> {
    fn serve(&mut self) {
        self.turn(Duration::ZERO);
    }

    fn wait(&mut self, _: &Connection) {
        self.turn(Duration::from_millis(10));
    }

    fn logged(&self) -> Vec<String> {
        self.logged.lock().unwrap().clone()
    }
}

/// A front-end that has said all of its ring but the kick.
fn front_end(host: &mut Host<impl FnMut(&dyn Display)>, wanted: Features) -> FrontEnd {
    let mut guest = FrontEnd { size: 16, ..FrontEnd::connect(&host.path).unwrap() };
    guest.agree(host, wanted);
    let Some(Answer::Features(offered)) = guest.ask(host, Request::GetFeatures, vec![]) else { panic!() };
    let offered = Features::from_bits_retain(offered.bits());
    assert!(offered.contains(wanted.union(Features::VHOST_LOG_ALL)), "{offered:?}");
    guest.share_memory(host);
    guest.prepare_ring(host, 0);
    guest
}

/// Starts the ring of a front-end.
fn start(host: &mut Host<impl FnMut(&dyn Display)>, guest: &mut FrontEnd) {
    let answer = guest.kick_off(host, 0);
    assert!(matches!(answer, Some(Answer::Done { .. })), "{answer:?}");
    guest.enable(host, 0, true);
}

/// Sends these bytes to the device, and returns those that come back.
fn exchange(host: &mut Host<impl FnMut(&dyn Display)>, guest: &mut FrontEnd, bytes: &[u8]) -> Vec<u8> {
    guest.write(DATA, bytes);
    let readable = [Piece { address: DATA, len: bytes.len() as u32 }];
    let writable = [Piece { address: DATA + 4096, len: 64 }];
    let cookie = guest.queue(0).next;
    guest.add_chain(0, &readable, &writable);
    let used = host.until("a buffer that comes back", |_| guest.used(0).pop());
    assert_eq!(used.cookie, cookie);
    let call = &guest.queue(0).call;
    assert_eq!(rustix::io::read(call, &mut [0; 8]), Ok(8), "the driver was not told");
    guest.read(DATA + 4096, used.written as usize)
}

#[test]
fn a_device_that_is_no_network_card_is_served() {
    let mut host = host();
    for wanted in [Features::VERSION_1, Features::VERSION_1.union(Features::RING_PACKED)] {
        let mut guest = front_end(&mut host, wanted);
        start(&mut host, &mut guest);
        for bytes in ["what is read comes back", "and once more"] {
            assert_eq!(exchange(&mut host, &mut guest, bytes.as_bytes()), bytes.as_bytes());
        }
        let config = Request::GetConfig(ConfigAccess { offset: 0, migration: false, bytes: vec![0; 3] });
        let answer = guest.ask(&mut host, config, vec![]);
        assert!(
            matches!(&answer, Some(Answer::Config(config)) if config.as_deref() == Some(&[7, 0, 0])),
            "{answer:?}"
        );
        let base = guest.stop_ring(&mut host, 0);
        if let VringBase::Split { next_available } = base {
            assert_eq!(next_available, 2);
        }
        drop(guest);
        host.until("gone", |backend| backend.features().is_none().then_some(()));
    }
}

#[test]
fn a_device_goes_on_in_another_process_and_its_front_end_does_not_notice() {
    let (mut old, mut new) = (host(), host());
    let mut guest = front_end(&mut old, Features::VERSION_1);
    start(&mut old, &mut guest);
    assert_eq!(exchange(&mut old, &mut guest, b"before"), b"before");

    // As the other process has it: the same options, and not started.
    new.backend.end(&mut new.context);
    let options = old.backend.options().clone();
    new.backend = Backend::new(Echo, Arc::new(Log::new("echo")), options).unwrap();
    let state = old.backend.hand_over(&mut old.context).unwrap();
    new.backend.take_over(state, &mut new.context).unwrap();
    old.backend.leave();
    assert_eq!(exchange(&mut new, &mut guest, b"after"), b"after");
    assert_eq!(guest.stop_ring(&mut new, 0), VringBase::Split { next_available: 2 });
}

#[test]
fn a_ring_of_the_control_thread_needs_a_kick() {
    let mut host = host();
    let mut guest = front_end(&mut host, Features::VERSION_1);
    let answer = guest.try_ask(&mut host, Request::SetVringKick(VringFd { index: 0, has_fd: false }), vec![]);
    assert!(matches!(answer, Some(Answer::Refused { .. })), "{answer:?}");
    let logged = host.logged.lock().unwrap();
    assert!(logged.iter().any(|line| line.contains("echo queue: a kick eventfd is needed")), "{logged:#?}");
}
