//! What a device is, beside the protocol: the engine serves any device that says these things of itself.
//!
//! The engine (the modules `engine` and `peer`) knows the protocol, the front-end's memory and how rings start, move and
//! stop. A [`Device`] knows its features, what each ring is for, what makes a queue of a ring, and what its messages and
//! its configuration space mean.
use std::any::Any;
use std::sync::Arc;

use vhost_user::bits::ProtocolFeatures;
use vhost_user::codec::crypto::CryptoSetup;
use vhost_user::session::{Outcome, Refusal};
use virtio::Features;
use virtio::net::MacAddress;
use virtqueue::{DeviceQueue, IndirectFlags, RingError};

use crate::{Context, EventFd, StoppedAt};

/// The queue of a ring, as far as the engine changes it while it runs.
pub trait RingQueue: Any {
    /// The device half, to ask where it stands and to set its log.
    fn queue(&mut self) -> &mut dyn DeviceQueue;

    /// Goes on with another device half of the same ring.
    fn renew(&mut self, queue: Box<dyn DeviceQueue>);

    /// Lets data pass, or not.
    fn set_enabled(&mut self, enabled: bool);

    /// Listens to the driver so from now on.
    fn set_kick(&mut self, kick: Option<EventFd>);

    /// Notifies the driver so from now on.
    fn set_call(&mut self, call: Option<EventFd>);

    /// Where to read later where the queue has stopped by itself.
    fn stopped_at(&self) -> Arc<StoppedAt>;
}

/// A device's queues while they are not attached, each with its own type.
pub trait ParkedQueue {
    /// What the engine changes of it.
    fn ring_queue(&mut self) -> &mut dyn RingQueue;
}

/// The rings of a connection, as a device changes their queues.
pub trait RingSet<D: Device> {
    /// What the started rings are for, each with its place.
    fn kinds(&self) -> Vec<(usize, D::Kind)>;

    /// Changes the queues of these rings between two bursts; nothing happens to those that do not run.
    fn change(
        &mut self,
        places: &[usize],
        device: &D,
        context: &mut D::Context<'_>,
        how: &mut dyn FnMut(usize, &mut dyn RingQueue),
    );

    /// Attaches and parks queues as [`Device::is_attached`] says now.
    fn settle(&mut self, device: &D, context: &mut D::Context<'_>);
}

/// What makes a queue, beside its ring.
pub struct Notifiers {
    /// The driver's kicks; `None` if the device polls.
    pub kick: Option<EventFd>,
    /// Tells the driver; `None` if it polls.
    pub call: Option<EventFd>,
    /// Whether data passes from the start.
    pub enabled: bool,
}

/// A message of the protocol that means something to some devices alone.
pub enum DeviceMessage {
    /// Announce this address (SEND_RARP).
    Announce(MacAddress),
    /// The guest is told this MTU (NET_SET_MTU).
    Mtu(u16),
}

/// A device behind one connection. Each connection begins with a clone of the device that
/// [`Backend::new`](crate::Backend::new) was given: what connections share is behind an `Arc` in it, and the clone is as
/// new in all else.
///
/// A device says its features, what its rings are for and how a queue is made of one; and it serves the rings itself, if
/// its queues stay on the control thread ([`Device::is_served_here`], [`Device::serve`]), or gives them to threads of the
/// program ([`Device::attach`], [`Device::detach`]). All other methods have a default.
pub trait Device: Clone + Send + Sized {
    /// What a ring is for.
    type Kind: Copy + PartialEq;

    /// The queue of a ring while it is not attached.
    type Queue: ParkedQueue;

    /// What the program gives it with each call: `dyn Context + 'a` for a device that needs no more than the engine
    /// does.
    type Context<'a>: Context + ?Sized;

    /// Device features that are offered: those of the device's kind, VERSION_1, and those of its rings. The engine
    /// adds what it does itself.
    fn features(&self) -> Features;

    /// Features that the rings have, by those that were agreed on: others, for a device whose front-end passes on too
    /// few. QEMU's front-end of a crypto device agrees on no feature of the rings, and lets the guest use them.
    fn ring_features(&self, agreed: Features) -> Features {
        agreed
    }

    /// Protocol features that are offered beside those that the engine serves for each device: CONFIG, if
    /// [`Device::config`] has something to say; RARP and MTU, if [`Device::message`] takes such messages;
    /// CRYPTO_SESSION, if [`Device::create_crypto_session`] makes sessions.
    fn protocol_features(&self) -> ProtocolFeatures {
        ProtocolFeatures::empty()
    }

    /// Rings that there can be.
    fn queue_count(&self) -> u16;

    /// What a front-end is told that asks for the number of queues (GET_QUEUE_NUM): what it counts depends on the kind
    /// of device.
    fn reported_queues(&self) -> u16 {
        self.queue_count()
    }

    /// What the ring at this place is for, by the features that were agreed on.
    fn kind(&self, index: usize) -> Self::Kind;

    /// A ring of this kind, for people.
    fn name(kind: Self::Kind) -> String;

    /// Whether the control thread serves rings of this kind ([`Device::serve`]), and not a worker.
    fn is_served_here(kind: Self::Kind) -> bool;

    /// What is known of the chains in such a ring before they are read.
    fn indirect_flags(_kind: Self::Kind) -> IndirectFlags {
        IndirectFlags::Trusted
    }

    /// Makes the queue of a ring.
    ///
    /// # Errors
    /// The ring cannot be served with these notifiers, for example without a kick or a call. The reason goes to the
    /// front-end's reply and the log.
    fn queue(
        &self,
        kind: Self::Kind,
        queue: Box<dyn DeviceQueue>,
        notifiers: Notifiers,
    ) -> Result<Self::Queue, Refusal>;

    /// Whether the queue of this ring belongs to the workers now; `rings` are all that are started, each with whether
    /// it is enabled.
    fn is_attached(&self, _ring: (Self::Kind, bool), _rings: &[(Self::Kind, bool)]) -> bool {
        true
    }

    /// Gives queues to the workers. By default there are none, so rings are to be served on the control thread.
    fn attach(_queues: Vec<(Self::Kind, Self::Queue)>, _context: &mut Self::Context<'_>) {}

    /// Takes queues back from the workers, in this order; `None` for each that is not there.
    fn detach(kinds: &[Self::Kind], _context: &mut Self::Context<'_>) -> Vec<Option<Self::Queue>> {
        kinds.iter().map(|_| None).collect()
    }

    /// Changes an attached queue where it is. False, and nothing done, if that cannot be: it is taken back then.
    fn change(
        _kind: Self::Kind,
        _context: &mut Self::Context<'_>,
        _how: &mut dyn FnMut(&mut dyn RingQueue),
    ) -> bool {
        false
    }

    /// A ring of this kind has started.
    fn started(
        &mut self,
        _kind: Self::Kind,
        _rings: &mut dyn RingSet<Self>,
        _context: &mut Self::Context<'_>,
    ) {
    }

    /// These features hold from now on.
    fn set_features(&mut self, features: Features);

    /// Forgets what the driver has set.
    fn reset(&mut self, _rings: &mut dyn RingSet<Self>, _context: &mut Self::Context<'_>) {}

    /// Serves a ring that the control thread serves, for one turn. Returns true if more may be left.
    ///
    /// # Errors
    /// The ring is malformed; it stays stopped.
    fn serve(
        &mut self,
        _queue: &mut Self::Queue,
        _rings: &mut dyn RingSet<Self>,
        _context: &mut Self::Context<'_>,
    ) -> Result<bool, RingError> {
        Ok(false)
    }

    /// Does what a message asks for. Returns true if the configuration space has changed.
    ///
    /// # Errors
    /// The device does not take such messages, or refuses this one.
    fn message(
        &mut self,
        _message: DeviceMessage,
        _rings: &mut dyn RingSet<Self>,
        _context: &mut Self::Context<'_>,
    ) -> Result<bool, Refusal> {
        Err(not_offered())
    }

    /// Makes a session of a crypto device and gives its number, at most `i64::MAX`; `None`: of an asymmetric key.
    ///
    /// # Errors
    /// The device makes no sessions, or not this one.
    fn create_crypto_session(&mut self, _setup: Option<&CryptoSetup>) -> Result<u64, Refusal> {
        Err(not_offered())
    }

    /// Ends a session of a crypto device. A front-end may name one that an earlier process had given.
    ///
    /// # Errors
    /// The device makes no sessions.
    fn close_crypto_session(&mut self, _number: u64) -> Outcome {
        Err(not_offered())
    }

    /// The configuration space; what lies behind it reads as zeros.
    fn config(&self) -> Vec<u8> {
        Vec::new()
    }

    /// What the driver has set, as commands for [`Device::restore`] in another process.
    fn state(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// Sets it once more.
    fn restore(
        &mut self,
        _state: &[Vec<u8>],
        _rings: &mut dyn RingSet<Self>,
        _context: &mut Self::Context<'_>,
    ) {
    }

    /// A queue goes on in this process, though another one may have had it meanwhile.
    fn resumed(_queue: &mut dyn RingQueue) {}

    /// What the operator can do if a front-end has asked for the number of queues, and leaves before one has run.
    fn advice(&self) -> Option<String> {
        None
    }

    /// What the device has done for its front-end: stands in the log when the connection has ended.
    fn summary(&self) -> Option<String> {
        None
    }

    /// How the device stands, in a few words each.
    fn words(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The refusal of what was never offered.
pub fn not_offered() -> Refusal {
    Refusal::new("not offered")
}
