//! The kernel's command line: what is on it, and what it would be with other parameters.

use super::cpu_list::CpuList;

/// Parameters in their order. A value may hold blanks where it is quoted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine(Vec<String>);

impl CommandLine {
    /// Splits a line as the kernel does.
    pub fn parse(line: &str) -> Self {
        let mut parameters = vec![String::new()];
        let mut quoted = false;
        for c in line.trim().chars() {
            quoted ^= c == '"';
            if c.is_whitespace() && !quoted {
                parameters.push(String::new());
            } else if let Some(last) = parameters.last_mut() {
                last.push(c);
            }
        }
        parameters.retain(|parameter| !parameter.is_empty());
        CommandLine(parameters)
    }

    /// A parameter's value: the last one, which is what counts for most; `""` for a flag.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.kernels_own().rev().find_map(|parameter| {
            let (name, value) = split(parameter);
            same_key(name, key).then_some(value)
        })
    }

    /// The CPUs of a parameter such as `nohz_full`.
    pub fn cpus(&self, key: &str) -> CpuList {
        self.value(key).and_then(|value| value.parse().ok()).unwrap_or_default()
    }

    /// The flags and the CPUs of `isolcpus`. Without flags it means `domain`.
    pub fn isolated(&self) -> (Vec<&str>, CpuList) {
        let Some(value) = self.value("isolcpus") else { return Default::default() };
        let mut parts: Vec<&str> = value.split(',').collect();
        let first_cpu = parts.iter().position(|part| part.starts_with(|c: char| c.is_ascii_digit()));
        let cpus = parts.split_off(first_cpu.unwrap_or(parts.len())).join(",");
        let flags = if parts.is_empty() { vec!["domain"] } else { parts };
        (flags, cpus.parse().unwrap_or_default())
    }

    /// The line with these parameters in place of those with the same key, and new ones at the end.
    pub fn with(&self, parameters: &[String]) -> Self {
        let is_new = |old: &String| !parameters.iter().any(|new| same_key(split(new).0, split(old).0));
        let end = self.0.iter().position(|parameter| parameter == "--").unwrap_or(self.0.len());
        let mut all: Vec<String> = self.0[..end].iter().filter(|old| is_new(old)).cloned().collect();
        all.extend(parameters.iter().cloned());
        all.extend(self.0[end..].iter().cloned());
        CommandLine(all)
    }

    /// The line without what the boot loader itself puts there.
    pub fn without_boot_loaders(&self) -> Self {
        let own = |parameter: &&String| !matches!(split(parameter).0, "BOOT_IMAGE" | "initrd");
        CommandLine(self.0.iter().filter(own).cloned().collect())
    }

    /// All parameters for the kernel, not those after `--` that are for its first process.
    pub fn kernels_own(&self) -> impl DoubleEndedIterator<Item = &str> {
        let end = self.0.iter().position(|parameter| parameter == "--").unwrap_or(self.0.len());
        self.0[..end].iter().map(String::as_str)
    }
}

impl std::fmt::Display for CommandLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

/// Key and value.
pub fn split(parameter: &str) -> (&str, &str) {
    parameter.split_once('=').unwrap_or((parameter, ""))
}

/// The kernel takes `-` and `_` for the same.
fn same_key(one: &str, other: &str) -> bool {
    one.replace('-', "_") == other.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_and_replaced() {
        let line = CommandLine::parse(
            "BOOT_IMAGE=/vmlinuz ro isolcpus=managed_irq,domain,2-5 dyndbg=\"a b\" -- init=x",
        );
        assert_eq!(line.isolated(), (vec!["managed_irq", "domain"], "2-5".parse().unwrap()));
        assert_eq!(line.value("init"), None, "what follows -- is not the kernel's");
        assert_eq!(line.value("dyndbg"), Some("\"a b\""));
        let new = line.without_boot_loaders().with(&["isolcpus=3".into(), "nohz-full=3".into()]);
        assert_eq!(new.to_string(), "ro dyndbg=\"a b\" isolcpus=3 nohz-full=3 -- init=x");
        assert_eq!(new.isolated(), (vec!["domain"], "3".parse().unwrap()));
        assert_eq!(new.cpus("nohz_full"), "3".parse().unwrap());
    }
}
