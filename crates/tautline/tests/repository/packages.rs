//! Every package of the workspace can be packed for a registry: names that are free, versions of what it uses, licences.
use std::path::Path;
use std::process::Command;

#[test]
fn every_package_can_be_packed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let target = tempfile::tempdir().unwrap();
    // Whether each compiles alone is `cargo package`'s own question without `--no-verify`: minutes.
    let output = Command::new(env!("CARGO"))
        .args(["package", "--workspace", "--no-verify", "--allow-dirty", "--offline", "--target-dir"])
        .arg(target.path())
        .current_dir(root)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let packed = std::fs::read_dir(target.path().join("package")).unwrap();
    let packed =
        packed.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|end| end == "crate"));
    let crates = std::fs::read_dir(root.join("crates")).unwrap().count();
    assert_eq!(packed.count(), crates, "{said}");
}
