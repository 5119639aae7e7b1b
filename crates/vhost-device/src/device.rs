//! The interface of devices, independent of the protocol. The engine serves any device that implements it.
//!
//! The engine (the modules `engine` and `peer`) handles the protocol, the front-end's memory, and starting, moving
//! and stopping rings. A [`Device`] knows its features, the purpose of each ring, how a queue is made from a ring,
//! and the meaning of its messages and its configuration space.
use std::any::Any;
use std::sync::Arc;

use vhost_user::bits::ProtocolFeatures;
use vhost_user::codec::crypto::CryptoSetup;
use vhost_user::session::{Outcome, Refusal};
use virtio::Features;
use virtio::net::MacAddress;
use virtqueue::{DeviceQueue, IndirectFlags, RingError};

use crate::{Context, EventFd, StoppedAt};

/// The queue of a running ring, with the operations that the engine needs.
pub trait RingQueue: Any {
    /// The device half, for reading its position and setting its log.
    fn queue(&mut self) -> &mut dyn DeviceQueue;

    /// Replaces the device half by another one of the same ring.
    fn renew(&mut self, queue: Box<dyn DeviceQueue>);

    /// Enables or disables passing data.
    fn set_enabled(&mut self, enabled: bool);

    /// Sets the driver's kick.
    fn set_kick(&mut self, kick: Option<EventFd>);

    /// Sets the driver's call.
    fn set_call(&mut self, call: Option<EventFd>);

    /// Keeps the position at which the queue has stopped by itself.
    fn stopped_at(&self) -> Arc<StoppedAt>;
}

/// A device's queue while it is not attached. Each device has its own type.
pub trait ParkedQueue {
    /// The queue, with the operations that the engine needs.
    fn ring_queue(&mut self) -> &mut dyn RingQueue;
}

/// The rings of a connection, for a device that changes their queues.
pub trait RingSet<D: Device> {
    /// The kinds of the started rings, with their indices.
    fn kinds(&self) -> Vec<(usize, D::Kind)>;

    /// Changes the queues of these rings between two bursts. Rings that do not run are skipped.
    fn change(
        &mut self,
        places: &[usize],
        device: &D,
        context: &mut D::Context<'_>,
        how: &mut dyn FnMut(usize, &mut dyn RingQueue),
    );

    /// Attaches and parks queues as [`Device::is_attached`] decides now.
    fn settle(&mut self, device: &D, context: &mut D::Context<'_>);
}

/// The notifiers that a queue needs in addition to its ring.
pub struct Notifiers {
    /// The driver's kick; `None` if the device polls.
    pub kick: Option<EventFd>,
    /// The driver's call; `None` if the driver polls.
    pub call: Option<EventFd>,
    /// Whether data passes from the start.
    pub enabled: bool,
}

/// A message of the protocol that only some devices handle.
pub enum DeviceMessage {
    /// The guest's address must be announced (SEND_RARP).
    Announce(MacAddress),
    /// The guest has this MTU (NET_SET_MTU).
    Mtu(u16),
}

/// A device behind one connection. Each connection begins with a clone of the device that
/// [`Backend::new`](crate::Backend::new) was given. State that connections share must be behind an `Arc`; the clone's
/// other state is new.
///
/// A device states its features and the purpose of its rings, and makes a queue from a ring. If its queues stay on
/// the control thread, it serves the rings itself ([`Device::is_served_here`], [`Device::serve`]). Otherwise it gives
/// them to threads of the program ([`Device::attach`], [`Device::detach`]). All other functions have a default.
pub trait Device: Clone + Send + Sized {
    /// The purpose of a ring.
    type Kind: Copy + PartialEq;

    /// The queue of a ring while it is not attached.
    type Queue: ParkedQueue;

    /// The context that the program passes with each call: `dyn Context + 'a` for a device that needs no further
    /// services.
    type Context<'a>: Context + ?Sized;

    /// The device features that are offered: those of the kind of device, VERSION_1, and those of its rings. The
    /// engine adds the features that it implements itself.
    fn features(&self) -> Features;

    /// The features of the rings, given those agreed on. The features of the rings differ from the agreed ones if the
    /// device's front-end passes on too few. QEMU's front-end of a crypto device agrees on no ring feature, yet lets
    /// the guest use them.
    fn ring_features(&self, agreed: Features) -> Features {
        agreed
    }

    /// The protocol features that are offered in addition to those that the engine implements for each device:
    /// CONFIG, if [`Device::config`] returns something; RARP and MTU, if [`Device::message`] handles such messages;
    /// CRYPTO_SESSION, if [`Device::create_crypto_session`] creates sessions.
    fn protocol_features(&self) -> ProtocolFeatures {
        ProtocolFeatures::empty()
    }

    /// The largest number of rings.
    fn queue_count(&self) -> u16;

    /// The answer to GET_QUEUE_NUM. What the number counts depends on the kind of device.
    fn reported_queues(&self) -> u16 {
        self.queue_count()
    }

    /// The purpose of the ring with this index, given the features agreed on.
    fn kind(&self, index: usize) -> Self::Kind;

    /// The name of rings of this kind, for messages.
    fn name(kind: Self::Kind) -> String;

    /// Whether the control thread serves rings of this kind ([`Device::serve`]), and no worker does.
    fn is_served_here(kind: Self::Kind) -> bool;

    /// What is known about the indirect tables of such a ring.
    fn indirect_flags(_kind: Self::Kind) -> IndirectFlags {
        IndirectFlags::Trusted
    }

    /// Makes the queue of a ring.
    ///
    /// # Errors
    /// The ring cannot be served with these notifiers, for example without a kick or a call. The reason is sent in
    /// the reply to the front-end, and logged.
    fn queue(
        &self,
        kind: Self::Kind,
        queue: Box<dyn DeviceQueue>,
        notifiers: Notifiers,
    ) -> Result<Self::Queue, Refusal>;

    /// Whether the queue of this ring belongs to the workers now. `rings` are all started rings, each with whether it
    /// is enabled.
    fn is_attached(&self, _ring: (Self::Kind, bool), _rings: &[(Self::Kind, bool)]) -> bool {
        true
    }

    /// Gives queues to the workers. By default there are no workers, and rings must be served on the control thread.
    fn attach(_queues: Vec<(Self::Kind, Self::Queue)>, _context: &mut Self::Context<'_>) {}

    /// Takes queues back from the workers, in this order; `None` for each that is not attached.
    fn detach(kinds: &[Self::Kind], _context: &mut Self::Context<'_>) -> Vec<Option<Self::Queue>> {
        kinds.iter().map(|_| None).collect()
    }

    /// Changes an attached queue while its worker has it. Returns false and does nothing if that is impossible. The
    /// queue is then taken back first.
    fn change(
        _kind: Self::Kind,
        _context: &mut Self::Context<'_>,
        _how: &mut dyn FnMut(&mut dyn RingQueue),
    ) -> bool {
        false
    }

    /// Called when a ring of this kind has started.
    fn started(
        &mut self,
        _kind: Self::Kind,
        _rings: &mut dyn RingSet<Self>,
        _context: &mut Self::Context<'_>,
    ) {
    }

    /// Sets the features that were agreed on.
    fn set_features(&mut self, features: Features);

    /// Forgets all settings of the driver.
    fn reset(&mut self, _rings: &mut dyn RingSet<Self>, _context: &mut Self::Context<'_>) {}

    /// Serves a ring on the control thread, for one turn. Returns true if more may be left.
    ///
    /// # Errors
    /// The ring is malformed. It stays stopped.
    fn serve(
        &mut self,
        _queue: &mut Self::Queue,
        _rings: &mut dyn RingSet<Self>,
        _context: &mut Self::Context<'_>,
    ) -> Result<bool, RingError> {
        Ok(false)
    }

    /// Carries out a message. Returns true if the configuration space has changed.
    ///
    /// # Errors
    /// The device does not handle such messages, or refuses this one.
    fn message(
        &mut self,
        _message: DeviceMessage,
        _rings: &mut dyn RingSet<Self>,
        _context: &mut Self::Context<'_>,
    ) -> Result<bool, Refusal> {
        Err(not_offered())
    }

    /// Creates a session of a crypto device and returns its number, at most `i64::MAX`. `None` stands for an
    /// asymmetric key.
    ///
    /// # Errors
    /// The device creates no sessions, or not this one.
    fn create_crypto_session(&mut self, _setup: Option<&CryptoSetup>) -> Result<u64, Refusal> {
        Err(not_offered())
    }

    /// Closes a session of a crypto device. A front-end may name a session that an earlier process created.
    ///
    /// # Errors
    /// The device creates no sessions.
    fn close_crypto_session(&mut self, _number: u64) -> Outcome {
        Err(not_offered())
    }

    /// The configuration space. Bytes behind it read as zeros.
    fn config(&self) -> Vec<u8> {
        Vec::new()
    }

    /// The driver's settings, as commands for [`Device::restore`] in another process.
    fn state(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// Restores the driver's settings.
    fn restore(
        &mut self,
        _state: &[Vec<u8>],
        _rings: &mut dyn RingSet<Self>,
        _context: &mut Self::Context<'_>,
    ) {
    }

    /// Called when a queue continues in this process after another process may have had it.
    fn resumed(_queue: &mut dyn RingQueue) {}

    /// Advice for the operator, for when a front-end has asked for the number of queues and disconnects before any
    /// queue has run.
    fn advice(&self) -> Option<String> {
        None
    }

    /// A summary of the connection, which is logged at its end.
    fn summary(&self) -> Option<String> {
        None
    }

    /// The state of the device, in a few words for each item.
    fn words(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The refusal of a request that was not offered.
pub fn not_offered() -> Refusal {
    Refusal::new("not offered")
}
