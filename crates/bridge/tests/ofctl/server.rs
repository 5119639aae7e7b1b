//! A bridge of this crate behind a Unix socket, as `<rundir>/BRIDGE.mgmt` is.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bridge::Bridge;
use controllers::{ConnectionId, Controllers, Limits, Settings};

struct Inner {
    controllers: Controllers,
    bridge: Bridge,
    start: Instant,
}

impl Inner {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

/// The socket, and what is behind it.
pub struct Server {
    socket: PathBuf,
}

impl Server {
    /// Listens. Each connection has a thread, which ends with it.
    pub fn start(folder: &Path, bridge: Bridge) -> Self {
        let socket = folder.join("tautline.mgmt");
        let listener = UnixListener::bind(&socket).unwrap();
        let controllers = Controllers::new(Limits::default());
        let inner = Arc::new(Mutex::new(Inner { controllers, bridge, start: Instant::now() }));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let inner = Arc::clone(&inner);
                std::thread::spawn(move || serve(&inner, stream.unwrap()));
            }
        });
        Self { socket }
    }

    pub fn target(&self) -> String {
        format!("unix:{}", self.socket.display())
    }
}

/// Bytes to the session and back until the other end closes.
fn serve(inner: &Mutex<Inner>, mut stream: UnixStream) {
    let id = {
        let inner = &mut *inner.lock().unwrap();
        let now = inner.now();
        inner.controllers.connect(Settings::service(), &inner.bridge, now).unwrap()
    };
    let mut buffer = vec![0; 4096];
    let mut taken = 0;
    while exchange(inner, id, &buffer[..taken], &mut stream) {
        taken = match stream.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(taken) => taken,
        };
    }
    inner.lock().unwrap().controllers.disconnect(id);
}

/// Gives bytes to the session and sends all that it has to say. False if the connection is over.
fn exchange(inner: &Mutex<Inner>, id: ConnectionId, bytes: &[u8], stream: &mut UnixStream) -> bool {
    let mut bytes = bytes;
    loop {
        let (goes_on, answer) = {
            let inner = &mut *inner.lock().unwrap();
            let now = inner.now();
            let done = inner.controllers.receive(id, std::mem::take(&mut bytes), &mut inner.bridge, now);
            (done.is_ok(), std::mem::take(inner.controllers.to_send(id).unwrap()))
        };
        if stream.write_all(&answer).is_err() || !goes_on {
            return false;
        }
        if answer.is_empty() {
            return true;
        }
    }
}
