//! The device behind a vhost-user socket: its rings, and the messages that create sessions.
use vhost_device::{BurstQueue, Context, Device, EventFd, Notifiers, RingSet, Turn, not_offered};
use vhost_user::bits::ProtocolFeatures;
use vhost_user::codec::crypto::CryptoSetup;
use vhost_user::session::{Outcome, Refusal};
use virtio::Features;
use virtio::crypto::Status;
use virtqueue::{ChainRef, DeviceQueue, PopError, RingError};

use crate::{Buffers, Executed, Executor, Limits, Sessions};

/// Data queues that a front-end may start.
const QUEUES: u16 = 8;
/// Requests that are worked on before the driver is told; fewer at the end of the ring or of a turn.
const UNTOLD: usize = 8;

/// A crypto device, whose rings the control thread serves.
pub struct CryptoDevice {
    limits: Limits,
    sessions: Sessions,
    executor: Executor,
    served: u64,
    failed: u64,
}

impl CryptoDevice {
    /// A device with these limits for each connection.
    pub fn new(limits: Limits) -> Self {
        Self { limits, sessions: Sessions::new(limits), executor: Executor::new(), served: 0, failed: 0 }
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

    /// No configuration space (CONFIG): QEMU, the only front-end with a guest, makes the guest's by itself and warns of a
    /// back-end that offers one. So a front-end can neither read nor write it.
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
        Ok(BurstQueue::new(queue, notifiers, 1))
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
        let mut untold = 0;
        // The call does not depend on the driver's wish: a driver without event indices states none.
        let tell = || notifiers.call.iter().for_each(EventFd::notify);
        let outcome = loop {
            if turn.is_over() {
                break Ok(true);
            }
            // Requests are taken one by one, because a long request takes a whole turn.
            match queue.pop(burst, 1) {
                Ok(0) if queue.enable_kicks() => continue,
                Ok(0) | Err(PopError::Miss { .. }) => break Ok(false),
                Ok(_) => {}
                Err(PopError::Malformed(error)) => break Err(error),
            }
            let Executed { written, status } = self.executor.execute(&self.sessions, &burst.chain(0));
            *if status == Some(Status::Ok) { &mut self.served } else { &mut self.failed } += 1;
            burst.set_written(0, written);
            queue.add_used_all(burst);
            untold += 1;
            if untold == UNTOLD {
                tell();
                untold = 0;
            }
        };
        if untold > 0 {
            tell();
        }
        outcome
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

    fn summary(&self) -> Option<String> {
        Some(format!("{} requests served, {} failed", self.served, self.failed))
    }
}

/// Features of the rings that a guest may use though the front-end does not say so.
fn unsaid() -> Features {
    Features::RING_EVENT_IDX.union(Features::RING_INDIRECT_DESC)
}
