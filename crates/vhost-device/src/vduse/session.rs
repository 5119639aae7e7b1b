//! One device of the kernel, from its creation to its end: requests of the kernel, rings, memory.
//!
//! The driver sets the queues up without requests; the device reads all settings when the driver is ready
//! (DRIVER_OK). A queue begins to run with the driver's first kick: before, it is empty, and the kernel has not yet
//! made the memory of its buffers.
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use linux::vduse::{MemoryEntry, Position, Queue, Reply, RequestKind};
use memory::{AddressSpace, Loss, PeerMemory};
use vhost_user::session::Refusal;
use vhost_user::session::backend::VringConfig;
use vhost_user::vring::{QueueSize, RingLayout, VringAddresses, VringBase, layout_of};
use virtio::Features;

use super::in_flight::Record;
use super::kernel::Kernel;
use super::memory::{self as driver_memory, Found};
use crate::device::Device;
use crate::engine::{Engine, StartedRing};
use crate::shared::Shared;
use crate::tokens;
use crate::turn::Turn;
use crate::{Context as _, EventFd, Interest, Token};

/// Status bits of a driver (VIRTIO 1.3 §2.1).
const DRIVER_OK: u8 = 4;
const FEATURES_OK: u8 = 8;
const FAILED: u8 = 0x80;

/// The timer for interrupts that the kernel does not accept yet.
pub(super) const INTERRUPTS: Token = tokens::CHANNEL;
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(5);
/// Attempts to interrupt a driver that has become ready: the kernel accepts interrupts soon after the answer.
const INTERRUPT_ATTEMPTS: u32 = 1000;

/// Why a device of the kernel cannot be served any more.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    #[error("the kernel has given the device up, because a request was not answered in time")]
    GivenUp,
    #[error("the kernel's requests cannot be read: {0}")]
    System(#[from] io::Error),
    #[error("{0}: lost: its worker does not give it back")]
    QueueLost(String),
}

/// The positions at which rings begin.
pub(super) enum Bases {
    /// The positions that the driver has set.
    Driver,
    /// The positions that the rings show, after a process was killed.
    Rings,
    /// The positions that another process has handed over.
    HandedOver(BTreeMap<usize, VringBase>),
}

/// A queue that the driver has set up and not used yet.
struct Waiting {
    kick: EventFd,
    config: VringConfig,
}

pub(super) struct Session<D: Device> {
    kernel: Arc<dyn Kernel>,
    shared: Arc<Shared>,
    memory: Arc<PeerMemory>,
    record: Option<Record>,
    offered: Features,
    pub engine: Engine<D>,
    /// The memory that is mapped.
    entries: Vec<MemoryEntry>,
    status: u8,
    waiting: BTreeMap<usize, Waiting>,
    /// Attempts that are left to interrupt the driver.
    interrupts: u32,
}

impl<D: Device> Session<D> {
    pub fn new(
        kernel: Arc<dyn Kernel>,
        device: D,
        offered: Features,
        shared: Arc<Shared>,
        memory: Arc<PeerMemory>,
    ) -> Self {
        Session {
            engine: Engine::new(device, Arc::clone(&shared), Arc::clone(&memory)),
            kernel,
            shared,
            memory,
            record: None,
            offered,
            entries: Vec::new(),
            status: 0,
            waiting: BTreeMap::new(),
            interrupts: 0,
        }
    }

    /// Sets the record of chains in flight.
    pub fn with_record(self, record: Option<Record>) -> Self {
        Session { record, ..self }
    }

    pub fn kernel(&self) -> &Arc<dyn Kernel> {
        &self.kernel
    }

    /// Whether the driver is ready.
    pub fn is_driven(&self) -> bool {
        self.status & DRIVER_OK != 0
    }

    /// Answers requests of the kernel, for one turn.
    ///
    /// # Errors
    /// The kernel has given the device up, a request cannot be read, or a worker does not return a queue.
    pub fn serve(&mut self, context: &mut D::Context<'_>) -> Result<(), End> {
        let (turn, mut has_served) = (Turn::begin(), false);
        while !turn.is_over() {
            let Some(request) = self.kernel.request()? else { break };
            has_served = true;
            let reply = self.answer(request.kind, context);
            if let Err(error) = self.kernel.reply(request, reply) {
                self.shared.log.warn(context, format_args!("the kernel does not take an answer: {error}"));
            }
            if let Some(kind) = self.engine.rings.take_lost() {
                return Err(End::QueueLost(D::name(kind)));
            }
        }
        // The file of a device that was given up is always ready and has no request.
        if !has_served && self.kernel.features().is_err() {
            return Err(End::GivenUp);
        }
        Ok(())
    }

    fn answer(&mut self, request: RequestKind, context: &mut D::Context<'_>) -> Reply {
        let outcome = match request {
            RequestKind::QueueState(index) => self.queue_state(index, context).map(Reply::QueueState),
            RequestKind::SetStatus(status) => self.set_status(status, context).map(|()| Reply::Done),
            RequestKind::UpdateMemory(..) => self.renew_memory(context).map(|()| Reply::Done),
            RequestKind::Unknown(kind) => Err(Refusal::new(format!("a request of the unknown type {kind}"))),
        };
        outcome.unwrap_or_else(|refusal| {
            self.shared.log.warn(context, format_args!("a request of the kernel is refused: {refusal}"));
            Reply::Failed
        })
    }

    fn layout(&self) -> RingLayout {
        layout_of(self.engine.features)
    }

    fn queue_state(&mut self, index: u32, context: &mut D::Context<'_>) -> Result<Position, Refusal> {
        if index >= u32::from(self.engine.device.queue_count()) {
            return Err(Refusal::new(format!("there is no queue {index}")));
        }
        let index = index as usize;
        let waiting = self.waiting.get(&index).map(|waiting| waiting.config.base);
        let base = waiting.or_else(|| self.engine.position(index, context));
        Ok(position(base.unwrap_or_else(|| VringBase::start(self.layout()))))
    }

    fn set_status(&mut self, status: u8, context: &mut D::Context<'_>) -> Result<(), Refusal> {
        let set = status & !self.status;
        if status == 0 || set & FAILED != 0 {
            self.reset(context)?;
            self.status = status;
            return Ok(());
        }
        if set & (FEATURES_OK | DRIVER_OK) != 0 {
            self.take_features(context)?;
        }
        if set & DRIVER_OK != 0 {
            self.start(&Bases::Driver, context);
        }
        self.status = status;
        Ok(())
    }

    fn take_features(&mut self, context: &mut D::Context<'_>) -> Result<(), Refusal> {
        let features = self.kernel.features().map_err(|error| Refusal::new(format!("features: {error}")))?;
        let features = Features::from_bits_retain(features);
        let foreign = features.difference(self.offered);
        if !foreign.is_empty() {
            return Err(Refusal::new(format!(
                "the driver wants features that were not offered: {foreign:?}"
            )));
        }
        // The addresses of rings and buffers are those of the mapped memory.
        self.engine.set_features(features.difference(Features::ACCESS_PLATFORM), context);
        Ok(())
    }

    /// Continues with a driver that another process has served.
    ///
    /// # Errors
    /// The driver uses features that this device does not have.
    pub fn go_on(&mut self, bases: &Bases, context: &mut D::Context<'_>) -> Result<(), Refusal> {
        let is_ready = |index| self.kernel.queue(index, false).is_ok_and(|queue| queue.is_ready);
        if !(0..u32::from(self.engine.device.queue_count())).any(is_ready) {
            return Ok(());
        }
        self.take_features(context)?;
        self.status = FEATURES_OK | DRIVER_OK;
        self.start(bases, context);
        Ok(())
    }

    /// Stops all rings and starts them again.
    ///
    /// # Errors
    /// The driver uses features that this device does not have.
    pub fn start_again(&mut self, bases: &Bases, context: &mut D::Context<'_>) -> Result<(), Refusal> {
        self.stop(context);
        self.go_on(bases, context)
    }

    /// Opens the record of chains in flight, if the rings are packed.
    fn open_record(&mut self, bases: &Bases, context: &mut D::Context<'_>) {
        let is_packed = self.layout() == RingLayout::Packed;
        let goes_on = !matches!(bases, Bases::Driver);
        let count = self.engine.device.queue_count();
        let opened = self
            .record
            .as_ref()
            .filter(|_| is_packed)
            .map(|record| record.open(count, goes_on, &self.memory));
        self.engine.memory.in_flight = opened.transpose().map(Option::flatten).unwrap_or_else(|error| {
            let what =
                "chains in flight cannot be recorded, so a packed ring may break if this process crashes";
            self.shared.log.warn(context, format_args!("{what}: {error}"));
            None
        });
    }

    fn start(&mut self, bases: &Bases, context: &mut D::Context<'_>) {
        self.open_record(bases, context);
        for index in 0..usize::from(self.engine.device.queue_count()) {
            if let Err(refusal) = self.set_up(index, bases, context) {
                self.shared.log.warn(context, format_args!("queue {index} does not run: {refusal}"));
            }
        }
        self.interrupts = INTERRUPT_ATTEMPTS;
        context.after(INTERRUPTS, Duration::from_millis(1));
    }

    /// Prepares a queue, and begins to serve it if the driver has used it already.
    fn set_up(&mut self, index: usize, bases: &Bases, context: &mut D::Context<'_>) -> Result<(), Refusal> {
        let layout = self.layout();
        let queue =
            self.kernel.queue(index as u32, layout == RingLayout::Packed).map_err(failed("settings"))?;
        if !queue.is_ready {
            return Ok(());
        }
        let base = match bases {
            Bases::Driver => base(queue.position),
            Bases::Rings => VringBase::start(layout),
            Bases::HandedOver(bases) => bases.get(&index).copied().unwrap_or(VringBase::start(layout)),
        };
        let config = config(&queue, layout, base)?;
        let kick = EventFd::new().map_err(failed("kick"))?;
        self.kernel.set_kick(index as u32, &kick).map_err(failed("kick"))?;
        context.watch(tokens::kick(index), kick.shared(), Interest::Readable).map_err(failed("kick"))?;
        self.waiting.insert(index, Waiting { kick, config });
        self.begin(index, context)
    }

    /// Called when a queue was kicked that does not run yet, or that the control thread serves.
    pub fn kicked(&mut self, index: usize, context: &mut D::Context<'_>) {
        if !self.waiting.contains_key(&index) {
            if let Err((kind, error)) = self.engine.serve(index, context) {
                self.queue_stopped(kind, &error, context);
            }
            return;
        }
        if let Err(refusal) = self.begin(index, context) {
            self.shared.log.warn(context, format_args!("queue {index} does not run: {refusal}"));
            // The kick would come again at once.
            context.unwatch(tokens::kick(index));
            self.waiting.remove(&index);
        }
    }

    /// Begins to serve a queue that the driver has used.
    fn begin(&mut self, index: usize, context: &mut D::Context<'_>) -> Result<(), Refusal> {
        let Some(Waiting { kick, config }) = self.waiting.get(&index) else { return Ok(()) };
        let (kick, config) = (kick.clone(), *config);
        kick.drain();
        self.add_memory(context)?;
        if !self.engine.is_filled(index, &config)? {
            return Ok(());
        }
        // The available buffers are in memory that the kernel lists by now.
        self.add_memory(context)?;
        self.waiting.remove(&index);
        context.unwatch(tokens::kick(index));
        let kernel = Arc::clone(&self.kernel);
        let call = EventFd::calling(kernel.file(), move || {
            // A driver that is not ready yet is interrupted when it is.
            let _ = kernel.inject(index as u32);
        });
        let started =
            StartedRing { index, config, kick: Some(kick), call: Some(call), err: None, enabled: true };
        self.engine.start(started, context)
    }

    /// Called after a queue has stopped by itself. VDUSE has no message that asks the driver for a reset.
    pub fn queue_stopped(&mut self, kind: D::Kind, why: &dyn Display, context: &mut D::Context<'_>) {
        let remedy = "remove the device (vdpa dev del) and start the port again";
        self.shared.log.warn(context, format_args!("{}: {why}; {remedy}", D::name(kind)));
        self.engine.broke(kind);
    }

    /// Interrupts the driver for all queues, as soon as the kernel accepts that: what the device did before the driver
    /// was ready had no interrupt.
    pub fn interrupt(&mut self, context: &mut D::Context<'_>) {
        let running: Vec<u32> = self.engine.rings.indices().into_iter().map(|index| index as u32).collect();
        let is_ready = running.into_iter().all(|index| self.kernel.inject(index).is_ok());
        self.interrupts = self.interrupts.saturating_sub(1);
        if !is_ready && self.interrupts > 0 {
            context.after(INTERRUPTS, INTERRUPT_INTERVAL);
        }
    }

    /// Maps memory that the kernel has added.
    fn add_memory(&mut self, context: &mut D::Context<'_>) -> Result<(), Refusal> {
        let found = driver_memory::list(&*self.kernel)?;
        if found.iter().map(|found| found.entry).eq(self.entries.iter().copied()) {
            return Ok(());
        }
        let kept = Arc::clone(&self.engine.memory.space);
        self.change_memory(&found, &kept, context)
    }

    /// Maps all memory anew, because the kernel has replaced some.
    fn renew_memory(&mut self, context: &mut D::Context<'_>) -> Result<(), Refusal> {
        let found = driver_memory::list(&*self.kernel)?;
        self.change_memory(&found, &AddressSpace::new(), context)
    }

    fn change_memory(
        &mut self,
        found: &[Found],
        kept: &AddressSpace,
        context: &mut D::Context<'_>,
    ) -> Result<(), Refusal> {
        let space = driver_memory::map(found, kept, &self.memory).inspect_err(|_| {
            // Memory that the kernel has taken away must not be used any more.
            self.engine.clear(AddressSpace::new(), context);
            self.entries.clear();
        })?;
        self.entries = found.iter().map(|found| found.entry).collect();
        if let Err(refusal) = self.engine.set_space(space.clone(), context) {
            self.shared.log.warn(context, format_args!("all queues stop: {refusal}"));
            self.engine.clear(space, context);
        }
        Ok(())
    }

    /// Back to the state before the driver.
    fn reset(&mut self, context: &mut D::Context<'_>) -> Result<(), Refusal> {
        self.stop(context);
        self.engine.reset(context)
    }

    /// Stops all rings and releases the memory.
    pub fn stop(&mut self, context: &mut D::Context<'_>) {
        for index in std::mem::take(&mut self.waiting).into_keys() {
            context.unwatch(tokens::kick(index));
        }
        self.engine.clear(AddressSpace::new(), context);
        self.entries.clear();
        self.interrupts = 0;
    }

    /// Stops all rings, because memory of them was lost.
    pub fn memory_lost(&mut self, loss: &Loss, context: &mut D::Context<'_>) {
        self.stop(context);
        let what = format_args!("{} bytes of the driver's memory are gone, all queues stop", loss.bytes);
        self.shared.log.warn(context, what);
    }

    /// Takes all queues from the workers, and returns their positions.
    pub fn park(&mut self, context: &mut D::Context<'_>) -> BTreeMap<usize, VringBase> {
        self.engine.rings.park(context);
        let waiting = self.waiting.iter().map(|(index, waiting)| (*index, waiting.config.base));
        let waiting: Vec<_> = waiting.inspect(|(index, _)| context.unwatch(tokens::kick(*index))).collect();
        self.engine.bases().into_iter().chain(waiting).collect()
    }
}

fn failed<E: Display>(what: &str) -> impl Fn(E) -> Refusal {
    move |error| Refusal::new(format!("{what}: {error}"))
}

/// The settings of a queue, checked.
fn config(queue: &Queue, layout: RingLayout, base: VringBase) -> Result<VringConfig, Refusal> {
    let size = QueueSize::new(layout, queue.size).map_err(failed("size"))?;
    let Queue { descriptors: descriptor, driver, device, .. } = *queue;
    let addresses = VringAddresses { descriptor, driver, device };
    if let Some((name, value)) = addresses.misaligned(layout) {
        return Err(Refusal::new(format!("the {name} at {value:#x} is not aligned")));
    }
    if !base.fits(layout, size) {
        return Err(Refusal::new(format!("{base:?} is no position of {} descriptors", size.get())));
    }
    Ok(VringConfig { layout, size, addresses, log: None, base })
}

fn base(position: Position) -> VringBase {
    match position {
        Position::Split(next_available) => VringBase::Split { next_available },
        // A driver of this kernel does not set a position, which is then zero and no start of a packed ring.
        Position::Packed { available: 0, used: 0 } => VringBase::start(RingLayout::Packed),
        // DPDK sets the available position alone, as with vhost-user.
        Position::Packed { available, used } => {
            let num = u32::from(available) | u32::from(used) << 16;
            VringBase::from_wire(RingLayout::Packed, num).unwrap_or(VringBase::start(RingLayout::Packed))
        }
    }
}

fn position(base: VringBase) -> Position {
    match base {
        VringBase::Split { next_available } => Position::Split(next_available),
        VringBase::Packed { available, used } => {
            Position::Packed { available: available.to_bits(), used: used.to_bits() }
        }
    }
}

#[cfg(test)]
mod tests;
