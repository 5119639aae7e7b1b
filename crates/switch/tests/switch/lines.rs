//! No cache line is written by two workers: with a queue pair for each worker, with two for each, and with fewer queue
//! pairs than workers. A frame takes as many instructions with eight queues and workers as with one.
//!
//! valgrind's lackey prints each access of a switch between two guests' rings, whose driver halves are one thread of
//! the same process. Counts do not depend on the speed of the machine.
mod rings;
mod rss;
mod trace;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use trace::{Addresses, Trace};

/// The number of queue pairs of each guest, and of workers, for [`traffic`].
const QUEUES: &str = "TAUTLINE_TEST_QUEUES";
const WORKERS: &str = "TAUTLINE_TEST_WORKERS";

/// What is written with each burst is written at least so often: a lock is taken and given back. The worker that sees a
/// station first in a second notes the second for all workers: that line may move once a second.
const OFTEN: u64 = 2 * rings::ROUNDS as u64;

/// Starts the command without prctl(PR_GET_AUXV), which valgrind 3.19 passes on to the kernel: the auxiliary vector
/// would name a vDSO that valgrind's program does not have. The program reads /proc/self/auxv instead.
fn start(mut command: Command) -> Child {
    const PRCTL: i64 = if cfg!(target_arch = "x86_64") { 157 } else { 167 };
    const PR_GET_AUXV: u64 = 0x4155_5856;
    let is_it = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, PR_GET_AUXV).unwrap();
    let rules = [(PRCTL, vec![SeccompRule::new(vec![is_it]).unwrap()])].into();
    let refused = SeccompAction::Errno(22); // EINVAL, as from kernels before 6.4
    let architecture = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, architecture).unwrap();
    let filter: BpfProgram = filter.try_into().unwrap();
    // A filter holds for a thread and its children.
    let thread = std::thread::spawn(move || {
        seccompiler::apply_filter(&filter).unwrap();
        command.spawn().expect("scripts/setup.sh test installs valgrind")
    });
    thread.join().unwrap()
}

/// Runs [`traffic`] under valgrind, and evaluates its accesses.
fn traced(queues: u16, workers: u16) -> Trace {
    let mut command = Command::new("valgrind");
    command.args(["--tool=lackey", "--basic-counts=no", "--trace-mem=yes", "--fair-sched=yes", "-q"]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "lines::traffic", "--ignored", "--nocapture"]);
    command.env(QUEUES, queues.to_string()).env(WORKERS, workers.to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = start(command);
    let accesses = BufReader::with_capacity(1 << 20, child.stderr.take().unwrap());
    let (known, wanted) = std::sync::mpsc::channel();
    let evaluation = std::thread::spawn(move || Trace::read(accesses, &wanted));
    let mut words = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let addresses: Addresses = words
        .find_map(|line| serde_json::from_str(line.strip_prefix(rings::ADDRESSES)?).ok())
        .expect("the traced program says its addresses");
    known.send(addresses).unwrap();
    // From now on, accesses are evaluated.
    writeln!(child.stdin.take().unwrap()).unwrap();
    let trace = evaluation.join().unwrap();
    let rest: Vec<String> = words.collect();
    assert!(child.wait().unwrap().success(), "{rest:?}");
    trace
}

#[test]
#[ignore = "the other test runs it under valgrind"]
fn traffic() {
    let number = |name| std::env::var(name).ok()?.parse().ok();
    let (Some(queues), Some(workers)) = (number(QUEUES), number(WORKERS)) else { return };
    rings::traffic(queues, workers);
}

#[test]
fn no_line_is_written_by_two_workers() {
    check_as_many(&[1, 4]);
}

#[test]
#[ignore = "the table of docs/experiments/lines-of-two-workers.md"]
fn with_each_number_of_queues() {
    check_as_many(&[1, 2, 4, 8]);
}

#[test]
#[ignore = "the table of docs/experiments/lines-of-two-workers.md"]
fn with_more_and_fewer_workers_than_queues() {
    check(&[(8, 4), (4, 8)]);
}

/// The number of workers that have a source of one of two ports: pair `k` of port `p` belongs to worker `k + p`.
fn with_a_source(queues: u16, workers: u16) -> usize {
    let sources = (0..2).flat_map(|port| (0..queues).map(move |pair| port + pair));
    sources.map(|source| source % workers).collect::<BTreeSet<_>>().len()
}

/// With that many queues and as many workers.
fn check_as_many(numbers: &[u16]) {
    let traces = check(&numbers.iter().map(|number| (*number, *number)).collect::<Vec<_>>());
    let [one, most] = [0, traces.len() - 1].map(|at| traces[at].instructions_per_frame());
    assert!(most < one * 1.1, "{one} and {most} instructions");
}

/// With these numbers of queues and workers.
fn check(numbers: &[(u16, u16)]) -> Vec<Trace> {
    println!(
        "queues | workers | frames | with their worker | workers with frames | instructions a frame | lines written | \
         by two workers"
    );
    let measured = |&(queues, workers): &(u16, u16)| {
        let trace = traced(queues, workers);
        println!(
            "{queues} | {workers} | {} | {} | {} | {:.1} | {} | {}",
            trace.frames,
            trace.placed,
            trace.workers(),
            trace.instructions_per_frame(),
            trace.lines(),
            trace.shared(OFTEN).count()
        );
        trace.shared(1).for_each(|line| println!("  {line}"));
        trace
    };
    let traces: Vec<_> = numbers.iter().map(measured).collect();
    for ((queues, workers), trace) in numbers.iter().zip(&traces) {
        assert_eq!(trace.frames, rings::frames(*queues));
        assert!(trace.placed * 4 > trace.frames * 3, "the worker of {} frames is known", trace.placed);
        assert_eq!(trace.workers(), with_a_source(*queues, *workers), "all workers with a queue move frames");
        assert_eq!(trace.shared(OFTEN).count(), 0, "with {queues} queues and {workers} workers");
    }
    traces
}
