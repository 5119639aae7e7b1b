//! The smallest agent, for this crate's own tests: greets, then answers every line with itself. `die` kills
//! it, `hang` silences it, a guest that is started with `mute` never greets.

use std::io::{self, BufRead, BufReader, Write};

use environment::{guest, janitor};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if guest::is_init() {
        let line = guest::enter().expect("a stock kernel");
        serve(&arguments, BufReader::new(line.try_clone().expect("one more descriptor")), line);
        eprintln!("{}", guest::leave());
    } else if arguments.first().is_some_and(|word| word == janitor::ARGUMENT) {
        janitor::serve(BufReader::new(io::stdin()));
    } else {
        serve(&arguments, BufReader::new(io::stdin()), io::stdout());
    }
}

fn serve(arguments: &[String], input: impl BufRead, mut output: impl Write) {
    if arguments.iter().any(|word| word == "mute") {
        eprintln!("mute as told");
        hang();
    }
    writeln!(output, "ready, process {} of user {}", std::process::id(), rustix::process::getuid().as_raw())
        .expect("a channel");
    for line in input.lines().map_while(Result::ok) {
        match line.as_str() {
            "die" => {
                eprintln!("dying as told");
                std::process::abort();
            }
            "hang" => hang(),
            _ => writeln!(output, "{line}").expect("a channel"),
        }
    }
}

fn hang() -> ! {
    loop {
        std::thread::park();
    }
}
