//! The output of a process, kept in a memory file. A full disk does not lose it, and a grandchild that holds it open
//! delays no reader.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::process::Stdio;

use rustix::fs::{MemfdFlags, memfd_create};

/// A file in memory for a process's output.
#[derive(Debug)]
pub struct OutputFile(File);

impl OutputFile {
    /// An empty file.
    ///
    /// # Errors
    /// `memfd_create` is refused: no memory, or the limit of open files is reached.
    pub fn new() -> io::Result<Self> {
        Ok(OutputFile(memfd_create("tautline-output", MemfdFlags::CLOEXEC)?.into()))
    }

    /// A duplicate of the descriptor, to be a process's standard output or error. All duplicates share one file
    /// position.
    ///
    /// # Errors
    /// The limit of open files is reached.
    pub fn stdio(&self) -> io::Result<Stdio> {
        Ok(self.0.try_clone()?.into())
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.0
    }

    /// The last bytes of the output, at most `most_bytes`. Bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// The file cannot be read, or another process shortened it during the call.
    pub fn tail(&self, most_bytes: u64) -> io::Result<String> {
        let length = self.0.metadata()?.len();
        let start = length.saturating_sub(most_bytes);
        let mut bytes = vec![0; (length - start) as usize];
        // By its place, for the writers share the file's position.
        self.0.read_exact_at(&mut bytes, start)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The last non-empty lines, at most `most`, without surrounding white space.
pub fn last_lines(text: &str, most: usize) -> Vec<&str> {
    let mut lines: Vec<&str> =
        text.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(most).collect();
    lines.reverse();
    lines
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Command;

    use super::*;

    #[test]
    fn the_end_of_what_was_printed_is_had() {
        let output = OutputFile::new().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; echo three"]);
        let command = command.stdout(output.stdio().unwrap()).stderr(output.stdio().unwrap());
        assert!(command.status().unwrap().success());
        assert_eq!(output.tail(1 << 10).unwrap(), "one\ntwo\nthree\n");
        assert_eq!(output.tail(7).unwrap(), "\nthree\n");
        (&output.0).write_all(b"\xff").unwrap();
        assert_eq!(output.tail(1).unwrap(), "\u{fffd}");
    }

    #[test]
    fn last_lines_are_in_order_and_not_empty() {
        assert_eq!(last_lines("a\n\n b \nc\n  \n", 2), ["b", "c"]);
        assert_eq!(last_lines("a", 2), ["a"]);
        assert!(last_lines("\n", 2).is_empty());
    }
}
