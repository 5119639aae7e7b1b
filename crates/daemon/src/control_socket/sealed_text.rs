//! A long text of a request, in a memory file that came with the request.
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{SealFlags, fcntl_get_seals, fstat};

use super::passed_file::PassedFile;

/// The most bytes of a text: about a hundred thousand flows.
const MOST_BYTES: u64 = 16 << 20;

/// Reads the text of a file. Only a memory file is read: it never makes the reader wait. Its seals must forbid changes
/// and shortening.
///
/// # Errors
/// No file came, it is no sealed memory file, it is too long, or it is not UTF-8. The error is a text for the user.
pub fn read(file: Option<PassedFile>) -> Result<String, String> {
    let wrong = |why: &str| format!("the flows: {why}; send them in the request, or in a sealed memory file");
    let Some(file) = file else { return Err(wrong("neither a text nor a file came with the request")) };
    read_file(file.into_fd()).map_err(|why| wrong(&why))
}

fn read_file(file: OwnedFd) -> Result<String, String> {
    // Other file systems have no seals (fcntl(2)).
    let seals = fcntl_get_seals(&file).map_err(|_| "the file is no memory file".to_owned())?;
    if !seals.contains(SealFlags::WRITE | SealFlags::SHRINK) {
        return Err("the memory file is not sealed".to_owned());
    }
    let bytes = fstat(&file).map_err(|error| error.to_string())?.st_size as u64;
    if bytes > MOST_BYTES {
        return Err(format!("the file has more than {} MiB", MOST_BYTES >> 20));
    }
    let mut text = vec![0; bytes as usize]; // MOST_BYTES at most
    File::from(file).read_exact_at(&mut text, 0).map_err(|error| error.to_string())?;
    String::from_utf8(text).map_err(|_| "the text is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};

    use super::*;

    fn memory_file(text: &[u8], seals: SealFlags) -> OwnedFd {
        let file = memfd_create(c"text", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
        let mut file = File::from(file);
        file.write_all(text).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        file.into()
    }

    #[test]
    fn only_sealed_memory_files_of_a_sensible_length_are_read() {
        let sealed = SealFlags::WRITE | SealFlags::SHRINK;
        assert_eq!(read_file(memory_file(b"actions=drop", sealed)).unwrap(), "actions=drop");
        let refused = |file: OwnedFd, said: &str| {
            let why = read_file(file).unwrap_err();
            assert!(why.contains(said), "{why}");
        };
        refused(memory_file(b"x", SealFlags::SHRINK), "not sealed");
        refused(memory_file(b"x", SealFlags::WRITE), "not sealed");
        refused(memory_file(&[0xff], sealed), "UTF-8");
        refused(tempfile::tempfile().unwrap().into(), "no memory file");
        let long = memfd_create(c"long", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&long, MOST_BYTES + 1).unwrap();
        fcntl_add_seals(&long, sealed).unwrap();
        refused(long, "16 MiB");
        assert!(read(None).is_err());
    }
}
