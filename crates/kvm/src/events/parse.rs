//! The kernel's text: `comm-pid [cpu] flags time: event: fields`, a line each.

use std::borrow::Cow;
use std::io::{self, BufRead};

use super::{Context, Event, Kind, Pid, Trace, fields};

impl Trace {
    /// Reads text of `trace` or `trace_pipe`. `ticks_per_us` is the rate of a clock that counts ticks, such as
    /// `x86-tsc`. Times with a decimal point are in seconds.
    pub fn parse(text: &str, ticks_per_us: f64) -> Self {
        Self::of_lines(text.lines().map(Cow::Borrowed), ticks_per_us)
    }

    /// Reads the same format line by line from a reader.
    pub(super) fn read(mut text: impl BufRead, ticks_per_us: f64) -> io::Result<Self> {
        let mut failure = None;
        let lines = std::iter::from_fn(|| {
            let mut line = Vec::new();
            match text.read_until(b'\n', &mut line) {
                Ok(0) => None,
                Ok(_) => Some(Cow::Owned(String::from_utf8_lossy(&line).trim_end().to_owned())),
                Err(error) => {
                    failure = Some(error);
                    None
                }
            }
        });
        let trace = Self::of_lines(lines, ticks_per_us);
        failure.map_or(Ok(trace), Err)
    }

    fn of_lines<'a>(lines: impl Iterator<Item = Cow<'a, str>>, ticks_per_us: f64) -> Self {
        let mut trace = Self::default();
        // The header's figure holds the events of the gaps too: each counts once.
        let (mut in_gaps, mut in_all) = (0_u64, 0_u64);
        for line in lines {
            if let Some(lost) = gap(&line) {
                in_gaps = in_gaps.saturating_add(lost);
            } else if let Some(lost) = missing(&line) {
                in_all = in_all.saturating_add(lost);
            } else {
                trace.add(&line, ticks_per_us);
            }
        }
        trace.lost = in_gaps.max(in_all);
        // The kernel merges its CPUs' buffers by time; an event that it was late with is put in its place.
        trace.events.sort_by_key(|event| event.time);
        trace
    }

    fn add(&mut self, line: &str, ticks_per_us: f64) {
        if line.trim().is_empty() || line.starts_with('#') {
            return;
        }
        let parsed = event(line, ticks_per_us);
        let Some((event, comm)) = parsed else {
            self.unknown += 1;
            return;
        };
        if event.pid != 0 {
            self.names.insert(event.pid, comm);
        }
        // Threads that never run themselves while traced have a name here only.
        if let Kind::Switch { next, .. } = event.kind
            && let Some(name) = between(line, "next_comm=", " next_pid=")
        {
            self.names.insert(next, name.to_owned());
        }
        self.events.push(event);
    }
}

/// The number of lost events, if a line reports a gap: `CPU:1 [LOST 23 EVENTS]`.
pub(super) fn gap(line: &str) -> Option<u64> {
    between(line.strip_prefix("CPU:")?, "[LOST ", " EVENTS]")?.trim().parse().ok()
}

/// How many were lost in all, by the header: `# entries-in-buffer/entries-written: 10/33   #P:2`.
fn missing(line: &str) -> Option<u64> {
    let counts = line.strip_prefix("# entries-in-buffer/entries-written: ")?;
    let (kept, written) = counts.split_whitespace().next()?.split_once('/')?;
    Some(written.parse::<u64>().ok()?.saturating_sub(kept.parse().ok()?))
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    text.split_once(from)?.1.split_once(to).map(|(found, _)| found)
}

/// The event of a line, and the name of its thread.
pub(super) fn event(line: &str, ticks_per_us: f64) -> Option<(Event, String)> {
    // A name may contain spaces, dashes and brackets, so the CPU is in the last "-pid [" before the colon.
    let mut at = None;
    for (open, _) in line.match_indices(" [") {
        let digits = line[open + 2..].split(']').next()?;
        if digits.len() >= 3 && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            at = Some((open, digits));
            break;
        }
    }
    let (open, digits) = at?;
    let (comm, pid) = line[..open].trim().rsplit_once('-')?;
    let pid: Pid = pid.trim().parse().ok()?;
    let rest = line.get(open + 2 + digits.len() + 1..)?;
    let mut words = rest.split_whitespace();
    let flags = words.next()?.as_bytes();
    let stamp = words.next()?;
    let time = time(stamp.strip_suffix(':')?, ticks_per_us)?;
    let body = rest.split_once(stamp)?.1.trim_start();
    let (name, text) = body.split_once(':')?;
    // irqs-off, need-resched, hardirq/softirq, preempt-depth.
    let context = match flags.get(2) {
        Some(b'h' | b'H' | b'z' | b'Z') => Context::Interrupt,
        Some(b's') => Context::Softirq,
        _ => Context::Task,
    };
    let event =
        Event { time, cpu: digits.parse().ok()?, pid, context, kind: fields::kind(name, text.trim_end())? };
    Some((event, comm.to_owned()))
}

fn time(text: &str, ticks_per_us: f64) -> Option<u64> {
    match text.split_once('.') {
        Some((seconds, micros)) => {
            let nanos: u64 = format!("{micros:0<9}").get(..9)?.parse().ok()?;
            seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos)
        }
        None => Some((text.parse::<u64>().ok()? as f64 * 1e3 / ticks_per_us.max(1e-3)) as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the form that Linux 6.1 prints (kernel/trace/trace_output.c), each kind of line once.
    const TEXT: &str = "\
# tracer: nop
# entries-in-buffer/entries-written: 7/32   #P:2
       CPU 0/KVM-345     [001] d..1.  1234567: kvm_exit: vcpu 0 reason npf rip 0xffffffff81000000 info1 0x1 info2 0x2 intr_info 0x0 error_code 0x0
          <idle>-0       [000] dNh2.  2234567: kvm_apic_accept_irq: apicid 0 vec 35 (Fixed|edge)
      a - [01] b-77      [000] ..s1.  3234567: netif_receive_skb: dev=tap0 skbaddr=00000000aa len=84
          <idle>-0       [000] d..2.  4234567: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=vhost-345 next_pid=350 next_prio=120
CPU:1 [LOST 23 EVENTS]
       CPU 0/KVM-345     [001] d..1.  5234567: kvm_inj_virq: IRQ 0x23
       CPU 0/KVM-345     [001] .....  6234567: sys_enter: NR 16 (1b, ae80, 0, 0, 0, 0)
       CPU 0/KVM-345     [001] .....  7234567: something_new: a=b
";

    #[test]
    fn lines_become_events() {
        let trace = Trace::parse(TEXT, 1000.0);
        assert_eq!((trace.lost, trace.unknown, trace.events.len()), (25, 1, 6));
        let without_header = TEXT.replace("# entries", "# other");
        assert_eq!(Trace::parse(&without_header, 1000.0).lost, 23);
        let kinds: Vec<_> = trace.events.iter().map(|event| &event.kind).collect();
        assert_eq!(*kinds[0], Kind::Exit { vcpu: 0, reason: "npf".into() });
        assert_eq!(*kinds[1], Kind::Accept { apic: 0, vector: 35 });
        assert_eq!(trace.events[1].context, Context::Interrupt);
        assert_eq!((trace.events[2].pid, trace.events[2].context), (77, Context::Softirq));
        assert_eq!(*kinds[3], Kind::Switch { previous: 0, runnable: true, next: 350, priority: 120 });
        assert_eq!(
            (trace.name(350), trace.name(77), trace.name(345)),
            ("vhost-345", "a - [01] b", "CPU 0/KVM")
        );
        assert_eq!(*kinds[4], Kind::Inject { vector: 35 });
        assert_eq!(*kinds[5], Kind::SyscallEnter { number: 16 });
        assert_eq!(trace.events[0].time, 1_234_567);
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let lines: Vec<&str> = TEXT.lines().collect();
        for line in &lines {
            for cut in (0..line.len()).filter(|cut| line.is_char_boundary(*cut)) {
                Trace::parse(&line[..cut], 0.0);
                Trace::parse(&line[cut..], f64::NAN);
                Trace::parse(&format!("{}é\u{0}{}", &line[..cut], &line[cut..]), 1.0);
            }
        }
        Trace::parse("x-1 [000] .... 99999999999999999999.1: kvm_entry: vcpu 0", 1.0);
        Trace::parse("x-1 [000] .... 1.é: kvm_entry: vcpu 0", 1.0);
    }
}
