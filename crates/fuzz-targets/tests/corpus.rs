//! Every input of `fuzz/corpus`, through its target once, as an ordinary test.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use fuzz_targets::{TARGETS, target};

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

#[test]
fn every_target_withstands_its_corpus() {
    for (name, target) in TARGETS {
        let folder = corpus().join(name);
        let inputs = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut count = 0;
        for path in inputs.map(|entry| entry.unwrap().path()) {
            let input = fs::read(&path).unwrap();
            // The harness shows this where the target panics.
            println!("{}", path.display());
            target(&input);
            count += 1;
        }
        assert!(count > 0, "{name} has no corpus");
    }
}

#[test]
fn every_folder_of_the_corpus_has_its_target() {
    let folders = fs::read_dir(corpus()).unwrap();
    let folders: BTreeSet<String> =
        folders.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let names: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names.len(), TARGETS.len(), "two targets have one name");
    assert_eq!(folders, names);
    assert!(target("frames").is_some() && target("nothing").is_none());
}

/// Any bytes reach something in each target: an empty input, and short ones of every byte.
#[test]
fn no_target_needs_a_corpus_to_be_called() {
    for (_, target) in TARGETS {
        target(&[]);
        (0..=u8::MAX).for_each(|byte| target(&[byte; 40]));
    }
}
