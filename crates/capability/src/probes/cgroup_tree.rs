//! The cgroup hierarchies of this machine and this process's place in them: cgroups(7).

use std::path::{Path, PathBuf};

use crate::files::text;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V1,
    V2,
}

/// A mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    pub version: Version,
    pub controllers: Vec<String>,
    /// The folder of this process's own cgroup.
    pub own: PathBuf,
}

impl Hierarchy {
    pub fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|name| name == controller)
    }
}

/// All mounted hierarchies, the unified one first.
pub fn hierarchies() -> Vec<Hierarchy> {
    let mut found = parse(&text("/proc/self/mountinfo"), &text("/proc/self/cgroup"));
    for hierarchy in &mut found {
        if !hierarchy.own.is_dir() {
            // The path is seen from another cgroup namespace: take the mount's top.
            while !hierarchy.own.is_dir() && hierarchy.own.pop() {}
        }
        if hierarchy.version == Version::V2 {
            let controllers = text(hierarchy.own.join("cgroup.controllers"));
            hierarchy.controllers = controllers.split_whitespace().map(str::to_owned).collect();
        }
    }
    found.sort_by_key(|hierarchy| hierarchy.version != Version::V2);
    found
}

/// From the texts of mountinfo (proc_pid_mountinfo(5)) and of cgroup (cgroups(7)).
fn parse(mountinfo: &str, cgroup: &str) -> Vec<Hierarchy> {
    mountinfo.lines().filter_map(|line| hierarchy(line, cgroup)).collect()
}

fn hierarchy(line: &str, cgroup: &str) -> Option<Hierarchy> {
    let (mount, filesystem) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (root, mount_point) = (mount.next()?, Path::new(mount.next()?));
    let mut filesystem = filesystem.split(' ');
    let version = match filesystem.next()? {
        "cgroup" => Version::V1,
        "cgroup2" => Version::V2,
        _ => return None,
    };
    let options: Vec<&str> = filesystem.nth(1)?.split(',').collect();
    // ID:CONTROLLER,…:PATH; the unified hierarchy names no controllers.
    let (controllers, path) = cgroup.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let belongs = match version {
            Version::V2 => controllers.is_empty(),
            Version::V1 => {
                !controllers.is_empty() && controllers.split(',').all(|name| options.contains(&name))
            }
        };
        belongs.then_some((controllers, path))
    })?;
    let below = path.strip_prefix(root.trim_end_matches('/')).unwrap_or(path).trim_start_matches('/');
    // A named hierarchy, `name=systemd` for one, has no controller.
    let is_controller = |name: &&str| !name.is_empty() && !name.starts_with("name=");
    let controllers = controllers.split(',').filter(is_controller).map(str::to_owned).collect();
    let own = if below.is_empty() { mount_point.to_owned() } else { mount_point.join(below) };
    Some(Hierarchy { version, controllers, own })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hybrid_system_with_a_cgroup_of_its_own() {
        let mountinfo = "\
24 1 0:22 / /proc rw,relatime - proc proc rw
31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate
33 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:11 - cgroup cgroup rw,cpu,cpuacct
34 30 0:30 /pod /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory";
        let cgroup = "4:cpu,cpuacct:/\n3:memory:/pod/app\n1:name=systemd:/\n0::/user.slice/x";
        let own = |version, controllers: &[&str], own: &str| Hierarchy {
            version,
            controllers: controllers.iter().map(|name| name.to_string()).collect(),
            own: own.into(),
        };
        assert_eq!(
            parse(mountinfo, cgroup),
            [
                own(Version::V2, &[], "/sys/fs/cgroup/unified/user.slice/x"),
                own(Version::V1, &["cpu", "cpuacct"], "/sys/fs/cgroup/cpu,cpuacct"),
                own(Version::V1, &["memory"], "/sys/fs/cgroup/memory/app"),
            ]
        );
    }
}
