//! A program between a front-end and a back-end that passes their messages on and keeps copies of the kicks.
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::VringFd;
use vhost_user::socket::{Connection, Listener, SocketError};

use crate::switch_process::{SOON, wait_for};

#[derive(Default)]
struct Shared {
    end: AtomicBool,
    kicks: Mutex<BTreeMap<u8, OwnedFd>>,
}

/// Passes messages on in a thread of its own until it is dropped.
pub struct Middle {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Middle {
    /// The front-end connects here, the back-end listens there.
    pub fn new(here: PathBuf, there: PathBuf) -> Self {
        let shared = Arc::<Shared>::default();
        let listener = Listener::bind(&here).unwrap();
        let thread = {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || pass(&listener, &there, &shared))
        };
        Middle { shared, thread: Some(thread) }
    }

    /// The kick of this ring.
    #[track_caller]
    pub fn kick_of(&self, index: u8) -> OwnedFd {
        wait_for("a kick's descriptor", || {
            self.shared.kicks.lock().unwrap().get(&index).map(|fd| fd.as_fd().try_clone_to_owned().unwrap())
        })
    }
}

impl Drop for Middle {
    fn drop(&mut self) {
        self.shared.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn pass(listener: &Listener, there: &Path, shared: &Shared) {
    let mut front_end = loop {
        match listener.accept(Some(Instant::now() + Duration::from_millis(50))) {
            Ok(connection) => break connection,
            Err(SocketError::Deadline { .. }) if !shared.end.load(Ordering::Relaxed) => {}
            Err(_) => return,
        }
    };
    let mut back_end = wait_for("the back-end", || Connection::connect(there).ok());
    let deadline = || Some(Instant::now() + SOON);
    while !shared.end.load(Ordering::Relaxed) {
        let Ok(message) = front_end.try_receive() else { return };
        if let Some(message) = message {
            if let Ok(Request::SetVringKick(VringFd { index, .. })) = Request::parse(&message)
                && let Some(fd) = message.fds.first()
            {
                shared.kicks.lock().unwrap().insert(index, fd.as_fd().try_clone_to_owned().unwrap());
            }
            back_end.send(message, deadline()).unwrap();
        }
        let Ok(message) = back_end.try_receive() else { return };
        match message {
            Some(message) => front_end.send(message, deadline()).unwrap(),
            None => std::thread::sleep(Duration::from_micros(200)),
        }
    }
}
