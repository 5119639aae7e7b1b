//! Modes of the binary that a program of Tautline starts: agent, guest's init, janitor, probe.

use std::io::{self, BufReader};
use std::process::ExitCode;

use environment::{guest, janitor};

/// Runs one of these modes, if the arguments or the environment of the process ask for it.
pub fn dispatch() -> Option<ExitCode> {
    if guest::is_init() {
        return Some(init());
    }
    match std::env::args().nth(1)?.as_str() {
        workload::agent::ARGUMENT => agent(),
        workload::agent::NOOP => Some(ExitCode::SUCCESS),
        capability::ARGUMENT => Some(match std::env::args().nth(2) {
            Some(name) => capability::serve_probe(&name),
            None => ExitCode::from(2),
        }),
        janitor::ARGUMENT => {
            janitor::serve(BufReader::new(io::stdin()));
            Some(ExitCode::SUCCESS)
        }
        _ => None,
    }
}

/// The agent itself, or the near end's relay to another machine's. Any other first word that begins with `agent` is a
/// command.
fn agent() -> Option<ExitCode> {
    let arguments: Vec<_> = std::env::args_os().skip(2).collect();
    match &arguments[..] {
        [] => Some(finish(workload::agent::serve(BufReader::new(io::stdin()), io::stdout()))),
        #[cfg(feature = "all-commands")]
        [word, address, key] if word.to_str() == Some(environment::remote::near::ARGUMENT) => {
            Some(finish(environment::remote::near::serve(&address.to_string_lossy(), key.as_ref())))
        }
        _ => None,
    }
}

/// `/init` of a guest. Errors are printed to the console, which the host keeps.
fn init() -> ExitCode {
    let result = guest::enter().map_err(|failure| failure.to_string()).and_then(|line| {
        let output = line.try_clone().map_err(|error| error.to_string())?;
        workload::agent::serve(BufReader::new(line), output).map_err(|error| error.to_string())
    });
    if let Err(text) = result {
        eprintln!("tautline agent: {text}");
    }
    eprintln!("tautline agent: leaving: {}", guest::leave());
    ExitCode::FAILURE
}

fn finish<E: std::fmt::Display>(result: Result<(), E>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tautline agent: {error}");
            ExitCode::FAILURE
        }
    }
}
