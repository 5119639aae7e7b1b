//! A port, and the front-end of a network device at it.
use std::ops::{Deref, DerefMut};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use frame::{DropReason, Side};
use port::Port;
use port::testing::TestContext;
use port::testing::front_end::{BackEnd, FrontEnd, is_readable_within};
use port::vhost_user::{VhostUser, VhostUserOptions};
use vhost_user::socket::{Connection, SocketError};
use virtio::{Features, NetFeatures};
use virtqueue::{Buffer, Direction, RingLayout, Used};

pub use port::testing::guest_memory::*;

use super::{SOON, deadline};

/// A port on its own context.
pub struct Host {
    pub port: VhostUser,
    pub context: TestContext,
    pub path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Host {
    pub fn new(change: impl FnOnce(&mut VhostUserOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("port.sock");
        let mut options = VhostUserOptions::new(&path);
        change(&mut options);
        let mut host = Host {
            port: VhostUser::new(options).unwrap(),
            context: TestContext::new(),
            path,
            _folder: folder,
        };
        host.port.start(&mut host.context).unwrap();
        host
    }

    pub fn turn(&mut self) {
        self.context.turn(&mut self.port, Duration::from_millis(10));
    }

    /// Serves the port until something holds.
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let deadline = deadline();
        while !holds(self) {
            assert!(Instant::now() < deadline, "waited for: {what}; said {:#?}", self.context.logged);
            self.turn();
        }
    }

    /// Moves one burst to another port.
    pub fn forward(&mut self, from: u16, to: &mut Host, to_pair: u16) -> usize {
        self.context.forward(&mut self.port, from, (&mut to.context, &mut to.port, to_pair))
    }

    pub fn drops(&self, pair: u16, side: Side, reason: DropReason) -> u64 {
        self.port.counters(pair, side).unwrap().drops(reason)
    }
}

impl BackEnd for Host {
    fn serve(&mut self) {
        self.turn();
    }

    fn wait(&mut self, _: &Connection) {
        self.turn();
    }

    fn logged(&self) -> Vec<String> {
        self.context.logged.clone()
    }
}

pub fn is_readable(fd: impl AsFd) -> bool {
    is_readable_within(fd, Duration::ZERO)
}

/// A front-end whose requests a port in this thread answers.
pub struct Guest(pub FrontEnd);

impl Deref for Guest {
    type Target = FrontEnd;

    fn deref(&self) -> &FrontEnd {
        &self.0
    }
}

impl DerefMut for Guest {
    fn deref_mut(&mut self) -> &mut FrontEnd {
        &mut self.0
    }
}

impl Guest {
    /// Connects, and agrees on what both ends have of these features.
    pub fn connect(host: &mut Host, wanted: Features) -> Self {
        let mut guest = Self::connect_bare(&host.path);
        guest.agree(host, wanted);
        guest
    }

    /// Connects and says nothing.
    pub fn connect_bare(path: &Path) -> Self {
        Self::over(Connection::connect(path).unwrap())
    }

    pub fn over(connection: Connection) -> Self {
        Guest(FrontEnd { uses_indirect_tables: true, ..FrontEnd::over(connection) })
    }

    /// A guest with one pair running.
    pub fn running(host: &mut Host, wanted: Features) -> Self {
        let mut guest = Self::connect(host, wanted);
        guest.share_memory(host);
        guest.start_ring(host, 0);
        guest.start_ring(host, 1);
        guest
    }

    /// Where the buffer with this cookie lies.
    pub fn buffer_at(index: u8, cookie: u32) -> u64 {
        FrontEnd::buffer_at(index, cookie)
    }

    pub fn mergeable(&self) -> bool {
        self.features.contains(NetFeatures::MRG_RXBUF)
    }

    /// Sends a frame with this net header in one buffer.
    pub fn send_with(&mut self, index: u8, header: &[u8; HEADER], frame: &[u8]) {
        let cookie = self.queues[&index].next;
        let at = FrontEnd::buffer_at(index, cookie);
        self.write(at, header);
        self.write(at + HEADER as u64, frame);
        let len = (HEADER + frame.len()) as u32;
        self.add(index, &[Buffer { address: at, len, cookie }], Direction::ToDevice);
    }

    pub fn send(&mut self, index: u8, frame: &[u8]) {
        self.send_with(index, &[0; HEADER], frame);
    }

    /// Posts receive buffers of this length.
    pub fn post(&mut self, index: u8, count: usize, len: u32) {
        for _ in 0..count {
            let cookie = self.queues[&index].next;
            let address = FrontEnd::buffer_at(index, cookie);
            self.add(index, &[Buffer { address, len, cookie }], Direction::FromDevice);
        }
    }

    /// Frames received, each with its net header, put together from merged buffers.
    pub fn received(&mut self, index: u8) -> Vec<(Vec<u8>, Vec<u8>)> {
        let used = self.used(index);
        self.put_together(index, used)
    }

    /// The frames in used buffers.
    pub fn put_together(&self, index: u8, used: Vec<Used>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut used = used.iter();
        let mut frames = Vec::new();
        while let Some(first) = used.next() {
            let mut bytes = self.read(FrontEnd::buffer_at(index, first.cookie), first.written as usize);
            assert!(bytes.len() >= HEADER, "{first:?}");
            let buffers = u16::from_le_bytes([bytes[10], bytes[11]]);
            assert!(self.mergeable() || buffers == 1, "{buffers} buffers without MRG_RXBUF");
            for _ in 1..buffers {
                let more = used.next().expect("as many buffers as the header says");
                bytes.extend(self.read(FrontEnd::buffer_at(index, more.cookie), more.written as usize));
            }
            let frame = bytes.split_off(HEADER);
            frames.push((bytes, frame));
        }
        frames
    }

    /// Whether the port has closed the connection.
    pub fn is_closed(&mut self, host: &mut Host) -> bool {
        let deadline = Instant::now() + SOON;
        while Instant::now() < deadline {
            host.turn();
            match self.connection.try_receive() {
                Err(SocketError::Closed) => return true,
                Ok(None) => {}
                // Acknowledgements of what came before.
                Ok(Some(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        false
    }
}

/// The layouts and features that a test goes through.
pub fn feature_sets() -> Vec<Features> {
    let mut sets = Vec::new();
    for layout in [RingLayout::Split, RingLayout::Packed] {
        for bits in 0..16u8 {
            let mut features = Features::empty().union(Features::VERSION_1);
            if layout == RingLayout::Packed {
                features = features.union(Features::RING_PACKED);
            }
            for (bit, feature) in [
                Features::IN_ORDER,
                NetFeatures::MRG_RXBUF,
                Features::RING_EVENT_IDX,
                Features::RING_INDIRECT_DESC,
            ]
            .into_iter()
            .enumerate()
            {
                if bits & (1 << bit) != 0 {
                    features = features.union(feature);
                }
            }
            sets.push(features);
        }
    }
    sets
}
