use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use linux::cpus;
use linux::scheduler::{self, Policy};
use proptest::prelude::*;
use rustix::time::{ClockId, clock_gettime};

use crate::task::{self, Plan};
use crate::vcpu::State;
use crate::{Claim, Daemon, HINTS_BYTES, Hint, Hints, PAGE_BYTES, Page, Settings, Vcpu};

fn settings() -> Settings {
    Settings { look: Duration::from_micros(200), ..Settings::default() }
}

fn memory() -> OwnedFd {
    memory::sealed_memfd(c"hints", HINTS_BYTES).unwrap().into()
}

fn hints() -> Arc<Hints> {
    Arc::new(Hints::map(memory(), 0).unwrap())
}

#[test]
fn what_a_guest_says_is_read_at_the_other_end() {
    let memory = memory();
    let (guest, host) = (Hints::map(&memory, 0).unwrap(), Hints::map(&memory, 0).unwrap());
    assert_eq!(host.read(3), Hint::default());
    guest.set_runs(3, true);
    guest.set_due_ns(3, 77);
    assert_eq!(host.read(3), Hint { runs: true, due_ns: 77 });
    assert_eq!(host.read(2), Hint::default());
    guest.set_runs(3, false);
    assert_eq!(host.read(3), Hint { runs: false, due_ns: 77 });
    assert!(Hints::map(&memory, 4096).is_err());
}

#[test]
fn a_task_is_raised_for_from_its_lead_to_its_end() {
    let settings = settings();
    let (lead, grace) = (settings.lead.as_nanos() as u64, settings.grace.as_nanos() as u64);
    let mut state = State::new(&settings, 0);
    let due = |due_ns, runs| Hint { runs, due_ns };
    let due_ns = 1_000_000;
    let early = state.look(due(due_ns, false), due_ns - lead - 50_000, &settings);
    assert!(!early.raise && early.look_again_ns == due_ns - lead, "{early:?}");
    assert!(state.look(due(due_ns, false), due_ns - lead, &settings).raise);
    assert!(state.look(due(due_ns, false), due_ns, &settings).raise);
    assert!(state.look(due(due_ns, true), due_ns + 2 * grace, &settings).raise, "it runs");
    // The task has ended, and its next turn is due.
    assert!(!state.look(due(2 * due_ns, false), due_ns + 3 * grace, &settings).raise);
    assert_eq!((state.raised, state.exhausted), (1, 0));
    assert_eq!(state.raised_ns, lead + 3 * grace);
    // A turn that never began.
    assert!(state.look(due(2 * due_ns, false), 2 * due_ns, &settings).raise);
    assert!(!state.look(due(2 * due_ns, false), 2 * due_ns + grace, &settings).raise);
}

#[test]
fn who_always_wants_gets_its_budget_and_what_came_late_is_owed() {
    let settings = settings();
    let (budget, period) = (settings.budget.as_nanos() as u64, settings.period.as_nanos() as u64);
    let always = Hint { runs: true, due_ns: 0 };
    let mut state = State::new(&settings, 0);
    let mut now_ns = 0;
    while now_ns < 100 * period {
        now_ns = state.look(always, now_ns, &settings).look_again_ns;
    }
    assert!(state.raised_ns.abs_diff(100 * budget) <= 100 * 20_000, "{state:?}");
    assert_eq!(state.raised, 100);
    // The daemon was away for three periods while it was raised: two and more pass before it is raised again.
    let mut state = State::new(&settings, 0);
    assert!(state.look(always, 0, &settings).raise);
    let decision = state.look(always, 3 * period, &settings);
    assert!(!decision.raise, "{state:?}");
    let mut now_ns = 3 * period;
    while !state.look(always, now_ns, &settings).raise {
        now_ns += 100_000;
    }
    assert!(now_ns >= 4 * period, "{now_ns}");
    assert!(state.raised_ns * period <= (now_ns + period) * budget, "{state:?} at {now_ns}");
}

proptest! {
    /// For any bytes of a guest, and any delay of the daemon, the guest gets no more than its share of the time, and
    /// the daemon sleeps between two checks.
    #[test]
    fn no_guest_gets_more_than_its_budget(
        looks in proptest::collection::vec((any::<bool>(), any::<u64>(), -2_000_000i64..2_000_000, 0u64..3_000_000), 1..2000),
    ) {
        let settings = settings();
        let (budget, period) = (settings.budget.as_nanos() as u64, settings.period.as_nanos() as u64);
        let mut state = State::new(&settings, 0);
        let (mut now_ns, mut latest) = (0u64, 0);
        for (runs, far, near, late) in looks {
            let due_ns = if far % 3 == 0 { far } else { now_ns.saturating_add_signed(near) };
            let decision = state.look(Hint { runs, due_ns }, now_ns, &settings);
            prop_assert!(decision.look_again_ns >= now_ns + 20_000);
            latest = late;
            now_ns = decision.look_again_ns + late;
        }
        // All budgets until now, and how late the daemon was once.
        let most = (now_ns / period + 1) * budget + latest.max(3_000_000);
        prop_assert!(state.raised_ns <= most, "{} of {most}", state.raised_ns);
    }
}

#[test]
fn limits_that_leave_others_too_little_are_refused() {
    let mut settings = settings();
    assert!(settings.check(3).is_ok());
    assert!(settings.check(4).unwrap_err().to_string().contains("80 %"));
    settings.look = Duration::ZERO;
    assert!(settings.check(1).is_err());
    settings = Settings { period: Duration::from_millis(1), ..Settings::default() };
    assert!(settings.check(1).is_err());
    let gone = Vcpu { thread: i32::MAX, hints: hints(), slot: 0, cpu: None };
    assert!(
        Daemon::start(Settings::default(), vec![gone], vec![])
            .unwrap_err()
            .to_string()
            .contains("thread 2147483647")
    );
}

/// A vCPU that computes without end, on the one CPU that it shares with others.
struct Spinner {
    thread: i32,
    end: Arc<AtomicBool>,
    joined: JoinHandle<Duration>,
}

impl Spinner {
    fn start(cpu: usize) -> Self {
        let (end, id) = (Arc::<AtomicBool>::default(), Arc::<AtomicI32>::default());
        let joined = {
            let (end, id) = (Arc::clone(&end), Arc::clone(&id));
            thread::spawn(move || {
                cpus::bind(&[cpu]).unwrap();
                id.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Release);
                while !end.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                let used = clock_gettime(ClockId::ThreadCPUTime);
                Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
            })
        };
        let thread = loop {
            match id.load(Ordering::Acquire) {
                0 => thread::yield_now(),
                id => break id,
            }
        };
        Spinner { thread, end, joined }
    }

    /// The CPU time that it got.
    fn end(self) -> Duration {
        self.end.store(true, Ordering::Relaxed);
        self.joined.join().unwrap()
    }
}

/// Whether threads may be raised here.
fn real_time() -> bool {
    let tried = scheduler::set(Policy::Fifo(1)).and_then(|()| scheduler::set(Policy::Normal));
    peers::required("real-time", tried.is_ok(), "run the tests as root or with CAP_SYS_NICE")
}

/// A guest that lies all the time, in two ways, beside one that says nothing: what both get of one CPU.
#[test]
fn a_guest_that_lies_starves_nobody() {
    if !real_time() {
        return;
    }
    let cpu = cpus::usable().unwrap()[0];
    for lies in ["a task that never ends", "one task due after the other"] {
        let hints = hints();
        let (liar, other) = (Spinner::start(cpu), Spinner::start(cpu));
        let vcpu = Vcpu { thread: liar.thread, hints: Arc::clone(&hints), slot: 0, cpu: None };
        let daemon = Daemon::start(settings(), vec![vcpu], vec![]).unwrap();
        let start = Instant::now();
        let mut was_raised = false;
        while start.elapsed() < Duration::from_millis(600) {
            match lies {
                "a task that never ends" => hints.set_runs(0, true),
                _ => {
                    let now = clock_gettime(ClockId::Monotonic);
                    hints.set_due_ns(0, now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64);
                }
            }
            was_raised |= scheduler::of(liar.thread).unwrap() == Policy::Fifo(1);
            thread::sleep(Duration::from_micros(70));
        }
        let elapsed = start.elapsed();
        let raised = daemon.end();
        assert_eq!(scheduler::of(liar.thread).unwrap(), Policy::Normal, "put back");
        let (lied, honest) = (liar.end(), other.end());
        println!("{lies}: the liar ran {lied:?}, the other {honest:?} of {elapsed:?}; {raised:?}");
        assert!(was_raised && raised[0].raised > 10 && raised[0].failed.is_none(), "{raised:?}");
        // Both vCPUs share four tenths of the CPU equally; a guest that is raised all the time leaves 5 %.
        assert!(honest.as_secs_f64() > 0.25 * (lied + honest).as_secs_f64(), "{lied:?} {honest:?}");
        // A fifth of the time; and the daemon may have been late on a busy machine.
        let part = raised[0].raised_ns as f64 / elapsed.as_nanos() as f64;
        assert!(part < 0.35, "raised for {part} of the time: {raised:?}");
    }
}

#[test]
fn a_thread_that_ends_is_left_alone() {
    if !real_time() {
        return;
    }
    let hints = hints();
    let cpu = cpus::usable().unwrap()[0];
    let spinner = Spinner::start(cpu);
    let vcpu = Vcpu { thread: spinner.thread, hints: Arc::clone(&hints), slot: 1, cpu: None };
    let daemon = Daemon::start(settings(), vec![vcpu], vec![]).unwrap();
    spinner.end();
    hints.set_runs(1, true);
    thread::sleep(Duration::from_millis(20));
    let raised = daemon.end();
    // Guests end when they please: no failure, and not tried again and again.
    assert_eq!((raised[0].raised, &raised[0].failed), (1, &None), "{raised:?}");
}

/// The share of a CPU that several daemons together may use; a released share is available again.
#[test]
fn a_cpu_has_three_parts_and_no_more() {
    // No machine has a CPU with this number, so the claims of other programs are not affected.
    let cpu = 1 << 40 | std::process::id() as usize;
    let claims: Vec<Claim> = (0..3).map(|_| Claim::of(cpu).unwrap()).collect();
    let refused = Claim::of(cpu).unwrap_err().to_string();
    assert!(refused.contains("3 vCPUs that may be raised are there already"), "{refused}");
    assert!(Claim::of(cpu + 1).is_ok(), "another CPU's are its own");
    drop(claims);
    assert!(Claim::of(cpu).is_ok());
}

#[test]
fn vcpus_with_cpus_of_their_own_do_not_count_together() {
    let vcpu = |cpu| Vcpu { thread: i32::MAX, hints: hints(), slot: 0, cpu };
    let said = |cpus: &[Option<usize>]| {
        let vcpus = cpus.iter().copied().map(vcpu).collect();
        Daemon::start(Settings::default(), vcpus, vec![]).unwrap_err().to_string()
    };
    assert!(said(&[Some(0), Some(1), Some(2), Some(3)]).contains("thread 2147483647"));
    assert!(said(&[Some(0), Some(0), Some(1), None, None]).contains("80 %"));
}

/// Both ends of the page in one process: a task says when it is due, and its thread is raised for it.
#[test]
fn a_task_that_says_when_it_is_due_is_raised_for_it() {
    if !real_time() {
        return;
    }
    let memory = memory::sealed_memfd(c"page", PAGE_BYTES).unwrap();
    let (guest, host) = (Page::map(&memory).unwrap(), Page::map(&memory).unwrap());
    let cpu = cpus::usable().unwrap()[0];
    let plan = Plan {
        interval: Duration::from_millis(5),
        runs: 100,
        work: Duration::from_micros(100),
        vcpu: cpu,
        priority: None,
        says: true,
    };
    let id = Arc::<AtomicI32>::default();
    let its_id = Arc::clone(&id);
    let task = thread::spawn(move || {
        its_id.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Release);
        task::run(&guest, &plan)
    });
    let thread = loop {
        match id.load(Ordering::Acquire) {
            0 => thread::yield_now(),
            id => break id,
        }
    };
    let vcpu = Vcpu { thread, hints: Arc::clone(&host.hints), slot: cpu, cpu: Some(cpu) };
    let daemon = Daemon::start(settings(), vec![vcpu], vec![host.exchange]).unwrap();
    let done = task.join().unwrap().unwrap();
    let raised = daemon.end().remove(0);
    println!("{done:?}\n{raised:?}");
    assert_eq!(done.runs, 100);
    // It is one clock, and how well that was found is said.
    assert!(done.clock_error_ns > 0, "{done:?}");
    assert!(raised.raised >= 20 && raised.failed.is_none(), "{raised:?}");
}
