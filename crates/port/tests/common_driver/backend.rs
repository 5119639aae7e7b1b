//! A back-end in this process: what the transmitq brings goes back over the receiveq of the same pair.
use std::collections::BTreeMap;

use std::path::Path;
use std::sync::Arc;

use memory::{Address, AddressSpace, Region, RegionRange, SharedSlice};
use vhost_user::SharedFd;
use vhost_user::bits::ProtocolFeatures as P;
use vhost_user::codec::Message;
use vhost_user::session::backend::{BackendSession, DeviceStatus, Event, Offer, Received, Sent};
use vhost_user::session::{Refusal, SessionError};
use vhost_user::socket::{Connection, Listener};
use vhost_user::vring::VringBase;
use virtio::net::NetHeader;
use virtio::{Features, NetFeatures};
use virtqueue::{Burst, DeviceOptions, DeviceQueue, Position, QueueConfig, RingFeatures};

const HEADER_BYTES: usize = NetHeader::BYTES;

/// How the back-end behaves.
#[derive(Clone)]
pub struct Nature {
    pub features: Features,
    pub protocol: P,
    pub pairs: u16,
    /// The back-end ends the connection instead of taking this message of it, counted from 0.
    pub closes_at: Option<usize>,
    /// The back-end refuses this event.
    pub refuses: Option<&'static str>,
    /// The back-end answers nothing at all.
    pub silent: bool,
}

impl Default for Nature {
    fn default() -> Self {
        let net = [
            NetFeatures::MRG_RXBUF,
            NetFeatures::MQ,
            NetFeatures::MTU,
            NetFeatures::CSUM,
            NetFeatures::GUEST_CSUM,
            NetFeatures::GUEST_TSO4,
            NetFeatures::HOST_TSO4,
        ];
        Nature {
            features: RingFeatures::supported() | net.into_iter().collect(),
            protocol: P::MQ | P::REPLY_ACK | P::MTU | P::STATUS | P::CONFIGURE_MEM_SLOTS | P::BACKEND_REQ,
            pairs: 4,
            closes_at: None,
            refuses: None,
            silent: false,
        }
    }
}

pub struct Ring {
    pub config: QueueConfig,
    pub device: Box<dyn DeviceQueue>,
    pub call: Option<SharedFd>,
    pub err: Option<SharedFd>,
    pub enabled: bool,
}

struct Peer {
    connection: Connection,
    session: BackendSession,
    messages: usize,
}

pub struct BackEnd {
    listener: Listener,
    pub nature: Nature,
    peer: Option<Peer>,
    /// How many peers have come.
    pub peers: usize,
    /// Messages that the latest peer has sent.
    pub messages: usize,
    pub features: Features,
    space: Arc<AddressSpace>,
    pub rings: BTreeMap<u8, Ring>,
    pub status: u8,
    pub mtu_bytes: u16,
}

impl BackEnd {
    pub fn new(path: &Path, nature: Nature) -> Self {
        BackEnd {
            listener: Listener::bind(path).unwrap(),
            nature,
            peer: None,
            peers: 0,
            messages: 0,
            features: Features::empty(),
            space: Arc::default(),
            rings: BTreeMap::new(),
            status: 0,
            mtu_bytes: 0,
        }
    }

    /// Closes the connection.
    pub fn hang_up(&mut self) {
        self.peer = None;
        self.rings.clear();
        self.space = Arc::default();
        self.status = 0;
    }

    pub fn is_connected(&self) -> bool {
        self.peer.is_some()
    }

    /// Says that a ring is malformed.
    pub fn warn(&self, ring: u8) {
        let err = self.rings[&ring].err.as_ref().unwrap();
        rustix::io::write(err, &1u64.to_ne_bytes()).unwrap();
    }

    /// Sends a message without a request.
    pub fn chatter(&mut self) {
        let request = vhost_user::codec::frontend_request::FrontendRequest::GetFeatures;
        let message = request.to_message(vec![]);
        self.peer.as_mut().unwrap().connection.try_send(message).unwrap();
    }

    /// Takes what has come, and passes frames.
    pub fn turn(&mut self) {
        if self.peer.is_none()
            && let Some(connection) = self.listener.try_accept().unwrap()
        {
            let (features, queues) = (self.nature.features.bits(), 2 * self.nature.pairs);
            let features = Features::from_bits_retain(features);
            let offer = Offer::new(features, self.nature.protocol, queues.max(1)).unwrap();
            let session = BackendSession::new(offer.report_queues(self.nature.pairs));
            self.peer = Some(Peer { connection, session, messages: 0 });
            self.peers += 1;
        }
        while !self.nature.silent
            && let Some(mut peer) = self.peer.take()
        {
            if self.nature.closes_at == Some(peer.messages) {
                return self.hang_up();
            }
            match peer.connection.try_receive() {
                Ok(None) => {
                    self.peer = Some(peer);
                    break;
                }
                Err(_) => return self.hang_up(),
                Ok(Some(message)) => {
                    peer.messages += 1;
                    self.messages = peer.messages;
                    match self.act(&mut peer.session, message) {
                        Ok(reply) => {
                            // The peer may be gone; the next look says so.
                            let _ = reply.map(|reply| peer.connection.try_send(reply));
                            self.peer = Some(peer);
                        }
                        Err(error) => {
                            println!("back-end: {error}");
                            return self.hang_up();
                        }
                    }
                }
            }
        }
        for pair in 0..4 {
            self.pass(2 * pair, 2 * pair + 1);
        }
    }

    fn act(
        &mut self,
        session: &mut BackendSession,
        message: Message,
    ) -> Result<Option<Message>, SessionError> {
        match session.receive(message)? {
            Received::Nothing => Ok(None),
            Received::Reply(reply) => Ok(Some(reply)),
            Received::Rejected(_, violation) => panic!("{violation}"),
            Received::Event(event) => Ok(self.event(session, event)?.reply),
        }
    }

    fn event(&mut self, session: &mut BackendSession, event: Event) -> Result<Sent, SessionError> {
        let name = format!("{event:?}");
        let refused = self.nature.refuses.is_some_and(|refused| name.starts_with(refused));
        let outcome = if refused { Err(Refusal::new("as the test wants it")) } else { Ok(()) };
        match event {
            Event::FeaturesSet { features, done } => {
                self.features = Features::from_bits_retain(features.bits());
                session.answer(done, outcome)
            }
            Event::MemoryTableSet { regions, done } => {
                let regions = regions.iter().map(|shared| {
                    let region = shared.region;
                    let (guest, user) = (region.guest_address, region.user_address);
                    Region::map(
                        &shared.file,
                        RegionRange {
                            offset: region.mmap_offset,
                            size: region.size_bytes,
                            guest_base: guest,
                            user_base: user,
                        },
                    )
                    .unwrap()
                });
                self.space = Arc::new(AddressSpace::from_regions(regions).unwrap());
                session.answer(done, outcome)
            }
            Event::VringStarted { index, config, call, err, enabled, done, .. } => {
                let features = RingFeatures::from(self.features);
                let config = QueueConfig {
                    features,
                    size: config.size.get().into(),
                    descriptors: Address::User(config.addresses.descriptor),
                    driver_area: Address::User(config.addresses.driver),
                    device_area: Address::User(config.addresses.device),
                    position: Position::start(features.layout),
                };
                let device = config.activate_device(&self.space, DeviceOptions::default()).unwrap();
                self.rings.insert(index.get(), Ring { config, device, call, err, enabled });
                session.answer(done, outcome)
            }
            Event::VringEnabled { index, enabled, done } => {
                if let Some(ring) = self.rings.get_mut(&index.get()) {
                    ring.enabled = enabled;
                }
                session.answer(done, outcome)
            }
            Event::VringCallChanged { done, .. } => session.answer(done, outcome),
            Event::MtuSet { mtu_bytes, done } => {
                self.mtu_bytes = mtu_bytes;
                session.answer(done, outcome)
            }
            Event::StatusSet { status, done } => {
                self.status = status;
                session.answer(done, outcome)
            }
            Event::StatusRead { answer } => {
                session.answer(answer, DeviceStatus(if refused { 0 } else { self.status }))
            }
            Event::VringStopped { index, answer } => {
                self.rings.remove(&index.get());
                session.answer(answer, VringBase::Split { next_available: 0 })
            }
            other => panic!("{other:?}"),
        }
    }

    /// One burst from a transmitq to a receiveq.
    fn pass(&mut self, receiveq: u8, transmitq: u8) {
        let mergeable = self.features.contains(NetFeatures::MRG_RXBUF);
        let Some(mut to) = self.rings.remove(&receiveq) else { return };
        let Some(from) = self.rings.get_mut(&transmitq) else {
            self.rings.insert(receiveq, to);
            return;
        };
        if from.enabled && to.enabled {
            let (mut taken, mut filled) = (Burst::new(8), Burst::new(128));
            from.device.pop(&mut taken, 8).unwrap();
            for chain in taken.chains() {
                let mut bytes = vec![0; chain.readable_bytes() as usize];
                chain.read(0, &mut bytes);
                assert_eq!(bytes[10..12], [0, 0], "num_buffers of a frame that is sent");
                fill(to.device.as_mut(), &mut filled, &mut bytes, mergeable);
            }
            from.device.add_used_all(&mut taken);
            to.device.add_used_all(&mut filled);
            if to.device.needs_call()
                && let Some(call) = &to.call
            {
                rustix::io::write(call, &1u64.to_ne_bytes()).unwrap();
            }
        }
        self.rings.insert(receiveq, to);
    }

    /// Writes to the device area of a ring as no device should.
    pub fn scribble(&self, ring: u8, offset: u64, bytes: &[u8]) {
        let region = &self.space.regions()[0];
        let at = self.rings[&ring].config.device_area.value() - region.user_base() + offset;
        SharedSlice::of_mapping(region.mapping()).slice(at as usize, bytes.len()).write(bytes);
    }
}

/// Takes as many buffers as the frame needs and writes it there.
fn fill(device: &mut dyn DeviceQueue, burst: &mut Burst, bytes: &mut [u8], mergeable: bool) {
    let first = burst.len();
    let mut room = 0;
    while room < bytes.len() {
        assert_eq!(device.pop(burst, 1).unwrap(), 1, "a buffer for a frame");
        room += burst.chain(burst.len() - 1).writable_bytes() as usize;
        assert!(mergeable || room >= bytes.len(), "a frame of {} bytes in {room}", bytes.len());
    }
    bytes[10..HEADER_BYTES].copy_from_slice(&((burst.len() - first) as u16).to_le_bytes());
    let mut at = 0;
    for index in first..burst.len() {
        let written = burst.chain(index).write(0, &bytes[at..]);
        burst.set_written(index, written as u32);
        at += written;
    }
}
