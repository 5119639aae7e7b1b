//! Probes that hang, crash or say nothing.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use capability::{ARGUMENT, State, run_one};
use libtest_mimic::Failed;

use crate::{LIMIT, eventually, processes_with, this_binary};

const HANG: &str = "hang-";
const HANG_ALONE: &str = "hang-alone-";

/// What the probes with these names do instead of answering.
pub fn misbehave(name: &str) {
    if name.starts_with(HANG_ALONE) {
        loop {
            std::thread::sleep(LIMIT);
        }
    }
    if let Some(mark) = name.strip_prefix(HANG) {
        // A grandchild too, which holds on to all that it inherited.
        let binary = std::env::current_exe().expect("known to the kernel");
        let mut child =
            Command::new(binary).args([ARGUMENT, &format!("{HANG_ALONE}{mark}")]).spawn().expect("starts");
        let _ = child.wait();
    }
    match name {
        "crash" => std::process::abort(),
        "give-up" => {
            eprintln!("out of ideas");
            std::process::exit(3);
        }
        _ => {}
    }
}

pub fn hangs() -> Result<(), Failed> {
    let mark = format!("mark-{}", std::process::id());
    let name = format!("{HANG}{mark}");
    let limit = Duration::from_secs(1);
    let runner = std::thread::spawn({
        let (binary, name) = (this_binary()?, name.clone());
        move || run_one(&binary, &name, limit)
    });
    assert!(eventually(|| processes_with(&mark).len() == 2), "the probe and its child were there");
    let found = runner.join().expect("does not panic");
    assert_eq!(found.state, State::Missing);
    assert!(found.detail.contains("no answer within 1 s"), "{found:?}");
    assert!(!found.remedy.is_empty());
    assert!(eventually(|| processes_with(&mark).is_empty()), "left: {:?}", processes_with(&mark));
    Ok(())
}

pub fn crashes() -> Result<(), Failed> {
    let found = run_one(&this_binary()?, "crash", LIMIT);
    assert_eq!(found.state, State::Missing);
    assert!(found.detail.contains("SIGABRT"), "{found:?}");
    assert!(!found.remedy.is_empty());
    Ok(())
}

pub fn gives_up() -> Result<(), Failed> {
    let found = run_one(&this_binary()?, "give-up", LIMIT);
    assert_eq!(found.state, State::Missing);
    assert!(found.detail.contains("exit status: 3") && found.detail.contains("out of ideas"), "{found:?}");
    Ok(())
}

pub fn not_there() -> Result<(), Failed> {
    let found = run_one(Path::new("/nowhere/tautline"), "tun", LIMIT);
    assert_eq!((found.state, found.title.as_str()), (State::Missing, "TUN/TAP interfaces"));
    assert!(found.detail.contains("/nowhere/tautline"), "{found:?}");
    Ok(())
}
