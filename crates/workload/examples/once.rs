//! Runs single metrics in this very process and prints what they gave: `once METRIC… [--ms N]`, or
//! `once --agent` to be the agent on standard input and output.

use std::io::{BufReader, Cursor};
use std::time::Instant;

use workload::protocol::{Reply, Request};
use workload::{BudgetKind, Profile, agent, catalogue};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some(agent::NOOP) => return Ok(()),
        Some("--agent") => return Ok(agent::serve(std::io::stdin().lock(), std::io::stdout())?),
        _ => {}
    }
    let mut trial_ms = 30;
    if let Some(at) = arguments.iter().position(|argument| argument == "--ms") {
        trial_ms = arguments.get(at + 1).ok_or("--ms needs a number")?.parse()?;
        arguments.drain(at..at + 2);
    }
    let cpus: Vec<usize> = (0..std::thread::available_parallelism()?.get()).collect();
    let chosen = catalogue(Profile::Full)
        .into_iter()
        .filter(|entry| arguments.iter().any(|word| entry.spec.id.as_str().starts_with(word)));
    let mut requests = String::new();
    let mut specs = Vec::new();
    for entry in chosen {
        let budget_ms = if entry.budget == BudgetKind::Wakeup { 10 * trial_ms } else { trial_ms };
        requests += &Request::Run { metric: entry.spec.id.clone(), budget_ms, cpus: cpus.clone() }.to_line();
        specs.push(entry.spec);
    }
    let mut printer = Printer { specs: specs.into_iter(), since: Instant::now(), greeted: false };
    agent::serve(BufReader::new(Cursor::new(requests)), &mut printer)?;
    Ok(())
}

/// Turns the agent's lines into a table. The agent writes a whole line at a time.
struct Printer {
    specs: std::vec::IntoIter<measure::MetricSpec>,
    since: Instant,
    greeted: bool,
}

impl std::io::Write for Printer {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let reply = Reply::parse(&String::from_utf8_lossy(line)).map_err(std::io::Error::other)?;
        let took_ms = self.since.elapsed().as_millis();
        self.since = Instant::now();
        if let Reply::Ready { facts, .. } = &reply {
            println!("{facts:?}");
            self.greeted = true;
            return Ok(line.len());
        }
        let spec = self.specs.next().ok_or_else(|| std::io::Error::other("a reply too many"))?;
        match reply {
            Reply::Done(outcome) => {
                let spread = measure::statistics::relative_spread(&outcome.samples).unwrap_or(0.0);
                println!(
                    "{:44} {:14.6e} {:5} ±{:4.1}% {:3} batches {:5} ms {:?} {:?}",
                    spec.id,
                    outcome.value,
                    spec.unit,
                    spread * 100.0,
                    outcome.samples.len(),
                    took_ms,
                    outcome.remarks,
                    outcome.noise
                );
                if let Some(histogram) = &outcome.histogram {
                    println!(
                        "    n {} min {} median {} p99 {} max {} missed {}",
                        histogram.count(),
                        histogram.min_ns(),
                        histogram.median_ns(),
                        histogram.quantile_ns(0.99),
                        histogram.max_ns(),
                        outcome.missed
                    );
                }
            }
            Reply::Failed(failure) => println!("{:44} FAILED {took_ms} ms: {failure}", spec.id),
            Reply::Ready { .. } => return Err(std::io::Error::other("a second greeting")),
            other => panic!("another answer: {other:?}"),
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
