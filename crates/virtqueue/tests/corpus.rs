//! Replays the fuzzing corpus, and a bounded run of random scripts with a concurrently writing thread.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use virtqueue::mock::fuzz::{Harness, Target};

const TARGETS: [(Target, &str); 2] =
    [(Target::HostileDriver, "hostile_driver"), (Target::HostileDevice, "hostile_device")];

fn scripts(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    entries.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect()
}

#[test]
fn the_corpus_is_withstood() {
    let harness = Harness::new();
    for (target, name) in TARGETS {
        let scripts = scripts(name);
        assert!(scripts.len() >= 100, "only {} scripts for {name}: is the corpus there?", scripts.len());
        for script in scripts {
            harness.run(target, &script);
        }
    }
}

#[test]
fn the_corpus_is_withstood_while_a_thread_writes_over_the_rings() {
    let harness = Harness::new();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| harness.scribble(&stop, 42));
        for (target, name) in TARGETS {
            let scripts = scripts(name);
            for _ in 0..5 {
                scripts.iter().for_each(|script| harness.run(target, script));
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
