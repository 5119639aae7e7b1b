//! From a connection to running queues: the messages to the back-end, and their order.
//!
//! ```text
//!   GET_FEATURES
//!   GET_PROTOCOL_FEATURES, SET_PROTOCOL_FEATURES, GET_QUEUE_NUM   if the back-end has them
//!   SET_OWNER, SET_STATUS, SET_FEATURES, GET_STATUS, NET_SET_MTU
//!   SET_MEM_TABLE                                                  one region with everything in it
//!   each ring: SET_VRING_CALL, _ERR, _NUM, _BASE, _ADDR, _KICK     it starts with the kick
//!   each ring: SET_VRING_ENABLE;  SET_STATUS
//! ```
//!
//! With REPLY_ACK, each message is acknowledged before the next one is sent. Without it, GET_FEATURES is sent once
//! more at the end, because its answer means that all messages before it were accepted. The order is that of the
//! front-ends of DPDK and QEMU. No channel for requests of the back-end is offered. A network device needs one only
//! for the IOTLB, the configuration space or host notifiers, and none of these is agreed on.
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use frame::PairCounters;
use memory::PeerMemory;
use vhost_device::EventFd;
use vhost_user::bits::ProtocolFeatures;
use vhost_user::codec::Message;
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::{MemoryRegion, MemoryTable, VringAddress, VringFd, VringState};
use vhost_user::session::SessionError;
use vhost_user::session::frontend::{Answer, FrontendSession};
use virtio::net::Accepts;
use virtio::{Features, NetFeatures};
use virtqueue::{ActivateError, DriverQueue, RingFeatures, RingLayout};

use super::options::{VirtioUserOptions, agree};
use net_queues::driver::{DriverMemory, LentPages, Receive, Transmit};

/// Device status (VIRTIO 1.3 §2.1).
mod status {
    pub const ACKNOWLEDGE: u64 = 1;
    pub const DRIVER: u64 = 2;
    pub const DRIVER_OK: u64 = 4;
    pub const FEATURES_OK: u64 = 8;
}

/// Why the handshake failed. The connection must be closed.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error("the back-end lacks VIRTIO_F_VERSION_1; use one of this decade")]
    Legacy,
    #[error("the back-end has no queues")]
    NoQueues,
    #[error("the back-end refused {0}; its log may say why")]
    Refused(&'static str),
    #[error("the back-end does not accept the features {}; leave some out", NetFeatures(*_0))]
    Features(Features),
    #[error("the back-end answered what was not asked")]
    Surprise,
    #[error("cannot {what}: {source}{}", remedy(what))]
    System { what: &'static str, source: io::Error },
    #[error("cannot make a queue: {0}")]
    Queue(#[from] ActivateError),
}

const MAKE_MEMORY: &str = "make the memory of the rings and buffers";

fn remedy(what: &str) -> &'static str {
    match what {
        MAKE_MEMORY => "; with huge pages, raise vm.nr_hugepages or leave the option out",
        _ => "; raise the limit of open files (ulimit -n) if it is low",
    }
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> HandshakeError {
    move |source| HandshakeError::System { what, source }
}

fn event() -> Result<EventFd, HandshakeError> {
    EventFd::new().map_err(system("make an eventfd"))
}

fn share(event: &EventFd) -> Result<OwnedFd, HandshakeError> {
    event.share().map_err(system("share an eventfd"))
}

/// The agreed features.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agreement {
    pub features: Features,
    pub pairs: u16,
}

/// The running queues and their descriptors.
pub(super) struct Established {
    pub agreement: Agreement,
    pub pairs: Vec<Pair>,
    /// Readable when the back-end finds a ring malformed.
    pub error: EventFd,
    /// Readable when memory is lost.
    pub memory: Arc<PeerMemory>,
    /// Dropped after the queues, which use the memory.
    pub lent: LentPages,
}

/// One pair, ready to run.
pub(super) struct Pair {
    pub receive: Receive,
    pub transmit: Transmit,
}

/// A handshake in progress. The handshake does no I/O on the socket.
pub(super) struct Handshake {
    session: FrontendSession,
    options: Arc<VirtioUserOptions>,
    counters: Arc<[PairCounters]>,
    /// The messages that are still to be sent.
    script: VecDeque<(Request, Vec<OwnedFd>)>,
    features: Features,
    protocol: ProtocolFeatures,
    /// The result, once all messages of the script are sent.
    ready: Option<Established>,
}

impl Handshake {
    pub fn new(options: Arc<VirtioUserOptions>, counters: Arc<[PairCounters]>) -> Self {
        Handshake {
            session: FrontendSession::new(),
            options,
            counters,
            script: [(Request::GetFeatures, vec![])].into(),
            features: Features::empty(),
            protocol: ProtocolFeatures::empty(),
            ready: None,
        }
    }

    /// The next message to send; `None` while a reply is due or when no message is left.
    ///
    /// # Errors
    /// The session is closed, or the request does not fit what was negotiated.
    pub fn next_message(&mut self) -> Result<Option<Message>, HandshakeError> {
        if self.session.is_waiting() {
            return Ok(None);
        }
        let Some((request, fds)) = self.script.pop_front() else { return Ok(None) };
        Ok(Some(self.session.request(request, fds)?))
    }

    /// Whether all messages are sent and answered.
    pub fn is_done(&self) -> bool {
        self.ready.is_some() && self.script.is_empty() && !self.session.is_waiting()
    }

    /// The result of the handshake.
    pub fn finish(self) -> Option<Established> {
        self.ready
    }

    /// Takes one reply and prepares the messages that follow from it.
    ///
    /// # Errors
    /// The reply breaks the protocol, does not belong to a request, or refuses one. The back-end lacks VIRTIO 1 or
    /// queues, or does not accept the features. Or the memory, eventfds or queues cannot be made.
    pub fn receive(&mut self, message: Message) -> Result<(), HandshakeError> {
        match self.session.receive(message)? {
            // The question at the end, whose answer says that all before it was heard.
            Answer::Features(_) if self.ready.is_some() => Ok(()),
            Answer::Features(offered) => self.features_offered(Features::from_bits_retain(offered.bits())),
            Answer::ProtocolFeatures(offered) => {
                self.protocol_features_offered(offered);
                match self.protocol.contains(ProtocolFeatures::MQ) {
                    true => Ok(()),
                    false => self.set_up(1),
                }
            }
            Answer::Number { request: "GET_QUEUE_NUM", value } => {
                self.set_up(u16::try_from(value).unwrap_or(u16::MAX))
            }
            Answer::Number { request: "GET_STATUS", value } => match value & status::FEATURES_OK {
                0 => Err(HandshakeError::Features(self.features)),
                _ => Ok(()),
            },
            Answer::Done { .. } => Ok(()),
            Answer::Refused { request, .. } => Err(HandshakeError::Refused(request)),
            _ => Err(HandshakeError::Surprise),
        }
    }

    fn enqueue(&mut self, request: Request) {
        self.script.push_back((request, vec![]));
    }

    fn features_offered(&mut self, offered: Features) -> Result<(), HandshakeError> {
        if !offered.contains(Features::VERSION_1) {
            return Err(HandshakeError::Legacy);
        }
        self.features = agree(offered, self.options.features());
        if !offered.contains(Features::VHOST_PROTOCOL_FEATURES) {
            return self.set_up(1);
        }
        self.enqueue(Request::GetProtocolFeatures);
        Ok(())
    }

    fn protocol_features_offered(&mut self, offered: ProtocolFeatures) {
        let mut wanted = ProtocolFeatures::MQ | ProtocolFeatures::REPLY_ACK | ProtocolFeatures::STATUS;
        wanted.set(ProtocolFeatures::MTU, self.options.mtu_bytes.is_some());
        self.protocol = offered & wanted;
        self.enqueue(Request::SetProtocolFeatures(self.protocol));
        if self.protocol.contains(ProtocolFeatures::MQ) {
            self.enqueue(Request::GetQueueNum);
        }
    }

    /// All is known: makes memory and queues, and says the rest.
    fn set_up(&mut self, offered_pairs: u16) -> Result<(), HandshakeError> {
        let pairs = self.options.queue_pairs.min(offered_pairs);
        if pairs == 0 {
            return Err(HandshakeError::NoQueues);
        }
        if pairs == 1 {
            self.features = self.features.difference(NetFeatures::MQ);
        }
        let features = self.features;
        let has_status = self.protocol.contains(ProtocolFeatures::STATUS);
        self.enqueue(Request::SetOwner);
        if has_status {
            self.enqueue(Request::SetStatus(status::ACKNOWLEDGE | status::DRIVER));
        }
        self.enqueue(Request::SetFeatures(features));
        if has_status {
            self.enqueue(Request::SetStatus(status::ACKNOWLEDGE | status::DRIVER | status::FEATURES_OK));
            self.enqueue(Request::GetStatus);
        }
        if let Some(mtu) = self.options.mtu_bytes.filter(|_| self.protocol.contains(ProtocolFeatures::MTU)) {
            self.enqueue(Request::NetSetMtu(mtu.into()));
        }
        let error = event()?;
        let (queues, memory, lent) = self.share_memory(pairs, &error)?;
        if features.contains(Features::VHOST_PROTOCOL_FEATURES) {
            for index in 0..2 * u32::from(pairs) {
                self.enqueue(Request::SetVringEnable(VringState { index, num: 1 }));
            }
        }
        if has_status {
            let all = status::ACKNOWLEDGE | status::DRIVER | status::FEATURES_OK | status::DRIVER_OK;
            self.enqueue(Request::SetStatus(all));
        }
        if !self.protocol.contains(ProtocolFeatures::REPLY_ACK) {
            self.enqueue(Request::GetFeatures);
        }
        self.ready = Some(Established {
            agreement: Agreement { features, pairs },
            pairs: queues,
            error,
            memory,
            lent,
        });
        Ok(())
    }

    fn share_memory(
        &mut self,
        pairs: u16,
        error: &EventFd,
    ) -> Result<(Vec<Pair>, Arc<PeerMemory>, LentPages), HandshakeError> {
        let shapes = [true, false].map(|receives| self.options.queue(self.features, receives));
        let shapes: Vec<_> = (0..pairs).flat_map(|_| shapes).collect();
        let memory = DriverMemory::new(self.options.pages, &shapes).map_err(system(MAKE_MEMORY))?;
        let (address, size_bytes) = memory.range();
        let region =
            MemoryRegion { guest_address: address, size_bytes, user_address: address, mmap_offset: 0 };
        let lent = memory.lend().map_err(system("share the memory"))?;
        let file = memory.share().map_err(system("share the memory"))?;
        self.script.push_back((Request::SetMemTable(MemoryTable { regions: vec![region] }), vec![file]));
        let counters = Arc::clone(&self.counters);
        let pairs = (0..pairs).zip(counters.iter());
        let pairs: Result<_, _> =
            pairs.map(|(pair, counters)| self.pair(&memory, pair, error, counters)).collect();
        Ok((pairs?, Arc::clone(memory.peer()), lent))
    }

    /// Receiveq and transmitq of a pair (VIRTIO 1.3 §5.1.2).
    fn pair(
        &mut self,
        memory: &DriverMemory,
        pair: u16,
        error: &EventFd,
        counters: &PairCounters,
    ) -> Result<Pair, HandshakeError> {
        let (receiveq, transmitq) = (2 * pair as u8, 2 * pair as u8 + 1);
        let (queue, kick, call) = self.ring(memory, receiveq, error)?;
        let receive = Receive::new(
            queue,
            kick,
            call,
            memory.buffers(receiveq.into()),
            memory.space(),
            self.features.contains(NetFeatures::MRG_RXBUF),
            Arc::clone(&counters.from_guest),
        );
        let (queue, kick, _) = self.ring(memory, transmitq, error)?;
        let accepts = Accepts::of_device(self.features);
        let buffers = memory.buffers(transmitq.into());
        let transmit = Transmit::new(queue, kick, buffers, accepts, Arc::clone(&counters.to_guest));
        Ok(Pair { receive, transmit })
    }

    /// Makes the driver half of a ring and announces it.
    fn ring(
        &mut self,
        memory: &DriverMemory,
        index: u8,
        error: &EventFd,
    ) -> Result<(Box<dyn DriverQueue>, EventFd, EventFd), HandshakeError> {
        let features = RingFeatures::from(self.features);
        let config = memory.config(index.into(), features);
        let queue = memory.driver(index.into(), features)?;
        let (kick, call) = (event()?, event()?);
        let state = |num| VringState { index: index.into(), num };
        let vring = VringFd { index, has_fd: true };
        // A fresh packed ring is told as DPDK tells it: without the used half, which is the same.
        let base = match features.layout {
            RingLayout::Split => config.position.to_vring_base(),
            RingLayout::Packed => config.position.to_vring_base() & 0xffff,
        };
        let address = VringAddress {
            index: index.into(),
            log_used: false,
            descriptor: config.descriptors.value(),
            used: config.device_area.value(),
            available: config.driver_area.value(),
            log: 0,
        };
        self.script.push_back((Request::SetVringCall(vring), vec![share(&call)?]));
        self.script.push_back((Request::SetVringErr(vring), vec![share(error)?]));
        self.enqueue(Request::SetVringNum(state(config.size)));
        self.enqueue(Request::SetVringBase(state(base)));
        self.enqueue(Request::SetVringAddr(address));
        self.script.push_back((Request::SetVringKick(vring), vec![share(&kick)?]));
        Ok((queue, kick, call))
    }
}
