//! Transfers files to and from the machine, through a serial port that carries only these bytes, unchanged and of any
//! length.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::machine::{Machine, PROGRAMS};
use crate::guest::userland::{needed_libraries, read};
use crate::{Error, process};

const LIMIT: Duration = Duration::from_secs(60);

impl Machine {
    /// Writes an executable file in the machine, with the folders above it. The machine must take each part within 60
    /// s.
    ///
    /// # Errors
    /// The machine has ended, does not take the file in time, or its file system refuses the folder or the file.
    pub fn push(&self, content: &[u8], to: &Path) -> Result<(), Error> {
        let doing = || format!("copying {} bytes to {} of the nested machine", content.len(), to.display());
        let mut data = self.data.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (folder, to) = (quoted(to.parent().unwrap_or(Path::new("/"))), quoted(to));
        // Through another name: a program that runs is not written to.
        let line = format!(
            "mkdir -p {folder} && head -c {} <{PORT} >{to}.new && chmod 755 {to}.new && mv {to}.new {to}",
            content.len()
        );
        let job = self.begin(&line, LIMIT)?;
        send(&mut data, content, LIMIT).map_err(Error::system(doing()))?;
        let output = job.wait()?;
        if output.success() { Ok(()) } else { Err(Error::refused(doing(), output.stderr)) }
    }

    /// Reads a file of the machine. The machine must send each part within 60 s.
    ///
    /// # Errors
    /// The machine has no such file, has ended, or does not send it in time.
    pub fn pull(&self, from: &Path) -> Result<Vec<u8>, Error> {
        let doing = || format!("copying {} from the nested machine", from.display());
        let mut data = self.data.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let from = quoted(from);
        let size = self.run(&format!("stat -L -c %s {from}"))?;
        let size: usize =
            size.stdout.trim().parse().map_err(|_| Error::refused(doing(), size.stderr.trim().to_owned()))?;
        let job = self.begin(&format!("head -c {size} {from} >{PORT}"), LIMIT)?;
        let mut content = vec![0; size];
        data.set_read_timeout(Some(LIMIT)).map_err(Error::system(doing()))?;
        data.read_exact(&mut content).map_err(Error::system(doing()))?;
        let output = job.wait()?;
        if output.success() { Ok(content) } else { Err(Error::refused(doing(), output.stderr)) }
    }

    /// Copies a program of the host into the machine, with its libraries.
    pub(super) fn bring(&self, program: &Path) -> Result<(), Error> {
        let name = program.file_name().unwrap_or_default();
        self.push(&without_symbols(program)?, &Path::new(PROGRAMS).join(name))?;
        for library in needed_libraries(program)? {
            if !self.run(&format!("test -e {}", quoted(&library)))?.success() {
                self.push(&read(&library)?, &library)?;
            }
        }
        Ok(())
    }
}

/// A program's file without debug information and symbols, which are most of it, and which every guest within would
/// unpack with it. The file is unchanged if it is no program or `strip` is missing.
fn without_symbols(program: &Path) -> Result<Vec<u8>, Error> {
    let lean = tempfile::NamedTempFile::new().map_err(Error::system("making a temporary file"))?;
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(lean.path()).arg(program);
    match process::run(&mut strip, LIMIT) {
        Ok(output) if output.success() => read(lean.path()),
        _ => read(program),
    }
}

/// The machine's end of the channel for files.
const PORT: &str = "/dev/virtio-ports/data";

/// Writes all of it; each part must be taken within `limit`.
fn send(data: &mut UnixStream, content: &[u8], limit: Duration) -> io::Result<()> {
    data.set_write_timeout(Some(limit))?;
    data.write_all(content)
}

/// A path as one word of a shell's command line.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_takes_nothing_is_given_up() {
        let (mut ours, _theirs) = UnixStream::pair().unwrap();
        let error = send(&mut ours, &vec![0; 16 << 20], Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut), "{error}");
    }
}
