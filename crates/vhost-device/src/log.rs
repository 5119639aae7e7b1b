//! The log of one device, with limits on the lines that its front-ends cause.
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::Context;
use crate::rate::LogRateLimiter;

/// Lines that front-ends may cause over time; a new connection does not reset the limits.
#[derive(Debug)]
struct Limits {
    /// Limits lines about new and closed connections.
    connections: LogRateLimiter,
    /// Limits lines about faults of front-ends.
    warnings: LogRateLimiter,
}

/// The log of one device over all its connections.
#[derive(Debug)]
pub struct Log {
    name: String,
    limits: Mutex<Limits>,
}

impl Log {
    /// The log of a device with this name, which usually is its kind and the path of its socket.
    pub fn new(name: impl Into<String>) -> Self {
        let limits =
            Mutex::new(Limits { connections: LogRateLimiter::new(), warnings: LogRateLimiter::new() });
        Log { name: name.into(), limits }
    }

    /// The device's name, with which each line begins.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn limits<T>(&self, ask: impl FnOnce(&mut Limits) -> T) -> T {
        ask(&mut self.limits.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Logs that a connection was made or closed, unless there were many such lines lately.
    pub fn log(&self, context: &mut (impl Context + ?Sized), message: impl Display) {
        if let Some(line) = self.limits(|limits| limits.connections.admit(Instant::now(), message)) {
            context.log(&format_args!("{}: {line}", self.name));
        }
    }

    /// Logs a fault of a front-end, unless there were many such lines lately.
    pub fn warn(&self, context: &mut (impl Context + ?Sized), message: impl Display) {
        if let Some(line) = self.limits(|limits| limits.warnings.admit(Instant::now(), message)) {
            context.log(&format_args!("{}: {line}", self.name));
        }
    }
}
