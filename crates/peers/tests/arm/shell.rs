//! `make nested ARCH=arm64` as a user types it.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use linux::{Child, OutputReader};

/// The program for arm64 is built first, unless it is there.
const LIMIT: Duration = Duration::from_secs(900);
/// What the shell prints when it waits for a command.
const PROMPT: &str = "nested:/# ";

#[test]
#[ignore = "builds the program for arm64, and boots a machine: make test-nested-long"]
fn make_nested_has_a_guest_and_the_program() {
    let mut command = Command::new("make");
    command.args(["--no-print-directory", "nested", "ARCH=arm64"]);
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    // With the builds and QEMU that it starts.
    let mut shell = Child::spawn_group(&mut command).unwrap();
    let (mut input, output) =
        (shell.take_stdin().unwrap(), OutputReader::start(shell.take_stdout().unwrap()));
    let mut shown = 0;
    let mut typed = |line: &str, wanted: &str| {
        writeln!(input, "{line}").unwrap();
        let end = |text: &str| text.get(shown..)?.find(wanted).map(|at| shown + at + wanted.len());
        shown =
            output.wait_for(LIMIT, end).unwrap_or_else(|error| panic!("{line}: {error}: {}", output.text()));
    };
    typed("", PROMPT);
    // What is waited for is not in the lines themselves, which the terminal shows too.
    typed(
        "tautline host audit --watch 0s --format json | grep -o '[^\"]*the host kernel runs at[^\"]*'",
        "runs at EL2",
    );
    typed("start-guest -serial file:/console -append 'console=ttyAMA0 quiet' & :", PROMPT);
    typed("until grep -qs ^up /console; do usleep 100000; done; grep GIC /console", "GICv3");
    typed("echo $((6 * 7))-ends; kill %1; exit", "42-ends");
    let ended = shell.wait_within(LIMIT).unwrap();
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}: {}", output.text());
}
