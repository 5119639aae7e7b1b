//! Threads that close descriptors, and may hang in that.
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Threads of one port that may hang.
pub(super) const MAX_THREADS: usize = 4;

/// How long a descriptor may wait for a thread.
pub(super) const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// Closes descriptors elsewhere. Its threads end with it, those that hang excepted.
#[derive(Debug, Default)]
pub struct Closer(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(Instant, OwnedFd)>,
    threads: usize,
    idle: usize,
    ended: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut queue = self.lock();
        loop {
            if let Some((_, fd)) = queue.waiting.pop_front() {
                drop(queue);
                drop(fd);
                queue = self.lock();
            } else if queue.ended {
                return;
            } else {
                queue.idle += 1;
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
            }
        }
    }
}

impl Closer {
    /// Closes it soon, on another thread.
    pub fn close(&self, fd: OwnedFd) {
        let mut queue = self.0.lock();
        queue.waiting.push_back((Instant::now(), fd));
        // One that is idle may have been woken for an earlier one already.
        if queue.idle < queue.waiting.len() && queue.threads < MAX_THREADS {
            let shared = Arc::clone(&self.0);
            let thread = std::thread::Builder::new().name("closer".to_owned());
            // Without a thread it waits for the next that can be made.
            queue.threads += usize::from(thread.spawn(move || shared.serve()).is_ok());
        }
        self.0.changed.notify_one();
    }

    /// Whether one waits that no thread has taken for long.
    pub(super) fn hangs(&self) -> bool {
        self.0.lock().waiting.front().is_some_and(|(since, _)| since.elapsed() > CLOSE_LIMIT)
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(what: &str, so: impl Fn() -> bool) {
        let limit = Instant::now() + Duration::from_secs(60);
        while !so() {
            assert!(Instant::now() < limit, "not {what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn everything_is_closed_and_few_threads_do_it() {
        let closer = Closer::default();
        let (reader, writer) = std::io::pipe().unwrap();
        for _ in 0..100 {
            closer.close(writer.try_clone().unwrap().into());
        }
        drop(writer);
        // The end of the pipe: no writer is left.
        assert_eq!(std::io::Read::read(&mut &reader, &mut [0]).unwrap(), 0);
        assert!(!closer.hangs());
        let shared = Arc::downgrade(&closer.0);
        assert!((1..=MAX_THREADS).contains(&closer.0.lock().threads));
        drop(closer);
        until("the end of all threads", || shared.strong_count() == 0);
    }
}
