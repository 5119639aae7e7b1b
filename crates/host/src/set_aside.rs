//! The CPUs that the kernel sets aside by `isolcpus` and `nohz_full`, as kernel/sched/isolation.c reads both since
//! Linux 5.18.

use super::cpu_list::{BadCpuList, CpuList, WrittenCpus};
use super::tree::HostTree;

/// The kernel's list of CPUs without a timer tick; the file exists if the kernel is built with CONFIG_NO_HZ_FULL.
pub const TICKLESS: &str = "/sys/devices/system/cpu/nohz_full";

/// The facts about CPUs that the kernel uses when it reads its command line.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The highest possible CPU: `N` in a list.
    pub last: usize,
    /// The CPUs that are present.
    pub present: CpuList,
    /// Whether the kernel is built with CONFIG_NO_HZ_FULL.
    pub tickless: bool,
}

impl Machine {
    /// Reads the facts of a host whose CPUs `online` are online.
    pub fn of(tree: &HostTree, online: &CpuList) -> Self {
        let list = |name: &str| {
            let text = tree.read(&format!("/sys/devices/system/cpu/{name}")).ok();
            text.and_then(|text| text.parse::<CpuList>().ok()).filter(|cpus| !cpus.is_empty())
        };
        // A host that an older version recorded says which CPUs run, and which are isolated, online or not.
        let isolated = || list("isolated").unwrap_or_default();
        let present = list("present").unwrap_or_else(|| online.or(&isolated()));
        let possible = list("possible").unwrap_or_else(|| present.clone());
        Machine { last: possible.last().unwrap_or(0), present, tickless: tree.has(TICKLESS) }
    }

    /// The CPUs that a user names; a CPU given by its number need not be present.
    ///
    /// # Errors
    /// The text is not a list of CPUs.
    pub fn named(&self, list: &WrittenCpus) -> Result<CpuList, BadCpuList> {
        let cpus = list.numbered().or_else(|_| list.on(self.last))?;
        Ok(cpus.into_iter().collect())
    }

    /// The CPUs that a list on the command line names.
    ///
    /// # Errors
    /// The kernel refuses the list.
    pub fn cpus(&self, list: &str) -> Result<CpuList, BadCpuList> {
        Ok(list.parse::<WrittenCpus>()?.on(self.last)?.into_iter().collect())
    }
}

/// A kind of work that CPUs can be kept free from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tick,
    Domain,
    ManagedInterrupts,
}

/// The CPUs that are set aside, by the activity that avoids them; all sets are empty if no parameter took effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetAside {
    /// CPUs that load balancing avoids.
    pub domain: CpuList,
    /// CPUs that managed interrupts avoid.
    pub managed_interrupts: CpuList,
    /// CPUs without the timer tick, and therefore without RCU callbacks.
    pub tick: CpuList,
}

impl SetAside {
    /// Applies a value of `isolcpus`.
    pub(super) fn isolcpus(&mut self, value: &str, machine: &Machine) {
        if let Some((mut kinds, list)) = kinds(value) {
            if kinds.is_empty() {
                kinds.push(Kind::Domain);
            }
            self.take(&kinds, list, machine);
        }
    }

    /// Applies a value of `nohz_full`.
    pub(super) fn nohz_full(&mut self, value: &str, machine: &Machine) {
        self.take(&[Kind::Tick], value, machine);
    }

    fn take(&mut self, kinds: &[Kind], list: &str, machine: &Machine) {
        if kinds.contains(&Kind::Tick) && !machine.tickless {
            return;
        }
        let Ok(mut cpus) = machine.cpus(list) else { return };
        // The CPU that boots keeps the work that no other can take.
        if machine.present.within(&cpus) {
            cpus = cpus.without(&CpuList::from_iter([0]));
        }
        // A parameter must repeat what an earlier one has said of the same kind; it is ignored as a whole otherwise.
        let differs = |kind: &Kind| {
            let earlier = self.of(*kind);
            !earlier.is_empty() && *earlier != cpus
        };
        if !kinds.iter().any(differs) {
            kinds.iter().for_each(|kind| *self.of(*kind) = cpus.clone());
        }
    }

    fn of(&mut self, kind: Kind) -> &mut CpuList {
        match kind {
            Kind::Tick => &mut self.tick,
            Kind::Domain => &mut self.domain,
            Kind::ManagedInterrupts => &mut self.managed_interrupts,
        }
    }
}

/// The flags before the list of `isolcpus`, and the list; `None` where the kernel ignores the parameter.
fn kinds(value: &str) -> Option<(Vec<Kind>, &str)> {
    let mut kinds = Vec::new();
    let mut rest = value;
    while rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
        // A flag needs a comma behind it, and every word that begins with a letter is one: `N` and `all` too.
        let (flag, behind) = rest.split_once(',')?;
        match flag {
            "nohz" => kinds.push(Kind::Tick),
            "domain" => kinds.push(Kind::Domain),
            "managed_irq" => kinds.push(Kind::ManagedInterrupts),
            unknown if unknown.chars().all(|c| c.is_ascii_alphabetic() || c == '_') => {}
            _ => return None,
        }
        rest = behind;
    }
    Some((kinds, rest))
}
