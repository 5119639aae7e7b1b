//! Modules of the program, until they are crates.

#[allow(dead_code, unused_imports, reason = "the program uses the rest")]
#[path = "../../tautline/src/cli.rs"]
pub mod cli;
#[allow(dead_code, reason = "the program uses the rest")]
#[path = "../../tautline/src/switch_command/configuration/command_line.rs"]
pub mod configuration;
#[allow(dead_code, reason = "the program uses the rest")]
#[path = "../../tautline/src/switch_command/hand_over_format.rs"]
pub mod hand_over_format;
