//! Exports a plan as a profile for tuned.

use std::fmt::Write;

use super::knob::Knob;
use super::plan::Plan;
use super::rules::Change;

/// The text of a `tuned.conf`.
pub fn profile(plan: &Plan) -> String {
    let mut sysctl = String::new();
    let mut sysfs = String::new();
    let mut vm = String::new();
    let mut cpu = String::new();
    let mut cannot = Vec::new();
    for rule in &plan.rules {
        for change in rule.at_run_time() {
            let Change::Set { knob, value } = change else { continue };
            match knob {
                Knob::Choice { path } if path.ends_with("transparent_hugepage/enabled") => {
                    let _ = writeln!(vm, "transparent_hugepages={value}");
                }
                Knob::File { path } if path.ends_with("scaling_governor") => {
                    let line = format!("governor={value}\n");
                    if !cpu.contains(&line) {
                        cpu.push_str(&line);
                    }
                }
                Knob::File { path } if path.starts_with("/proc/sys/") => {
                    let key = path.trim_start_matches("/proc/sys/").replace('/', ".");
                    let _ = writeln!(sysctl, "{key}={value}");
                }
                Knob::File { path } | Knob::Mask { path } | Knob::Choice { path }
                    if path.starts_with("/sys/") && !path.starts_with("/sys/fs/cgroup") =>
                {
                    let _ = writeln!(sysfs, "{path}={value}");
                }
                _ if !cannot.contains(&rule.rule) => cannot.push(rule.rule.clone()),
                _ => {}
            }
        }
    }
    let mut text = format!(
        "# {} for CPUs {}, as /etc/tuned/tautline-{0}/tuned.conf\n",
        plan.profile.name(),
        if plan.isolated.is_empty() { "all".into() } else { plan.isolated.to_string() }
    );
    if !cannot.is_empty() {
        let _ = writeln!(text, "# tuned has no plain way for: {}", cannot.join(", "));
    }
    let _ = writeln!(text, "[main]\nsummary=Tautline's plan for the profile {}", plan.profile.name());
    for (section, lines) in [("cpu", cpu), ("vm", vm), ("sysctl", sysctl), ("sysfs", sysfs)] {
        if !lines.is_empty() {
            let _ = write!(text, "\n[{section}]\n{lines}");
        }
    }
    let options = plan.module_options();
    if !options.is_empty() {
        let _ = writeln!(text, "\n[modules]");
        let mut modules: Vec<&str> = options.iter().map(|(module, _)| *module).collect();
        modules.dedup();
        for module in modules {
            let own: Vec<&str> =
                options.iter().filter(|(name, _)| *name == module).map(|(_, option)| *option).collect();
            let _ = writeln!(text, "{module}={}", own.join(" "));
        }
    }
    let parameters = plan.boot_parameters();
    if !parameters.is_empty() {
        let _ = write!(text, "\n[bootloader]\ncmdline_tautline=+{}\n", parameters.join(" "));
    }
    text
}
