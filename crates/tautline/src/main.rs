//! The command line: parse, validate, call, exit code.
fn main() {}
