//! The smallest agent, for this crate's own tests: greets, then answers every line with itself. `die` kills
//! it, `hang` silences it, `work` keeps its CPU busy for 20 ms before it answers; a guest that is started with
//! `mute` never greets.

use std::io::{self, BufRead, BufReader, Write};
use std::time::{Duration, Instant};

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
            "work" => {
                work();
                writeln!(output, "{line}").expect("a channel");
            }
            _ => writeln!(output, "{line}").expect("a channel"),
        }
    }
}

fn work() {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(20) {
        std::hint::spin_loop();
    }
}

fn hang() -> ! {
    loop {
        std::thread::park();
    }
}
