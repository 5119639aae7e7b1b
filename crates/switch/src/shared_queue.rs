//! A queue while workers use it: a thread claims it for each burst.
//!
//! The control thread keeps a reference to the queue, so that a worker that is stuck in one queue blocks no other.
//! The queues that it does not hold at that moment are given to another thread.
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// Attempts before the thread sleeps: a burst takes microseconds, unless its worker was preempted.
const CLAIM_SPINS: u32 = 2000;

/// The pause between two later attempts.
const CLAIM_PAUSE: Duration = Duration::from_micros(50);

/// How long one worker waits for another at most. Longer than a preempted worker waits for its turn; one that
/// is stuck keeps others no longer than this, once.
const CLAIM_LIMIT: Duration = Duration::from_millis(20);

/// A source or sink that workers claim.
#[repr(align(128))] // lines of its own: workers write to neighbouring queues
pub(crate) struct SharedQueue<T: ?Sized> {
    /// The queue; `None` once it was removed or has stopped.
    queue: Mutex<Option<Box<T>>>,
    /// A claim has waited too long; the next claim does not wait.
    overdue: AtomicBool,
    /// The thread that holds the queue was abandoned. No thread uses the queue any more.
    retired: AtomicBool,
}

/// Why a queue cannot be claimed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unclaimed {
    /// Another thread holds the queue and will release it soon.
    Held,
    /// The thread that holds the queue was abandoned, or has panicked.
    Lost,
}

/// A claimed queue.
pub(crate) type ClaimedQueue<'a, T> = MutexGuard<'a, Option<Box<T>>>;

impl<T: ?Sized> SharedQueue<T> {
    pub fn new(queue: Box<T>) -> Arc<Self> {
        Arc::new(SharedQueue {
            queue: Mutex::new(Some(queue)),
            overdue: AtomicBool::new(false),
            retired: AtomicBool::new(false),
        })
    }

    /// Claims the queue at once, or not at all.
    ///
    /// # Errors
    /// Another thread holds the queue ([`Unclaimed::Held`]). Or the thread that holds it was abandoned or has
    /// panicked ([`Unclaimed::Lost`]).
    #[inline(always)]
    pub fn try_claim(&self) -> Result<ClaimedQueue<'_, T>, Unclaimed> {
        self.queue.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock if !self.is_retired() => Unclaimed::Held,
            TryLockError::WouldBlock | TryLockError::Poisoned(_) => Unclaimed::Lost,
        })
    }

    /// Claims the queue, and waits at most [`CLAIM_LIMIT`] for the thread that holds it. `None` if that takes
    /// longer, or if the queue is lost.
    #[inline(always)]
    pub fn claim(&self) -> Option<ClaimedQueue<'_, T>> {
        match self.queue.try_lock() {
            Ok(claimed) => {
                if self.overdue.load(Ordering::Relaxed) {
                    self.overdue.store(false, Ordering::Relaxed);
                }
                Some(claimed)
            }
            Err(TryLockError::Poisoned(_)) => None,
            Err(TryLockError::WouldBlock) => self.wait(),
        }
    }

    #[cold]
    fn wait(&self) -> Option<ClaimedQueue<'_, T>> {
        if self.overdue.load(Ordering::Relaxed) {
            // The last thread that waited ran into the limit. One attempt shows whether the queue is free again.
            let claimed = self.try_claim().ok()?;
            self.overdue.store(false, Ordering::Relaxed);
            return Some(claimed);
        }
        let claimed = self.wait_for(CLAIM_LIMIT);
        self.overdue.store(claimed.is_none(), Ordering::Relaxed);
        claimed
    }

    fn wait_for(&self, limit: Duration) -> Option<ClaimedQueue<'_, T>> {
        let mut attempts = 0;
        let mut since = None;
        loop {
            match self.queue.try_lock() {
                Ok(claimed) => return Some(claimed),
                Err(TryLockError::Poisoned(_)) => return None,
                Err(TryLockError::WouldBlock) => {}
            }
            attempts += 1;
            if attempts < CLAIM_SPINS {
                std::hint::spin_loop();
            } else if since.get_or_insert_with(Instant::now).elapsed() < limit {
                std::thread::sleep(CLAIM_PAUSE);
            } else {
                return None;
            }
        }
    }

    /// Removes the queue. `None` if it is gone already, or if an abandoned thread holds it.
    pub fn take(&self) -> Option<Box<T>> {
        if self.is_retired() { None } else { self.wait_for(CLAIM_LIMIT)?.take() }
    }

    /// Replaces the queue by one that `how` makes of it, between two bursts.
    ///
    /// # Errors
    /// The queue is not released within [`CLAIM_LIMIT`] ([`Unclaimed::Held`]), or it is gone ([`Unclaimed::Lost`]).
    pub fn change(&self, how: impl FnOnce(Box<T>) -> Box<T>) -> Result<(), Unclaimed> {
        let mut claimed = self.wait_for(CLAIM_LIMIT).ok_or(Unclaimed::Held)?;
        let queue = claimed.take().ok_or(Unclaimed::Lost)?;
        *claimed = Some(how(queue));
        Ok(())
    }

    /// Retires the queue if an abandoned thread holds it: no thread may use the queue any more. Returns whether
    /// the queue is lost.
    pub fn retire(&self) -> bool {
        // In this order: a thread that is slow and not stuck sees the flag before it releases its burst, or has
        // released the queue already.
        self.retired.store(true, Ordering::SeqCst);
        // A thread that returned meanwhile and saw the flag has dropped the queue.
        let is_lost = self.wait_for(CLAIM_LIMIT).is_none_or(|claimed| claimed.is_none());
        self.retired.store(is_lost, Ordering::SeqCst);
        is_lost
    }

    /// Whether the queue was retired. The thread that holds the queue asks before it touches the queue again.
    #[inline(always)]
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// Removes the queue although a thread panicked while it held the queue.
    pub fn salvage(&self) -> Option<Box<T>> {
        match self.queue.try_lock() {
            Ok(mut claimed) => claimed.take(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().take(),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// A queue that a thread holds until the sender is dropped.
    fn held() -> (Arc<SharedQueue<u32>>, std::sync::mpsc::Sender<()>, std::thread::JoinHandle<bool>) {
        let queue = SharedQueue::new(Box::new(1));
        let (there, is_there) = channel();
        let (release, released) = channel::<()>();
        let holder = Arc::clone(&queue);
        let thread = std::thread::spawn(move || {
            let claimed = holder.try_claim().unwrap();
            there.send(()).unwrap();
            let _ = released.recv();
            let is_retired = holder.is_retired();
            drop(claimed);
            is_retired
        });
        is_there.recv().unwrap();
        (queue, release, thread)
    }

    #[test]
    fn one_that_is_never_given_back_is_waited_for_once() {
        let (queue, release, thread) = held();
        let begin = Instant::now();
        assert!(queue.claim().is_none());
        assert!(begin.elapsed() >= CLAIM_LIMIT);
        let begin = Instant::now();
        for _ in 0..1000 {
            assert!(queue.claim().is_none());
        }
        // Each would have taken 20 ms.
        assert!(begin.elapsed() < 1000 * CLAIM_LIMIT / 4, "{:?}", begin.elapsed());
        drop(release);
        assert!(!thread.join().unwrap());
        assert_eq!(queue.claim().unwrap().as_deref(), Some(&1));
    }

    #[test]
    fn what_is_held_is_retired_and_what_is_not_goes_on() {
        let (queue, release, thread) = held();
        assert!(queue.retire());
        assert_eq!(queue.take(), None);
        drop(release);
        assert!(thread.join().unwrap(), "the holder knows");
        assert_eq!(queue.take(), None, "gone for good");
        let queue = SharedQueue::new(Box::new(2));
        assert!(!queue.retire());
        assert_eq!(queue.take().as_deref(), Some(&2));
    }

    #[test]
    fn who_comes_back_while_it_is_retired_loses_it() {
        let queue = SharedQueue::new(Box::new(4));
        let mut claimed = queue.try_claim().unwrap();
        std::thread::scope(|scope| {
            let retired = scope.spawn(|| queue.retire());
            // As a worker does that was only slow.
            while !queue.is_retired() {
                std::hint::spin_loop();
            }
            *claimed = None;
            drop(claimed);
            assert!(retired.join().unwrap(), "nobody else tells that it is gone");
        });
        assert_eq!(queue.take(), None);
    }

    #[test]
    fn after_a_wait_in_vain_the_next_one_waits_again() {
        let (queue, release, thread) = held();
        assert!(queue.claim().is_none());
        drop(release);
        assert!(!thread.join().unwrap());
        drop(queue.claim().unwrap());
        let (there, is_there) = channel();
        std::thread::scope(|scope| {
            let holder = &queue;
            scope.spawn(move || {
                let claimed = holder.try_claim().unwrap();
                there.send(()).unwrap();
                std::thread::sleep(CLAIM_LIMIT / 10);
                drop(claimed);
            });
            is_there.recv().unwrap();
            assert!(queue.claim().is_some(), "a burst for it would be dropped");
        });
    }

    #[test]
    fn what_a_panic_left_behind_is_only_salvaged() {
        let queue = SharedQueue::new(Box::new(3));
        let holder = Arc::clone(&queue);
        let panicked = std::thread::spawn(move || {
            let _claimed = holder.try_claim();
            panic!("as told");
        });
        assert!(panicked.join().is_err());
        assert!(queue.claim().is_none() && queue.try_claim().is_err() && queue.take().is_none());
        assert_eq!(queue.salvage().as_deref(), Some(&3));
    }
}
