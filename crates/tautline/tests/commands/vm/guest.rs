//! A guest with a shell of busybox: it says `up` on its first serial line, and shuts down when it is told a line on its
//! second.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use cpio::NewcBuilder;
use serde_json::{Value, json};

use crate::common::wait_until;

pub const APPEND: &str = "console=ttyS0 quiet panic=-1";
const INIT: &str = "#!/busybox sh
/busybox mount -t devtmpfs dev /dev
echo up >/dev/ttyS0
read line </dev/ttyS1
/busybox poweroff -f
";

pub struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    pub fn make() -> Self {
        Self::with(INIT, &[])
    }

    /// With another script as `/init`, and further programs by their names.
    pub fn with(init: &str, further: &[(&str, PathBuf)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let busybox =
            ["/bin/busybox", "/usr/bin/busybox"].map(Path::new).into_iter().find(|file| file.exists());
        let busybox =
            std::fs::read(busybox.expect("busybox-static: scripts/setup.sh test installs it")).unwrap();
        let mut archive = Vec::new();
        let folders = ["dev", "proc", "sys"].map(|name| (name, 0o040_755, Vec::new()));
        let programs = [("busybox", 0o100_755, busybox), ("init", 0o100_755, init.as_bytes().to_vec())];
        let further = further.iter().map(|(name, file)| (*name, 0o100_755, std::fs::read(file).unwrap()));
        let files = folders.into_iter().chain(programs).chain(further);
        for (inode, (name, mode, content)) in files.enumerate() {
            let entry = NewcBuilder::new(name).ino(inode as u32 + 1).mode(mode).nlink(1);
            let mut entry = entry.write(&mut archive, content.len() as u32);
            entry.write_all(&content).unwrap();
            entry.finish().unwrap();
        }
        std::fs::write(folder.path().join("initramfs"), cpio::newc::trailer(archive).unwrap()).unwrap();
        Files { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// What `--output` wrote, once it is in this state.
    pub fn status(&self, state: &str) -> Value {
        let read = || serde_json::from_str::<Value>(&self.read("status.json")).ok();
        let is = |status: &Value| status["state"] == state;
        assert!(wait_until(|| read().is_some_and(|status| is(&status))), "never {state}: {:?}", read());
        let status = read().unwrap();
        peers::schema::fits(&status);
        status
    }
}

pub fn kernel() -> String {
    environment::vm::find_kernel().unwrap().to_str().unwrap().to_owned()
}

/// A second monitor of a QEMU.
pub struct Monitor(UnixStream);

impl Monitor {
    pub fn connect(path: &Path) -> Self {
        let mut stream = None;
        assert!(wait_until(|| {
            stream = UnixStream::connect(path).ok();
            stream.is_some()
        }));
        let mut monitor = Monitor(stream.unwrap());
        monitor.line();
        monitor.execute("qmp_capabilities", &json!({}));
        monitor
    }

    fn line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        while self.0.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap()
    }

    pub fn execute(&mut self, command: &str, arguments: &Value) {
        let line = json!({ "execute": command, "arguments": arguments }).to_string() + "\n";
        self.0.write_all(line.as_bytes()).unwrap();
        loop {
            let answer = self.line();
            assert!(!answer.is_empty() && !answer.contains("\"error\""), "{command}: {answer}");
            if answer.contains("\"return\"") {
                return;
            }
        }
    }
}
