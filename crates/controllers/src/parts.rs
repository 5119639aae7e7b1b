//! Multipart requests of several parts.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits::Limits;
use openflow::{Failure, Request};

/// A request whose last part has not arrived.
#[derive(Debug)]
struct Unfinished {
    request: Request,
    bytes: usize,
    used: Duration,
}

/// The unfinished requests of one connection, by transaction.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    requests: BTreeMap<u32, Unfinished>,
}

/// Adds a part to the parts before it. Only lists have more than one part.
fn join(request: &mut Request, part: Request) -> Result<(), Failure> {
    match (request, part) {
        (Request::TableFeatures(all), Request::TableFeatures(more)) => all.extend(more),
        (Request::FlowMonitor(all), Request::FlowMonitor(more)) => all.extend(more),
        _ => return Err(Failure::BadMultipart),
    }
    Ok(())
}

impl Parts {
    /// Takes a part of this number of bytes. Returns the whole request with its last part.
    pub fn take(
        &mut self,
        transaction: u32,
        (part, more): (Request, bool),
        bytes: usize,
        limits: &Limits,
        now: Duration,
    ) -> Result<Option<Request>, Failure> {
        let held: usize = self.requests.values().map(|one| one.bytes).sum();
        let (request, before) = match self.requests.remove(&transaction) {
            Some(Unfinished { mut request, bytes, .. }) => {
                join(&mut request, part)?;
                (request, bytes)
            }
            None => (part, 0),
        };
        if !more {
            return Ok(Some(request));
        }
        if self.requests.len() >= limits.requests || held + bytes > limits.request_bytes {
            return Err(Failure::MultipartOverflow);
        }
        self.requests.insert(transaction, Unfinished { request, bytes: before + bytes, used: now });
        Ok(None)
    }

    /// The time at which the next request expires.
    pub fn deadline(&self, limits: &Limits) -> Option<Duration> {
        self.requests.values().map(|one| one.used.saturating_add(limits.request_idle)).min()
    }

    /// Removes the requests that have expired, and returns their transactions.
    pub fn expire(&mut self, limits: &Limits, now: Duration) -> Vec<u32> {
        let over = |one: &Unfinished| now >= one.used.saturating_add(limits.request_idle);
        let over: Vec<u32> = self.requests.iter().filter(|(_, one)| over(one)).map(|(id, _)| *id).collect();
        over.iter().for_each(|id| {
            self.requests.remove(id);
        });
        over
    }
}
