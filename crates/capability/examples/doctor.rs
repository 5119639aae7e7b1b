//! Shows what this machine can do: `cargo run -p tautline-capability --example doctor`.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, name] = arguments.as_slice()
        && word == capability::ARGUMENT
    {
        return capability::serve_probe(name);
    }
    let binary = match std::env::current_exe() {
        Ok(binary) => binary,
        Err(error) => {
            eprintln!("finding this very program: {error}");
            return ExitCode::FAILURE;
        }
    };
    let terminal = std::io::stdout().is_terminal();
    let found = capability::run_all(&binary, Duration::from_secs(10), &mut |capability| {
        if terminal {
            eprint!("\r\x1b[K{} …", capability.title);
        }
    });
    if terminal {
        eprint!("\r\x1b[K");
    }
    let width = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    print!("{}", capability::render(&found, width, terminal));
    ExitCode::SUCCESS
}
