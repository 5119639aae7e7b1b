//! The device behind a real socket, with a front-end and the driver half of a ring, as QEMU has them: no feature of the
//! rings is agreed on, and no ring is enabled.
#[path = "common/messages.rs"]
mod messages;

use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crypto_device::{CryptoDevice, Limits};
use memory::Address;
use messages::{bytes, setup};
use vhost_device::testing::guest_memory::{
    DATA, DATA_BYTES, GuestMemory, RINGS, RINGS_BYTES, event_fd, ring_addresses, ring_at,
};
use vhost_device::{Backend, BackendOptions, EventFd, Log, PlainContext};
use vhost_user::bits::ProtocolFeatures;
use vhost_user::codec::crypto::{CreateCryptoSession, CryptoForm, CryptoSetup};
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::{VringFd, VringState};
use vhost_user::session::frontend::{Answer, FrontendSession};
use vhost_user::socket::Connection;
use virtio::Features;
use virtio::crypto::{Operation, Status};
use virtqueue::{DriverQueue, Piece, Position, QueueConfig, Request as Chain, RingFeatures};

/// NIST SP 800-38A, F.2.1: the first block of AES-128 in CBC.
const KEY: u128 = 0x2b7e_1516_28ae_d2a6_abf7_1588_09cf_4f3c;
const IV: u128 = 0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f;
const PLAIN: u128 = 0x6bc1_bee2_2e40_9f96_e93d_7e11_7393_172a;
const ENCIPHERED: u128 = 0x7649_abac_8119_b246_cee9_8e9b_12e9_197d;

/// Where the driver's indirect tables lie.
const TABLES: u64 = DATA + 0x1_0000;

/// The device and its front-end on one thread.
struct Set {
    backend: Backend<CryptoDevice>,
    context: PlainContext<fn(&dyn Display)>,
    connection: Connection,
    session: FrontendSession,
    _folder: tempfile::TempDir,
}

impl Set {
    fn new(limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("crypto.sock");
        let mut context: PlainContext<fn(&dyn Display)> = PlainContext::new(|line| eprintln!("{line}"));
        let log = Arc::new(Log::new("crypto"));
        let mut backend = Backend::new(CryptoDevice::new(limits), log, BackendOptions::new(&path)).unwrap();
        backend.start(&mut context).unwrap();
        let connection = Connection::connect(&path).unwrap();
        let mut set = Set { backend, context, connection, session: FrontendSession::new(), _folder: folder };
        set.begin();
        set
    }

    fn begin(&mut self) {
        self.ask(Request::SetOwner, vec![]);
        let Some(Answer::Features(_)) = self.ask(Request::GetFeatures, vec![]) else { panic!() };
        let Some(Answer::ProtocolFeatures(offered)) = self.ask(Request::GetProtocolFeatures, vec![]) else {
            panic!()
        };
        let wanted = ProtocolFeatures::CRYPTO_SESSION | ProtocolFeatures::REPLY_ACK;
        assert!(offered.contains(wanted), "{offered:?}");
        self.ask(Request::SetProtocolFeatures(wanted), vec![]);
        self.ask(Request::SetFeatures(Features::VHOST_PROTOCOL_FEATURES), vec![]);
    }

    fn until<T>(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> Option<T>) -> T {
        // Only a failing test waits for it.
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            if let Some(held) = holds(self) {
                return held;
            }
            assert!(Instant::now() < deadline, "waited for: {what}");
            for token in self.context.wait(Duration::from_millis(10)).unwrap() {
                self.backend.ready(token, &mut self.context).unwrap();
            }
        }
    }

    /// Until the device waits for a kick.
    fn settle(&mut self) {
        self.until("a device that waits for a kick", |set| {
            let ready = set.context.wait(Duration::ZERO).unwrap();
            ready.iter().for_each(|token| set.backend.ready(*token, &mut set.context).unwrap());
            ready.is_empty().then_some(())
        });
    }

    fn ask(&mut self, request: Request, fds: Vec<OwnedFd>) -> Option<Answer> {
        let message = self.session.request(request, fds).unwrap();
        self.connection.try_send(message).unwrap();
        if !self.session.is_waiting() {
            return None;
        }
        let reply = self.until("a reply", |set| set.connection.try_receive().unwrap());
        Some(self.session.receive(reply).unwrap())
    }

    fn create(&mut self, form: CryptoForm, setup: Option<CryptoSetup>) -> Option<u64> {
        let create = Box::new(CreateCryptoSession { form, setup });
        match self.ask(Request::CreateCryptoSession(create), vec![]) {
            Some(Answer::CryptoSession(number)) => number,
            other => panic!("{other:?}"),
        }
    }

    fn close(&mut self, number: u64) {
        let answer = self.ask(Request::CloseCryptoSession(number), vec![]);
        assert!(matches!(answer, Some(Answer::Done { .. })), "{answer:?}");
    }
}

/// A guest with one ring.
struct Guest {
    memory: GuestMemory,
    driver: Box<dyn DriverQueue>,
    kick: OwnedFd,
    call: EventFd,
}

impl Guest {
    /// Shares memory and starts a ring, which the driver uses with these features.
    fn start(set: &mut Set, used: Features) -> Self {
        let memory = GuestMemory::new(c"crypto", &[(RINGS, RINGS_BYTES), (DATA, DATA_BYTES)]);
        let features = RingFeatures::from(used);
        let (descriptors, driver_area, device_area) = ring_at(0);
        let position = Position::start(features.layout);
        let ring = QueueConfig {
            features,
            size: 16,
            descriptors: Address::Guest(descriptors),
            driver_area: Address::Guest(driver_area),
            device_area: Address::Guest(device_area),
            position,
        };
        let driver = ring.activate_driver(&memory.space, Some((Address::Guest(TABLES), 4))).unwrap();
        let (kick, call) = (event_fd(), EventFd::new().unwrap());
        let (table, files) = memory.table();
        set.ask(Request::SetMemTable(table), files);
        set.ask(Request::SetVringNum(VringState { index: 0, num: 16 }), vec![]);
        set.ask(Request::SetVringBase(VringState { index: 0, num: position.to_vring_base() }), vec![]);
        set.ask(Request::SetVringAddr(ring_addresses(0)), vec![]);
        let shared = call.share().unwrap();
        set.ask(Request::SetVringCall(VringFd { index: 0, has_fd: true }), vec![shared]);
        let shared = kick.try_clone().unwrap();
        let answer = set.ask(Request::SetVringKick(VringFd { index: 0, has_fd: true }), vec![shared]);
        assert!(matches!(answer, Some(Answer::Done { .. })), "{answer:?}");
        // The kick may be looked for once before there is a request, and a request must not depend on that.
        set.settle();
        call.drain();
        Guest { memory, driver, kick, call }
    }

    /// Passes on a request of AES-CBC; gives the status and the result.
    fn cbc(&mut self, set: &mut Set, session: u64, encrypt: bool, data: u128) -> (Status, u128) {
        let operation = Operation::Cipher { encrypt, iv_len: 16, src_data_len: 16, dst_data_len: 16 };
        let request = bytes(session, operation, &[&IV.to_be_bytes(), &data.to_be_bytes()]);
        self.memory.write(DATA, &request);
        self.memory.write(DATA + 4096, &[0xee; 17]);
        // The status lies apart, as Linux's driver has it.
        let readable = [Piece { address: DATA, len: request.len() as u32 }];
        let writable = [Piece { address: DATA + 4096, len: 16 }, Piece { address: DATA + 4096 + 16, len: 1 }];
        let chain = Chain { readable: &readable, writable: &writable, cookie: 5 };
        // The turn of the last request may have ended before the device asked for kicks.
        set.settle();
        assert_eq!(self.driver.add_requests(&[chain]), 1);
        assert!(self.driver.needs_kick(), "the device waits for no kick");
        rustix::io::write(&self.kick, &1u64.to_ne_bytes()).unwrap();
        let driver = &mut self.driver;
        let used = set.until("a used request", |_| {
            let mut used = Vec::new();
            driver.reclaim(&mut used, 16).unwrap();
            used.pop()
        });
        assert_eq!(used.cookie, 5);
        assert!(self.call.drain() > 0, "the driver was not called");
        let written = self.memory.read(DATA + 4096, 17);
        let status = Status::from_code(written[16]).unwrap();
        assert_eq!(used.written, if status == Status::Ok { 17 } else { 0 });
        (status, u128::from_be_bytes(written[..16].try_into().unwrap()))
    }
}

fn aes_cbc() -> Option<CryptoSetup> {
    Some(setup(2, 3, &KEY.to_be_bytes(), 0))
}

/// A driver uses what it has agreed on with QEMU, all of it or nothing; the back-end is told nothing either way.
#[test]
fn requests_are_served_whatever_ring_features_the_driver_uses() {
    for used in [Features::empty(), Features::RING_EVENT_IDX.union(Features::RING_INDIRECT_DESC)] {
        for form in [CryptoForm::NumberFirst, CryptoForm::OperationFirst] {
            let mut set = Set::new(Limits::default());
            let mut guest = Guest::start(&mut set, used);
            let session = set.create(form, aes_cbc()).unwrap();
            for _ in 0..40 {
                assert_eq!(guest.cbc(&mut set, session, true, PLAIN), (Status::Ok, ENCIPHERED));
                assert_eq!(guest.cbc(&mut set, session, false, ENCIPHERED), (Status::Ok, PLAIN));
            }
            set.close(session);
            let (status, result) = guest.cbc(&mut set, session, true, PLAIN);
            assert_eq!((status, result.to_be_bytes()), (Status::InvalidSession, [0xee; 16]));
        }
    }
}

#[test]
fn a_session_that_cannot_be_is_refused_and_the_connection_goes_on() {
    let mut set = Set::new(Limits { sessions: 2, ..Limits::default() });
    let form = CryptoForm::OperationFirst;
    assert_eq!(set.create(form, Some(setup(2, 3, &[7; 15], 0))), None, "a key of another length");
    assert_eq!(set.create(form, None), None, "an asymmetric key");
    let [first, second] = [(); 2].map(|()| set.create(form, aes_cbc()).unwrap());
    assert_ne!(first, second);
    assert_eq!(set.create(form, aes_cbc()), None, "one more than there may be");
    // Sessions of an earlier process do not exist; requests to close them do no harm.
    for number in [first, first, 4711, u64::MAX] {
        set.close(number);
    }
    assert!(set.create(form, aes_cbc()).is_some());
    // Other features: the driver begins anew, and its former sessions are gone.
    set.ask(Request::SetFeatures(Features::VHOST_PROTOCOL_FEATURES.union(Features::VERSION_1)), vec![]);
    let later = [(); 2].map(|()| set.create(form, aes_cbc()).unwrap());
    assert!(later.iter().all(|number| *number > second), "{later:?}");
}

/// CVE-2024-3446 (a device that is entered again through its own registers): buffers that lie in the ring, its tables or
/// each other. The device has no registers in the guest's memory; what it overwrites is the driver's own ring, which may
/// be malformed then.
#[test]
fn buffers_within_the_ring_itself_cost_the_driver_its_ring_and_nothing_else() {
    let (descriptors, driver_area, device_area) = ring_at(0);
    let own = [descriptors, driver_area, device_area, TABLES, DATA];
    for used in [Features::empty(), Features::RING_EVENT_IDX.union(Features::RING_INDIRECT_DESC)] {
        for (source, destination) in own.iter().flat_map(|from| own.map(|to| (*from, to))) {
            let mut set = Set::new(Limits::default());
            let mut guest = Guest::start(&mut set, used);
            let session = set.create(CryptoForm::OperationFirst, aes_cbc()).unwrap();
            let operation =
                Operation::Cipher { encrypt: true, iv_len: 16, src_data_len: 256, dst_data_len: 256 };
            guest.memory.write(DATA, &bytes(session, operation, &[&IV.to_be_bytes()]));
            let readable = [Piece { address: DATA, len: 88 }, Piece { address: source, len: 256 }];
            let writable =
                [Piece { address: destination, len: 256 }, Piece { address: destination + 3, len: 1 }];
            let chain = Chain { readable: &readable, writable: &writable, cookie: 5 };
            assert_eq!(guest.driver.add_requests(&[chain]), 1);
            // Twice: the second time over what the first request has written.
            for _ in 0..2 {
                rustix::io::write(&guest.kick, &1u64.to_ne_bytes()).unwrap();
                set.settle();
            }
            assert!(
                set.create(CryptoForm::OperationFirst, aes_cbc()).is_some(),
                "{source:#x} {destination:#x}"
            );
        }
    }
}
