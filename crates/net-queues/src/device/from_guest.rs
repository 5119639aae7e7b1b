//! Frames from a guest: the device half of a transmitq.
mod rest;
mod settings;
mod state;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use frame::{DropReason, FrameBatch, QueueCounters, QueueError, RingState, Source};
use virtio::net::HeaderLayout;
use virtqueue::{DeviceQueue, PopError};

use self::state::State;
use crate::cache_policy::{CachePolicy, DemotionTuner};
use crate::device::{EventFd, StoppedAt, notify_if};

/// Chains that one burst can hold.
const MAX_BURST: usize = 256;

/// Frames from a guest's transmitq, borrowed in the guest's memory.
#[repr(align(128))] // lines of its own: workers write to neighbouring queues
pub struct FromGuest {
    queue: Box<dyn DeviceQueue>,
    layout: HeaderLayout,
    batch: FrameBatch,
    cache_policy: CachePolicy,
    demotion_tuner: DemotionTuner,
    /// Whether chains are popped that are not given back yet.
    needs_release: bool,
    /// The most chains to pop. A full batch sets it to roughly what the batch can take, because chains beyond that
    /// are popped again with the next burst. It doubles with each batch that is not full.
    pop_limit: usize,
    /// [`Burst::work`](virtqueue::Burst::work) when it was last counted.
    counted_work: u32,
    /// Whether frames are passed on. From a disabled ring they are consumed and dropped.
    enabled: bool,
    state: State,
    /// Keeps the position at which the queue has stopped by itself.
    pub(super) stopped_at: Arc<StoppedAt>,
    /// Whether a kick may have come since polling resumed.
    armed: bool,
    kick: Option<EventFd>,
    call: Option<EventFd>,
    counters: Arc<QueueCounters>,
}

impl FromGuest {
    /// A source over a running queue. Without `kick` it never wakes its worker; without `call` the driver polls.
    pub fn new(
        mut queue: Box<dyn DeviceQueue>,
        layout: HeaderLayout,
        kick: Option<EventFd>,
        call: Option<EventFd>,
        enabled: bool,
        counters: Arc<QueueCounters>,
    ) -> Self {
        queue.disable_kicks();
        FromGuest {
            layout,
            batch: FrameBatch::of_queue(MAX_BURST),
            cache_policy: CachePolicy::Auto,
            demotion_tuner: CachePolicy::Auto.demotion_tuner(&*queue),
            needs_release: false,
            pop_limit: MAX_BURST,
            counted_work: 0,
            enabled,
            state: if enabled { State::Runs } else { State::NotEnabledYet },
            stopped_at: Arc::default(),
            armed: false,
            kick,
            call,
            counters,
            queue,
        }
    }

    /// Pops chains to the batch's burst; returns how many.
    #[inline(never)] // the loop over the chains keeps its registers
    fn pop(&mut self, max: usize) -> Result<usize, QueueError> {
        let Some(burst) = self.batch.burst_mut() else { return Ok(0) };
        match self.queue.pop(burst, max.min(self.pop_limit)) {
            Ok(count) => {
                self.demotion_tuner.polled(count);
                burst.set_descriptor_demotion(self.demotion_tuner.descriptors());
                let work = burst.work();
                if work != self.counted_work {
                    self.count_popped(work);
                }
                Ok(count)
            }
            // ACCESS_PLATFORM is not offered, so there is no translation to wait for.
            Err(PopError::Miss { .. }) => Ok(0),
            Err(PopError::Malformed(error)) => {
                self.state = State::Stopped;
                self.stopped_at.set(self.queue.position());
                Err(error.into())
            }
        }
    }
}

impl Source for FromGuest {
    #[inline]
    fn rx_burst(&mut self, max: usize) -> Result<&FrameBatch, QueueError> {
        self.batch.clear();
        self.needs_release = false;
        if self.state != State::Runs {
            return Ok(&self.batch);
        }
        let popped = self.pop(max)?;
        if popped == 0 {
            return Ok(&self.batch);
        }
        self.needs_release = true;
        if !self.enabled {
            self.counters.dropped(DropReason::Disabled, popped as u64);
            if let Some(log) = self.batch.sender_log_mut() {
                log.begin(self.queue.position(), popped);
            }
            return Ok(&self.batch);
        }
        let counters = &self.counters;
        let pushed = self.batch.push_chains(0, self.layout, |reason| counters.dropped(reason, 1));
        let mut bytes = pushed.bytes;
        if self.batch.is_full() {
            bytes += self.end_full(pushed.end);
        } else if self.pop_limit < MAX_BURST {
            self.pop_limit *= 2;
        }
        let frames = self.batch.len();
        self.counters.passed(frames as u64, bytes);
        if let Some(log) = self.batch.sender_log_mut() {
            log.begin(self.queue.position(), frames);
        }
        Ok(&self.batch)
    }

    #[inline(always)]
    fn needs_release(&self) -> bool {
        self.needs_release
    }

    #[inline(always)]
    fn batch_mut(&mut self) -> Option<&mut FrameBatch> {
        Some(&mut self.batch)
    }

    #[inline]
    fn release(&mut self) {
        self.batch.clear();
        self.needs_release = false;
        let Some(burst) = self.batch.burst_mut() else { return };
        // No bytes were written, so the lengths stay 0, whatever writable parts the chains have.
        self.queue.add_used_all(burst);
        if let Some(log) = self.batch.sender_log() {
            log.completed();
        }
        if let Some(call) = &self.call {
            notify_if(call, self.queue.needs_call(), &self.counters);
        }
        // Demote lines after the barrier in `needs_call`: it would wait for all of them.
        if let Some(demotion) = self.demotion_tuner.frames()
            && let Some(burst) = self.batch.burst_mut()
        {
            // Only the line in which the frame begins is demoted: its addresses are written again for each frame, but
            // the bytes behind them not always, and net headers mostly stay unchanged.
            burst.demote_readable(demotion, self.layout.bytes());
        }
    }

    fn sleep(&mut self) -> bool {
        self.armed = true;
        // A kick of a ring that is not served yet wakes all the same, once: it is forgotten then.
        self.state == State::Runs && self.queue.enable_kicks()
    }

    fn wake(&mut self) {
        if !self.armed {
            return;
        }
        self.armed = false;
        self.queue.disable_kicks();
        if let Some(kick) = &self.kick {
            self.counters.kicked(kick.drain());
        }
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.kick.as_ref().map(AsFd::as_fd)
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }

    fn ring(&self) -> Option<RingState> {
        Some(RingState::of(&*self.queue, self.enabled))
    }
}
