//! Every archive in `bench-results/shared` is whole and holds nothing that `report --share` takes out.

use std::fs;
use std::path::{Path, PathBuf};

use report::share;

fn archives(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|of| of == "json")).collect()
}

fn faults(file: &Path) -> Vec<String> {
    match serde_json::from_slice(&fs::read(file).unwrap()) {
        Ok(archive) => share::check(&archive),
        Err(error) => vec![error.to_string()],
    }
}

#[test]
fn every_shared_archive_is_fit_to_be_public() {
    for file in archives(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench-results/shared")) {
        assert_eq!(faults(&file), Vec::<String>::new(), "{}", file.display());
    }
}

#[test]
fn an_archive_with_a_secret_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let mut whole = share::archive(&measure::example::results(), None, None, &mut share::Scrubber::default());
    for (secret, is_fit) in [("Debian GNU/Linux 12 (bookworm)", true), ("Debian for ops@site.corp", false)] {
        whole["results"]["host"]["distribution"] = secret.into();
        fs::write(folder.path().join("one.json"), whole.to_string()).unwrap();
        let [file] = &archives(folder.path())[..] else { panic!("the search is broken") };
        assert_eq!(faults(file).is_empty(), is_fit, "{secret}: {:?}", faults(file));
    }
    fs::write(folder.path().join("one.json"), "{").unwrap();
    assert!(!faults(&archives(folder.path())[0]).is_empty());
}
