//! Files that cannot be read, one after the other: no rule passes for want of one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use host::rules::State;
use host::{Audit, Survey};

use super::{Host, state};

use State::{Fail, Information, NotApplicable, Pass, Unknown};

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() { files(&entry.path(), found) } else { found.push(entry.path()) }
    }
}

/// Files by their path below this folder with a place for each number; of many with one path, as those of each CPU
/// have, the first, the middle and the last.
fn kinds_of_files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    files(folder, &mut all);
    all.sort_unstable();
    let mut kinds: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for file in all {
        let path = file.strip_prefix(folder).unwrap().display().to_string();
        let words: Vec<&str> = path
            .split(|character: char| character.is_ascii_digit())
            .filter(|word| !word.is_empty())
            .collect();
        kinds.entry(words.join("#")).or_default().push(file);
    }
    let chosen = kinds.into_values().flat_map(|mut alike| {
        let last = alike.len() - 1;
        let keep = BTreeSet::from([0, last / 2, last]);
        let mut place = 0..;
        alike.retain(|_| keep.contains(&place.next().unwrap()));
        alike
    });
    chosen.collect()
}

/// Each kind of file in turn becomes one that cannot be read: a folder, which also root cannot read.
#[test]
fn what_cannot_be_read_never_passes() {
    for (name, host) in Host::all().filter(|(name, _)| !name.ends_with("112-cpus")) {
        let before = host.audit();
        let all = kinds_of_files(host.folder.path());
        assert!(all.len() > 20, "{name}: {}", all.len());
        for file in all {
            let content = fs::read(&file).unwrap();
            fs::remove_file(&file).unwrap();
            fs::create_dir(&file).unwrap();
            // Without its CPUs or processor there is no audit at all.
            if let Ok(survey) = Survey::of(&host.tree, &host.wishes) {
                for finding in Audit::of(&survey).findings {
                    let was = state(&before, &finding.rule);
                    let hidden = was == Fail || was == Unknown;
                    let better = matches!(finding.state, Pass | NotApplicable | Information);
                    assert!(!(hidden && better), "{name}: {} unreadable: {finding:?}", file.display());
                }
            }
            fs::remove_dir(&file).unwrap();
            fs::write(&file, content).unwrap();
        }
    }
}
