//! Values that separate threads drop, because dropping may take long or wait for a peer.
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Drops values on a limited number of separate threads. The threads end with the queue once no value waits. A thread
/// that hangs in a drop stays.
pub struct DropQueue {
    name: &'static str,
    most_threads: usize,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Instant, Box<dyn Send>)>,
    threads: usize,
    idle: usize,
    ended: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some((_, value)) = state.waiting.pop_front() {
                drop(state);
                drop(value);
                state = self.lock();
            } else if state.ended {
                return;
            } else {
                state.idle += 1;
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }
}

impl DropQueue {
    /// A queue whose threads have this name. No thread is started yet.
    pub fn new(name: &'static str, most_threads: usize) -> Self {
        DropQueue { name, most_threads, shared: Arc::default() }
    }

    /// Starts the first thread, if none runs. Threads that may not start others (confined workers) can use the queue
    /// then.
    ///
    /// # Errors
    /// The system refuses a thread: the limit of processes (ulimit -u, TasksMax) or memory is exhausted.
    pub fn start(&self) -> io::Result<()> {
        let mut state = self.shared.lock();
        if state.threads == 0 { self.add_thread(&mut state) } else { Ok(()) }
    }

    fn add_thread(&self, state: &mut State) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        std::thread::Builder::new().name(self.name.to_owned()).spawn(move || shared.serve())?;
        state.threads += 1;
        Ok(())
    }

    /// Wraps a value. When the holder drops the wrapper, a thread of this queue drops the value.
    pub fn defer<T: Send + 'static>(self: &Arc<Self>, value: T) -> Deferred<T> {
        // Without a thread the value waits for the next attempt to make one.
        let _ = self.start();
        Deferred { value: Some(value), queue: Arc::clone(self) }
    }

    /// Drops a value soon, on another thread.
    pub fn put(&self, value: impl Send + 'static) {
        let mut state = self.shared.lock();
        state.waiting.push_back((Instant::now(), Box::new(value)));
        // An idle thread may have been woken for an earlier value already.
        if state.idle < state.waiting.len() && state.threads < self.most_threads {
            // Without another thread the value waits for one of the present threads.
            let _ = self.add_thread(&mut state);
        }
        self.shared.changed.notify_one();
    }

    /// How long the oldest value has waited for a thread.
    pub fn longest_wait(&self) -> Option<Duration> {
        self.shared.lock().waiting.front().map(|(since, _)| since.elapsed())
    }

    /// Whether all values have been dropped.
    pub fn is_idle(&self) -> bool {
        let state = self.shared.lock();
        state.waiting.is_empty() && state.idle == state.threads
    }
}

impl Drop for DropQueue {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
    }
}

impl fmt::Debug for DropQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        let (waiting, threads) = (state.waiting.len(), state.threads);
        write!(f, "DropQueue({}: {waiting} wait, {threads} threads)", self.name)
    }
}

/// A value that a thread of a [`DropQueue`] drops, never the thread of its holder.
#[derive(Debug)]
pub struct Deferred<T: Send + 'static> {
    /// The value, which is taken out only when this is dropped.
    value: Option<T>,
    queue: Arc<DropQueue>,
}

impl<T: Send + 'static> Drop for Deferred<T> {
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            self.queue.put(value);
        }
    }
}

impl<T: AsFd + Send + 'static> AsFd for Deferred<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.value.as_ref().expect("there until it is dropped").as_fd()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Read;
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// Waits until all values in the queue are dropped.
    pub(crate) fn settle(queue: &DropQueue) {
        let limit = Instant::now() + Duration::from_secs(60);
        while !queue.is_idle() {
            assert!(Instant::now() < limit, "{queue:?}");
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    #[test]
    fn everything_is_dropped_and_few_threads_do_it() {
        let queue = Arc::new(DropQueue::new("test", 4));
        let (mut reader, writer) = io::pipe().unwrap();
        for _ in 0..100 {
            drop(queue.defer(writer.try_clone().unwrap()));
        }
        drop(writer);
        // The end of the pipe: no writer is left.
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
        settle(&queue);
        assert_eq!(queue.longest_wait(), None);
        assert!((1..=4).contains(&queue.shared.lock().threads));
        let shared = Arc::downgrade(&queue.shared);
        drop(queue);
        let limit = Instant::now() + Duration::from_secs(60);
        while shared.strong_count() > 0 {
            assert!(Instant::now() < limit, "threads are left");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Says which thread dropped it.
    struct Tells(Sender<Option<String>>);

    impl Drop for Tells {
        fn drop(&mut self) {
            self.0.send(std::thread::current().name().map(str::to_owned)).unwrap();
        }
    }

    #[test]
    fn the_holder_of_a_deferred_value_does_not_drop_it() {
        let queue = Arc::new(DropQueue::new("elsewhere", 1));
        let (tell, told) = channel();
        let deferred = queue.defer(Tells(tell));
        assert!(told.try_recv().is_err());
        drop(deferred);
        assert_eq!(told.recv().unwrap().as_deref(), Some("elsewhere"));
    }

    #[test]
    fn a_queue_is_not_idle_while_a_value_is_being_dropped() {
        struct Waits(std::sync::mpsc::Receiver<()>);
        impl Drop for Waits {
            fn drop(&mut self) {
                let _ = self.0.recv();
            }
        }
        let queue = DropQueue::new("test", 1);
        let (end, until) = channel();
        queue.put(Waits(until));
        queue.put(());
        while queue.shared.lock().waiting.len() > 1 {
            std::thread::sleep(Duration::from_micros(100));
        }
        assert!(!queue.is_idle());
        assert!(queue.longest_wait().is_some(), "one thread, and it hangs");
        end.send(()).unwrap();
        settle(&queue);
    }
}
