//! A device on a thread of its own, behind a real socket.
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crypto_device::{Limits, Port};
use crypto_driver::{Driver, Options};

pub struct Device {
    pub path: PathBuf,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl Device {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("crypto.sock");
        let over = Arc::new(AtomicBool::new(false));
        let port = Port { name: "c".into(), path: path.clone(), limits: Limits::default() };
        let stop = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            crypto_device::run(&[port], |line| eprintln!("{line}"), || !stop.load(Ordering::Relaxed))
                .unwrap();
        });
        peers::socket::wait_for_listener(&path, Duration::from_secs(30)).unwrap();
        Self { path, over, thread: Some(thread), _folder: folder }
    }

    pub fn options(&self) -> Options {
        Options::new(&self.path)
    }

    pub fn driver(&self, options: &Options) -> Driver {
        Driver::connect(options).unwrap()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the device's thread panicked");
    }
}
