//! Learning and forwarding between ports, drop reasons, the worker loop that polls or sleeps.
#![forbid(unsafe_code)]
