//! docs/troubleshooting.md, the page that people come to with a symptom: the words that it quotes are words that the
//! program prints, and its commands run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn page() -> String {
    fs::read_to_string(root().join("docs/troubleshooting.md")).unwrap()
}

/// The sources of the program itself.
fn sources(folder: &Path, found: &mut String) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|of| of == "rs") {
            found.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn what_it_quotes_is_what_the_program_prints() {
    let mut text = String::new();
    for path in fs::read_dir(root().join("crates")).unwrap() {
        sources(&path.unwrap().path().join("src"), &mut text);
    }
    // A literal goes on in the next line behind a backslash.
    let text: String = text.split("\\\n").map(str::trim_start).collect();
    let page = page();
    let symptoms = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let quoted: Vec<&str> = symptoms.flat_map(|cell| cell.split('"').skip(1).step_by(2)).collect();
    assert!(quoted.len() >= 5, "{quoted:?}");
    for words in quoted {
        assert!(text.contains(words), "no source of the program has '{words}'");
    }
}

/// A switch with a port, which ends with the test.
struct Switch(Child);

impl Switch {
    fn start(control: &Path, port: &Path) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_tautline"))
            .args(["switch", "--control"])
            .arg(control)
            .arg("--port")
            .arg(format!("one=vhost-user:{}", port.display()))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let (mut switch, start) = (Switch(child), Instant::now());
        while !port.exists() {
            assert_eq!(switch.0.try_wait().unwrap(), None, "the switch has ended");
            assert!(start.elapsed() < Duration::from_secs(30), "the switch does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        switch
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn its_commands_run() {
    let folder = tempfile::tempdir().unwrap();
    let (control, port) = (folder.path().join("control"), folder.path().join("one.sock"));
    let _switch = Switch::start(&control, &port);
    let page = page();
    let spans = page.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let mut ran = 0;
    for line in spans.filter_map(|span| span.strip_prefix("tautline ")) {
        // What changes the machine is run in a guest, by crates/tautline/tests/commands/host_command/booted.rs.
        let changes = line.starts_with("host undo") || line.starts_with("host verify");
        let words =
            line.split(' ').map(|word| if word == "SOCKET" { control.to_str().unwrap() } else { word });
        let mut command = Command::new(env!("CARGO_BIN_EXE_tautline"));
        command.args(words).args(changes.then_some("--help")).stdin(Stdio::null());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tautline {line}: {said}");
        ran += usize::from(!changes);
    }
    assert!(ran >= 3, "only {ran} commands run: the search is broken");
}
