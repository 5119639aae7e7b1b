//! Keys stay in the process.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Command, Stdio};

use linux::Child;
use peers::requirements::is_root;
use peers::socket::wait_for_listener;

use crate::guest::SOON;

const NOBODY: u32 = 65534;

/// The kernel gives the files of a process that is not dumped to root: no other process of the same user reads its
/// memory or traces it, and it leaves no core.
#[test]
fn a_device_leaves_no_core_and_is_read_by_no_other_process() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    // An ordinary user may not reach the folder that the program was built in.
    let program = folder.path().join("tautline");
    fs::copy(env!("CARGO_BIN_EXE_tautline"), &program).unwrap();
    let socket = folder.path().join("c");
    let mut command = Command::new("setpriv");
    if is_root() {
        let id = NOBODY.to_string();
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
    }
    command.arg(&program).args(["crypto", "--port", &format!("c=vhost-user:{}", socket.display())]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = Child::spawn(&mut command).unwrap();
    wait_for_listener(&socket, SOON).unwrap();
    let owner = |path: &str| fs::metadata(format!("/proc/{}/{path}", child.id())).unwrap().uid();
    assert_ne!(fs::metadata(&socket).unwrap().uid(), 0, "it is to run as an ordinary user");
    assert_eq!((owner("mem"), owner("environ")), (0, 0));
}
