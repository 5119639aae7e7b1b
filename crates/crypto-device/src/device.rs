//! The device behind a vhost-user socket: its rings, and the messages that make sessions.
use vhost_device::{BurstQueue, Context, Device, EventFd, Notifiers, RingSet, Turn, not_offered};
use vhost_user::bits::ProtocolFeatures;
use vhost_user::codec::crypto::CryptoSetup;
use vhost_user::session::{Outcome, Refusal};
use virtio::Features;
use virtqueue::{ChainRef, DeviceQueue, PopError, RingError};

use crate::{Buffers, Executor, Limits, Sessions};

/// Data queues that a front-end may start.
const QUEUES: u16 = 8;
/// Requests that are worked on before the driver is called.
const BURST: usize = 8;

/// A crypto device, whose rings the control thread serves.
pub struct CryptoDevice {
    limits: Limits,
    sessions: Sessions,
    executor: Executor,
}

impl CryptoDevice {
    /// A device of which each connection may hold so much.
    pub fn new(limits: Limits) -> Self {
        Self { limits, sessions: Sessions::new(limits), executor: Executor::new() }
    }
}

/// A device for a new connection: without the sessions of this one.
impl Clone for CryptoDevice {
    fn clone(&self) -> Self {
        Self::new(self.limits)
    }
}

impl Buffers for ChainRef<'_> {
    fn readable_bytes(&self) -> usize {
        ChainRef::readable_bytes(self) as usize
    }

    fn writable_bytes(&self) -> usize {
        ChainRef::writable_bytes(self) as usize
    }

    fn read(&self, offset: usize, into: &mut [u8]) -> usize {
        ChainRef::read(self, offset, into)
    }

    fn write(&self, offset: usize, from: &[u8]) -> usize {
        ChainRef::write(self, offset, from)
    }
}

impl Device for CryptoDevice {
    type Kind = usize;
    type Queue = BurstQueue;
    type Context<'a> = dyn Context + 'a;

    fn features(&self) -> Features {
        Features::VERSION_1.union(Features::RING_PACKED).union(unsaid())
    }

    /// QEMU agrees on neither with the back-end, and the guest uses what it has agreed on with QEMU. A ring that has
    /// both serves a driver that uses none: tables are followed where there are any, and the driver is called each time.
    /// A front-end that has agreed on packed rings says what its driver uses.
    fn ring_features(&self, agreed: Features) -> Features {
        if agreed.contains(Features::RING_PACKED) { agreed } else { agreed.union(unsaid()) }
    }

    fn protocol_features(&self) -> ProtocolFeatures {
        ProtocolFeatures::CRYPTO_SESSION
    }

    fn queue_count(&self) -> u16 {
        QUEUES
    }

    fn kind(&self, index: usize) -> usize {
        index
    }

    fn name(kind: usize) -> String {
        format!("data queue {kind}")
    }

    fn is_served_here(_: usize) -> bool {
        true
    }

    fn queue(
        &self,
        _: usize,
        queue: Box<dyn DeviceQueue>,
        notifiers: Notifiers,
    ) -> Result<BurstQueue, Refusal> {
        Ok(BurstQueue::new(queue, notifiers, BURST))
    }

    fn set_features(&mut self, _: Features) {}

    fn reset(&mut self, _: &mut dyn RingSet<Self>, _: &mut Self::Context<'_>) {
        self.sessions.close_all();
    }

    /// Serves a ring that is not enabled, too: QEMU's front-end agrees on VHOST_USER_F_PROTOCOL_FEATURES and never sends
    /// SET_VRING_ENABLE to a crypto device.
    fn serve(
        &mut self,
        BurstQueue { queue, burst, notifiers }: &mut BurstQueue,
        _: &mut dyn RingSet<Self>,
        _: &mut Self::Context<'_>,
    ) -> Result<bool, RingError> {
        notifiers.kick.iter().for_each(|kick| _ = kick.drain());
        let turn = Turn::begin();
        while !turn.is_over() {
            match queue.pop(burst, BURST) {
                Ok(0) if queue.enable_kicks() => continue,
                Ok(0) | Err(PopError::Miss { .. }) => return Ok(false),
                Ok(_) => {}
                Err(PopError::Malformed(error)) => return Err(error),
            }
            for index in 0..burst.len() {
                let written = self.executor.execute(&self.sessions, &burst.chain(index));
                burst.set_written(index, written);
            }
            queue.add_used_all(burst);
            // Not asked whether the driver wants it: one that has not agreed on event indices gives none.
            notifiers.call.iter().for_each(EventFd::notify);
        }
        Ok(true)
    }

    fn create_crypto_session(&mut self, setup: Option<&CryptoSetup>) -> Result<u64, Refusal> {
        let setup = setup.ok_or_else(not_offered)?;
        self.sessions.create(setup).map_err(|rejected| Refusal::new(rejected.to_string()))
    }

    /// One that is not there is closed: it was of an earlier process, or a reset has ended it.
    fn close_crypto_session(&mut self, number: u64) -> Outcome {
        self.sessions.close(number);
        Ok(())
    }
}

/// Features of the rings that a guest may use though the front-end does not say so.
fn unsaid() -> Features {
    Features::RING_EVENT_IDX.union(Features::RING_INDIRECT_DESC)
}
