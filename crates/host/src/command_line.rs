//! The kernel's command line: the parameters that it has, and the line with other parameters.

use linux::cpu_list::is_blank;

use super::cpu_list::CpuList;
use super::set_aside::{Machine, SetAside};

/// The parameters in their order, as written. A value may contain blanks if it is quoted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine(Vec<String>);

impl CommandLine {
    /// Splits a line as the kernel does.
    pub fn parse(line: &str) -> Self {
        let mut parameters = vec![String::new()];
        let mut quoted = false;
        for c in line.chars() {
            quoted ^= c == '"';
            if is_blank(c) && !quoted {
                parameters.push(String::new());
            } else if let Some(last) = parameters.last_mut() {
                last.push(c);
            }
        }
        parameters.retain(|parameter| !parameter.is_empty());
        CommandLine(parameters)
    }

    /// The value of a parameter: its last occurrence, which takes effect for most parameters; `""` for a flag.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.kernels_own().rev().find(|parameter| is(parameter, key)).map(|parameter| split(parameter).1)
    }

    /// All parameters with this key, as written.
    pub fn all<'a>(&'a self, key: &str) -> impl Iterator<Item = &'a str> {
        self.kernels_own().filter(move |parameter| is(parameter, key))
    }

    /// The CPUs that the kernel sets aside.
    pub fn set_aside(&self, machine: &Machine) -> SetAside {
        let mut aside = SetAside::default();
        for parameter in self.kernels_own() {
            if is(parameter, "isolcpus") {
                aside.isolcpus(split(parameter).1, machine);
            } else if is(parameter, "nohz_full") {
                aside.nohz_full(split(parameter).1, machine);
            }
        }
        aside
    }

    /// The CPUs whose RCU callbacks the kernel offloads.
    pub fn offloaded(&self, machine: &Machine) -> CpuList {
        let named = match self.value("rcu_nocbs").map(|list| machine.cpus(list)) {
            None => CpuList::default(),
            Some(Ok(cpus)) => cpus,
            // kernel/rcu/tree_nocb.h: "bad CPU range, all CPUs set".
            Some(Err(_)) => (0..=machine.last).collect(),
        };
        named.or(&self.set_aside(machine).tick)
    }

    /// The line with these parameters in place of parameters with the same key, and with new parameters at the end.
    pub fn with(&self, parameters: &[String]) -> Self {
        let stays = |old: &String| !parameters.iter().any(|new| is(old, split(new).0));
        let end = self.end();
        let mut all: Vec<String> = self.0[..end].iter().filter(|old| stays(old)).cloned().collect();
        all.extend(parameters.iter().cloned());
        all.extend(self.0[end..].iter().cloned());
        CommandLine(all)
    }

    /// The line without the parameters that the boot loader itself adds.
    pub fn without_boot_loaders(&self) -> Self {
        let own = |parameter: &&String| !matches!(split(parameter).0, "BOOT_IMAGE" | "initrd");
        CommandLine(self.0.iter().filter(own).cloned().collect())
    }

    /// All parameters for the kernel. The parameters after `--` are for the first process and are left out.
    pub fn kernels_own(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0[..self.end()].iter().map(String::as_str)
    }

    fn end(&self) -> usize {
        self.0.iter().position(|parameter| split(parameter).0 == "--").unwrap_or(self.0.len())
    }
}

impl std::fmt::Display for CommandLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

/// Splits a parameter into key and value, without the quotes that the kernel removes: quotes around the whole
/// parameter, and around the value.
pub fn split(parameter: &str) -> (&str, &str) {
    let whole = parameter.strip_prefix('"').map(|rest| rest.strip_suffix('"').unwrap_or(rest));
    let (key, value) = whole.unwrap_or(parameter).split_once('=').unwrap_or((whole.unwrap_or(parameter), ""));
    (key, value.strip_prefix('"').map_or(value, |rest| rest.strip_suffix('"').unwrap_or(rest)))
}

/// Whether a parameter has this key. The kernel treats `-` and `_` as the same character.
pub fn is(parameter: &str, key: &str) -> bool {
    split(parameter).0.replace('-', "_") == key.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine { last: 15, present: "0-3".parse().unwrap(), tickless: true }
    }

    /// Domain, managed interrupts, tick, RCU's callbacks.
    fn found(line: &str) -> [String; 4] {
        let line = CommandLine::parse(line);
        let aside = line.set_aside(&machine());
        [aside.domain, aside.managed_interrupts, aside.tick, line.offloaded(&machine())]
            .map(|cpus| cpus.to_string())
    }

    #[test]
    fn parameters_are_found_and_replaced() {
        let line = CommandLine::parse(
            "BOOT_IMAGE=/vmlinuz ro isolcpus=managed_irq,domain,2-5 dyndbg=\"a b\" -- init=x",
        );
        assert_eq!(line.value("init"), None, "what follows -- is not the kernel's");
        assert_eq!(line.value("dyndbg"), Some("a b"));
        assert_eq!(CommandLine::parse("\"a=b c\" x").value("a"), Some("b c"));
        let new = line.without_boot_loaders().with(&["isolcpus=3".into(), "nohz-full=3".into()]);
        assert_eq!(new.to_string(), "ro dyndbg=\"a b\" isolcpus=3 nohz-full=3 -- init=x");
        assert_eq!(found(&new.to_string()), ["3", "", "3", "3"]);
        let quoted = CommandLine::parse("\"isolcpus=2 \" \"nohz_full\"=3 a");
        assert_eq!(quoted.with(&["isolcpus=3".into()]).to_string(), "\"nohz_full\"=3 a isolcpus=3");
    }

    /// crates/tautline/tests/commands/host_command/booted/cpu_lists.rs holds the same against a booted kernel.
    #[test]
    fn a_line_sets_aside_what_the_kernel_would() {
        for (line, aside) in [
            ("isolcpus=2-N", ["2-15", "", "", ""]),
            ("isolcpus=2-3,", ["2,3", "", "", ""]),
            ("isolcpus=0-10:2/4 rcu_nocbs=all", ["0,1,4,5,8,9", "", "", "0-15"]),
            ("isolcpus=nohz,domain,managed_irq,2-3", ["2,3", "2,3", "2,3", "2,3"]),
            ("isolcpus=nohz,2", ["", "", "2", "2"]),
            ("isolcpus=2 isolcpus=3", ["2", "", "", ""]),
            ("isolcpus=managed_irq,2 isolcpus=3", ["3", "2", "", ""]),
            ("isolcpus=nohz,2 nohz_full=3", ["", "", "2", "2"]),
            ("isolcpus=2 nohz_full=3", ["2", "", "3", "3"]),
            ("isolcpus=new_flag,2", ["2", "", "", ""]),
            ("isolcpus=N", ["", "", "", ""]),
            ("isolcpus=domain,all", ["", "", "", ""]),
            ("isolcpus=2-16 nohz_full=2-3", ["", "", "2,3", "2,3"]),
            ("isolcpus=0-3", ["1-3", "", "", ""]),
            ("rcu_nocbs=2 rcu_nocbs=3", ["", "", "", "3"]),
            ("rcu-nocbs=16", ["", "", "", "0-15"]),
            ("rcu_nocbs", ["", "", "", ""]),
            ("\"isolcpus=2, 3\" nohz_full=\"2 3\"", ["2,3", "", "2,3", "2,3"]),
        ] {
            assert_eq!(found(line), aside.map(str::to_owned), "{line}");
        }
        let tickless = Machine { tickless: false, ..machine() };
        let line = CommandLine::parse("isolcpus=nohz,domain,2 nohz_full=3 isolcpus=managed_irq,3");
        let aside = SetAside { managed_interrupts: "3".parse().unwrap(), ..SetAside::default() };
        assert_eq!(line.set_aside(&tickless), aside, "without CONFIG_NO_HZ_FULL");
    }
}
