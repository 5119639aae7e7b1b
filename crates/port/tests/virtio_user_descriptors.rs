//! Whatever a back-end says, the `virtio-user` port lives, and no descriptor stays open. One test alone in
//! its process, for it counts the process's descriptors.
mod common_driver;

use std::os::fd::OwnedFd;
use std::time::Instant;

use common_driver::attached::Attached;
use common_driver::backend::{BackEnd, Nature};
use common_driver::soon;
use port::virtio_user::VirtioUserOptions;
use vhost_user::codec::Message;
use vhost_user::codec::header::Header;
use vhost_user::socket::{Connection, Listener};

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Xorshift: the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// An answer that may be right in any part: a number, with flags, of some size, with descriptors.
fn answer(random: &mut Random, asked: &Message) -> Message {
    let id = if random.below(8) == 0 { random.below(48) as u32 } else { asked.header.id };
    let reply = random.below(8) != 0;
    let number = match random.below(4) {
        0 => 0u64,
        1 => u64::MAX,
        2 => 1 << 30 | 1 << 32 | 1 << 15,
        _ => 2,
    };
    let mut payload = number.to_ne_bytes().to_vec();
    if random.below(8) == 0 {
        payload.resize(random.below(64) as usize, 0x5a);
    }
    let fds = match random.below(8) {
        0 => (0..=random.below(8))
            .map(|_| OwnedFd::from(std::fs::File::open("/dev/null").unwrap()).into())
            .collect(),
        _ => vec![],
    };
    let header = Header { id, reply, need_reply: random.below(8) == 0, size: payload.len() as u32 };
    Message { header, payload, fds }
}

/// One connection of a back-end that answers at random until the port has enough.
fn babble(attached: &mut Attached, listener: &Listener, random: &mut Random) {
    let deadline = soon();
    let mut peer: Option<Connection> = None;
    let mut patience = 200;
    loop {
        assert!(Instant::now() < deadline, "the port goes on with a peer that babbles");
        attached.context.turn_now(&mut attached.port);
        match &mut peer {
            None => {
                attached.context.fast_forward(&mut attached.port);
                peer = listener.try_accept().unwrap();
            }
            Some(connection) => match connection.try_receive() {
                Ok(Some(asked)) => {
                    // Only the port knows which answer is due.
                    if asked.header.need_reply || asked.payload.is_empty() || random.below(4) == 0 {
                        let _ = connection.try_send(answer(random, &asked));
                    }
                }
                Ok(None) if patience == 0 => break,
                Ok(None) => patience -= 1,
                Err(_) => break,
            },
        }
    }
    drop(peer);
    attached.context.until_attached(&mut attached.port, 0);
}

fn cut_off_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vhost.sock");
    let mut back_end = BackEnd::new(&path, Nature::default());
    let mut attached = Attached::start(VirtioUserOptions::new(&path));
    for at in 0..40 {
        back_end.nature.closes_at = Some(at);
        let (peers, deadline) = (back_end.peers, soon());
        while back_end.peers == peers || back_end.is_connected() && attached.context.sinks.is_empty() {
            assert!(Instant::now() < deadline);
            if attached.context.sinks.is_empty() && !back_end.is_connected() {
                attached.context.fast_forward(&mut attached.port);
            }
            attached.context.turn_now(&mut attached.port);
            back_end.turn();
        }
        back_end.hang_up();
        attached.context.until_attached(&mut attached.port, 0);
    }
    attached.end();
}

fn answers_at_random() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vhost.sock");
    let listener = Listener::bind(&path).unwrap();
    let mut attached = Attached::start(VirtioUserOptions::new(&path));
    let mut random = Random(0x1234_5678_9abc_def1);
    for _ in 0..500 {
        babble(&mut attached, &listener, &mut random);
    }
    attached.end();
}

#[test]
fn no_descriptor_stays_open() {
    // The first eventfd of a process opens what all are notified by.
    drop(net_queues::device::EventFd::new().unwrap());
    let before = open_descriptors();
    // Threads of the port close them, soon.
    let are_closed = |after: &str| {
        let deadline = soon();
        while open_descriptors() != before {
            assert!(Instant::now() < deadline, "{} and not {before} {after}", open_descriptors());
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    };
    cut_off_everywhere();
    are_closed("after peers that left");
    answers_at_random();
    are_closed("after peers that babbled");
}
