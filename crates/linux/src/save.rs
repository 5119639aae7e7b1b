//! Files that are written whole or not at all.

use std::fs::Permissions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes a file whole or not at all. An earlier file stays if this fails or if the process is killed meanwhile.
///
/// # Errors
/// No file can be created in the path's folder, `write` returns an error, the disk is full, or the new file cannot be
/// synced or renamed to `path`.
pub fn save(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The file has the mode of an ordinary new file: the user's umask decides who may read it.
    let mode = Permissions::from_mode(0o666);
    let mut file = tempfile::Builder::new().permissions(mode).tempfile_in(folder)?;
    let mut buffered = BufWriter::new(file.as_file_mut());
    write(&mut buffered)?;
    buffered.flush()?;
    drop(buffered);
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_failure_leaves_what_was_there_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        save(&path, |file| file.write_all(b"first")).unwrap();
        let failed = save(&path, |file| {
            file.write_all(b"second")?;
            Err(io::Error::other("no more"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"first");
        save(&path, |file| file.write_all(b"third")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"third");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(save(&folder.path().join("none/file"), |_| Ok(())).is_err());
    }
}
