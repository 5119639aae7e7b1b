//! The kernel inside a compressed image. A stock kernel unpacks itself when it boots, which takes an emulated CPU up to
//! 3 s. QEMU starts the unpacked kernel at the kernel's PVH entry instead.
//!
//! Sources: Linux, `Documentation/arch/x86/boot.rst` (fields `payload_offset` and `payload_length`, protocol 2.08);
//! Xen, `docs/misc/pvh.pandoc`, for the note that names the entry; the ELF-64 object file format.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use crate::Error;
use crate::nested::cache;

/// Magic bytes, the program that unpacks what they begin, and how many bytes the kernel's build put behind that.
const FORMATS: [(&[u8], &str, usize); 4] = [
    (b"\x1f\x8b", "gzip", 0),
    (b"\xfd7zXZ\0", "xz", SIZE),
    (b"\x28\xb5\x2f\xfd", "zstd", SIZE),
    (b"\x02\x21\x4c\x18", "lz4", SIZE),
];
/// The size of the field that ends a payload: the kernel's size without compression.
const SIZE: usize = 4;
/// The type of Xen's note with the address of the PVH entry, which is a header's third word.
const PHYS32_ENTRY: u32 = 18;

/// The kernel of this image without compression, which the cache keeps; the image itself if the image holds no kernel
/// with a PVH entry, as those for arm64 do.
///
/// # Errors
/// The image or the cache cannot be read or written, or the program that unpacks the format is missing or fails.
pub fn uncompressed(image: &Path) -> Result<PathBuf, Error> {
    let doing = || format!("unpacking the kernel in {}", image.display());
    let failed = || Error::system(doing());
    let about = image.metadata().map_err(failed())?;
    let name = image.file_name().unwrap_or_default().to_string_lossy();
    let kept = format!("{name}.{}.{}.{}", about.len(), about.mtime(), cache::UNCOMPRESSED);
    let kept = cache::folder().join(kept);
    // Its new time keeps another process from removing it as unused.
    if let Ok(file) = File::options().append(true).open(&kept) {
        let _ = file.set_modified(SystemTime::now());
        return Ok(kept);
    }
    let content = std::fs::read(image).map_err(failed())?;
    let Some(payload) = payload(&content) else { return Ok(image.to_owned()) };
    let Some((_, program, behind)) = FORMATS.iter().find(|(magic, ..)| payload.starts_with(magic)) else {
        return Ok(image.to_owned());
    };
    let size = payload.last_chunk().map_or(0, |size| u32::from_le_bytes(*size));
    std::fs::create_dir_all(cache::folder()).map_err(failed())?;
    cache::drop_unused(&cache::folder());
    let mut new = tempfile::NamedTempFile::new_in(cache::folder()).map_err(failed())?;
    unpack(program, &payload[..payload.len() - behind], new.as_file_mut()).map_err(failed())?;
    let unpacked = new.as_file().metadata().map_err(failed())?.len();
    if unpacked != u64::from(size) {
        return Err(Error::refused(doing(), format!("{program} wrote {unpacked} bytes in place of {size}")));
    }
    if !has_pvh_entry(new.as_file()).map_err(failed())? {
        return Ok(image.to_owned());
    }
    new.persist(&kept).map_err(|error| Error::System { doing: doing(), error: error.error })?;
    Ok(kept)
}

/// The compressed kernel in an image for x86.
fn payload(image: &[u8]) -> Option<&[u8]> {
    let word = |at: usize| Some(u32::from_le_bytes(*image.get(at..)?.first_chunk()?));
    let version = u16::from_le_bytes(*image.get(0x206..)?.first_chunk()?);
    if image.get(0x202..0x206)? != b"HdrS" || version < 0x208 {
        return None;
    }
    let sectors = match image[0x1f1] {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let begin = (sectors + 1) * 512 + usize::try_from(word(0x248)?).ok()?;
    let payload = image.get(begin..)?.get(..usize::try_from(word(0x24c)?).ok()?)?;
    (payload.len() > SIZE).then_some(payload)
}

/// Unpacks these bytes into a file.
fn unpack(program: &str, bytes: &[u8], file: &mut File) -> io::Result<()> {
    let mut child = Command::new(program)
        .arg("-dc")
        .stdin(Stdio::piped())
        .stdout(file.try_clone()?)
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?;
    let written = child.stdin.take().expect("piped").write_all(bytes);
    let status = child.wait()?;
    match status.success() {
        true => written,
        false => Err(io::Error::other(format!("{program} -dc ended with {status}"))),
    }
}

/// Whether an ELF file has the note of a PVH entry.
fn has_pvh_entry(file: &File) -> io::Result<bool> {
    const NOTES: u32 = 4;
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0)?;
    let half = |bytes: &[u8], at: usize| u64::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    let long = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return Ok(false);
    }
    let (table, entry, entries) = (long(&header, 0x20), half(&header, 0x36), half(&header, 0x38));
    for number in 0..entries {
        let mut segment = [0; 56];
        file.read_exact_at(&mut segment, table + number * entry)?;
        if segment[..4] != NOTES.to_le_bytes() {
            continue;
        }
        // A few hundred bytes in a kernel.
        let mut notes = vec![0; long(&segment, 32).min(1 << 20) as usize];
        file.read_exact_at(&mut notes, long(&segment, 8))?;
        let [low, high] = [PHYS32_ENTRY.to_le_bytes(), *b"Xen\0"];
        if notes.windows(8).any(|window| window[..4] == low && window[4..] == high) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requirements::Requirements;

    #[test]
    fn the_kernel_of_a_stock_image_is_unpacked_once() {
        let mut needs = Requirements::new();
        let image = crate::chosen::kernel(&mut needs);
        needs.met().unwrap();
        let kernel = uncompressed(&image).unwrap();
        assert!(kernel.metadata().unwrap().len() > 2 * image.metadata().unwrap().len());
        assert!(has_pvh_entry(&File::open(&kernel).unwrap()).unwrap());
        let made = kernel.metadata().unwrap().ino();
        assert_eq!(uncompressed(&image).unwrap().metadata().unwrap().ino(), made);
    }

    #[test]
    fn what_holds_no_kernel_with_the_entry_is_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("vmlinuz-1");
        std::fs::write(&image, "MZ and no more").unwrap();
        assert_eq!(uncompressed(&image).unwrap(), image);
        // A program of the host is an ELF file without the entry.
        assert!(!has_pvh_entry(&File::open("/proc/self/exe").unwrap()).unwrap());
    }

    #[test]
    fn a_damaged_payload_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("vmlinuz-2");
        let mut content = vec![0; 0x600];
        content[0x1f1] = 1;
        content[0x202..0x208].copy_from_slice(b"HdrS\x08\x02");
        content[0x24c..0x250].copy_from_slice(&0x100u32.to_le_bytes());
        content[0x400..0x402].copy_from_slice(b"\x1f\x8b");
        std::fs::write(&image, content).unwrap();
        let error = uncompressed(&image).unwrap_err().to_string();
        assert!(error.contains("vmlinuz-2") && error.contains("gzip"), "{error}");
    }
}
