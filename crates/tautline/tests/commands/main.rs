//! The commands but for the switch: as a user calls them.

#[allow(dead_code, unused_imports, reason = "the program's own uses are elsewhere")]
#[path = "../../src/cli/mod.rs"]
mod cli;
mod command_line;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../common/mod.rs"]
mod common;
mod compare;
mod compare_network;
mod crypto;
mod host_command;
mod network_honest;
mod network_paths;
mod partition;
mod report;
mod rfc2544;
mod scenario;
#[path = "../switch_process/mod.rs"]
mod switch_process;
mod torture;
mod tti;
mod tti_cyclictest;
mod two_hosts;
mod vm;
#[path = "../nested/wakeups.rs"]
mod wakeups;
