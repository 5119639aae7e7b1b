//! The guest's whole file system: the agent as `/init`, and the files that a workload needs.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use cpio::NewcBuilder;
use measure::Failure;
use rustix::fs::{MemfdFlags, memfd_create};

use super::modules::Module;
use crate::{Agent, guest};

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const CONSOLE: u32 = 0o020_600;

/// Writes the initramfs to a memory file, which needs no clean-up and no disk space.
///
/// # Errors
/// The agent's binary or one of its files cannot be read, or the memory file cannot be made or written.
pub fn build(agent: &Agent, modules: &[&Module]) -> io::Result<File> {
    let mut archive = File::from(memfd_create("tautline-initramfs", MemfdFlags::CLOEXEC)?);
    let mut buffered = io::BufWriter::new(&mut archive);
    let mut inode = 0;
    let mut add = |name: &str, mode: u32, content: &[u8]| -> io::Result<()> {
        inode += 1;
        let mut builder = NewcBuilder::new(name).ino(inode).mode(mode).nlink(1);
        if mode == CONSOLE {
            builder = builder.rdev_major(5).rdev_minor(1);
        }
        let mut entry = builder.write(&mut buffered, content.len() as u32);
        entry.write_all(content)?;
        entry.finish()?;
        Ok(())
    };
    for folder in ["dev", "proc", "sys", "tmp"] {
        add(folder, FOLDER, b"")?;
    }
    // The kernel gives /init its console before anything is mounted.
    add("dev/console", CONSOLE, b"")?;
    let mut folders: Vec<PathBuf> = Vec::new();
    for file in &agent.files {
        let inside = file.strip_prefix("/").unwrap_or(file);
        let parents: Vec<&Path> = inside.ancestors().skip(1).filter(|p| !p.as_os_str().is_empty()).collect();
        for parent in parents.into_iter().rev() {
            if !folders.contains(&parent.to_owned()) {
                add(&parent.to_string_lossy(), FOLDER, b"")?;
                folders.push(parent.to_owned());
            }
        }
        add(&inside.to_string_lossy(), PROGRAM, &fs::read(file)?)?;
    }
    if !modules.is_empty() {
        add(guest::MODULES, FOLDER, b"")?;
        // The guest loads them in the order of their names.
        for (number, module) in modules.iter().enumerate() {
            add(&format!("{}/{number:03}-{}", guest::MODULES, module.name), PROGRAM, &module.content)?;
        }
    }
    // The agent comes last: if a guest has too little memory for all files, it then has no init, and its kernel says
    // so.
    add("init", PROGRAM, &fs::read(&agent.binary)?)?;
    buffered.flush()?;
    drop(buffered);
    cpio::newc::trailer(&mut archive)?;
    Ok(archive)
}

/// Checks that the agent is linked statically: a guest has no libraries.
///
/// # Errors
/// The file cannot be read, is no 64-bit ELF file, or names a dynamic loader (`PT_INTERP`).
pub fn require_static(binary: &Path) -> Result<(), Failure> {
    let tried = || format!("checking that {} can be a guest's /init", binary.display());
    let bytes = fs::read(binary).map_err(|e| Failure::new(tried(), e, "check that the file can be read"))?;
    match interpreter(&bytes) {
        Some(false) => Ok(()),
        Some(true) => Err(Failure::new(
            tried(),
            "it needs a dynamic loader, which a guest does not have",
            "build in the project's folder with plain `cargo build`, whose settings link statically",
        )),
        None => Err(Failure::new(tried(), "it is no ELF file of 64 bits", "name the tautline binary")),
    }
}

/// Whether an ELF file names an interpreter (a program header of type PT_INTERP); none where it is no ELF64.
fn interpreter(bytes: &[u8]) -> Option<bool> {
    const PT_INTERP: u32 = 3;
    let number = |at: usize, size: usize| -> Option<u64> {
        let mut value = [0; 8];
        value[..size].copy_from_slice(bytes.get(at..at.checked_add(size)?)?);
        Some(u64::from_le_bytes(value))
    };
    if bytes.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let (table, size, count) = (number(32, 8)? as usize, number(54, 2)? as usize, number(56, 2)? as usize);
    let mut found = false;
    for index in 0..count {
        found |= number(table.checked_add(index * size)?, 4)? as u32 == PT_INTERP;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, Read, Seek};

    #[test]
    fn the_archive_holds_the_agent_and_the_files_with_their_folders() {
        let folder = tempfile::tempdir().unwrap();
        let extra = folder.path().join("extra");
        fs::write(&extra, "content").unwrap();
        let binary = folder.path().join("agent");
        fs::write(&binary, "binary").unwrap();
        let agent = Agent { binary, arguments: vec![], files: vec![extra.clone()] };
        let module = Module { name: "vfio".into(), content: b"module".into() };
        let mut archive = build(&agent, &[&module]).unwrap();
        archive.rewind().unwrap();
        let mut bytes = Vec::new();
        archive.read_to_end(&mut bytes).unwrap();
        let mut rest = Cursor::new(bytes);
        let mut found = Vec::new();
        loop {
            let mut reader = cpio::NewcReader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            let mut content = String::new();
            reader.read_to_string(&mut content).unwrap();
            found.push((reader.entry().name().to_owned(), content));
            rest = reader.finish().unwrap();
        }
        assert!(found.contains(&("init".into(), "binary".into())), "{found:?}");
        assert!(found.contains(&("modules/000-vfio".into(), "module".into())), "{found:?}");
        let inside = extra.strip_prefix("/").unwrap().to_string_lossy().into_owned();
        assert!(found.contains(&(inside, "content".into())), "{found:?}");
        let parent = extra.parent().unwrap().strip_prefix("/").unwrap().to_string_lossy().into_owned();
        assert!(found.iter().any(|(name, _)| *name == parent), "{found:?}");
    }

    #[test]
    fn a_script_is_no_agent_and_this_test_is_static() {
        assert_eq!(interpreter(b"#!/bin/sh\n"), None);
        assert_eq!(interpreter(&fs::read("/proc/self/exe").unwrap()), Some(false));
    }
}
