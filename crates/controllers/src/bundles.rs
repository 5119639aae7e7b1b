//! Bundles of one connection: the bytes of their messages, until they are committed (OpenFlow 1.5 §7.3.9).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits::Limits;
use openflow::HEADER_BYTES;
use openflow::{BundleFlags, Failure};

/// The most bytes of the request that opened a bundle, for an error.
const REQUEST_BYTES: usize = 64;

/// A bundle that is not yet committed.
#[derive(Debug)]
pub(crate) struct Bundle {
    flags: BundleFlags,
    closed: bool,
    /// The requests that each add one message, as consecutive bytes. Each was decoded once before, so it can be
    /// decoded.
    messages: Vec<u8>,
    used: Duration,
    /// The request that opened the bundle, and the request's transaction.
    request: Vec<u8>,
    transaction: u32,
}

impl Bundle {
    /// The bundle's messages, each as bytes.
    pub fn messages(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.messages[..];
        std::iter::from_fn(move || {
            let length = usize::from(u16::from_be_bytes(*rest.get(2..)?.first_chunk()?));
            let (message, behind) = rest.split_at_checked(length.max(HEADER_BYTES))?;
            rest = behind;
            Some(message)
        })
    }

    /// The transaction and the first bytes of the request that opened the bundle, for the error of an expired bundle.
    pub fn request(&self) -> (u32, &[u8]) {
        (self.transaction, &self.request)
    }
}

/// A request on a bundle.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub id: u32,
    pub flags: BundleFlags,
    pub transaction: u32,
    pub request: &'a [u8],
    pub now: Duration,
}

/// The bundles of one connection.
#[derive(Debug, Default)]
pub(crate) struct Bundles {
    bundles: BTreeMap<u32, Bundle>,
}

impl Bundles {
    /// Bytes of all messages.
    pub fn bytes(&self) -> usize {
        self.bundles.values().map(|bundle| bundle.messages.len()).sum()
    }

    fn insert(&mut self, ask: Ask<'_>, limits: &Limits) -> Result<&mut Bundle, Failure> {
        if self.bundles.len() >= limits.bundles {
            return Err(Failure::OutOfBundles);
        }
        let request = ask.request[..ask.request.len().min(REQUEST_BYTES)].to_vec();
        let bundle = Bundle {
            flags: ask.flags,
            closed: false,
            messages: Vec::new(),
            used: ask.now,
            request,
            transaction: ask.transaction,
        };
        Ok(self.bundles.entry(ask.id).or_insert(bundle))
    }

    /// Opens a bundle. If a bundle with the same number is open, it is discarded and the request is refused, as in Open
    /// vSwitch.
    pub fn open(&mut self, ask: Ask<'_>, limits: &Limits) -> Result<(), Failure> {
        if self.bundles.remove(&ask.id).is_some() {
            return Err(Failure::BadBundle);
        }
        self.insert(ask, limits).map(drop)
    }

    /// The bundle, if it can still be changed. Otherwise the bundle is discarded, as in Open vSwitch.
    fn open_one(&mut self, ask: Ask<'_>) -> Result<&mut Bundle, Failure> {
        let bundle = self.bundles.get(&ask.id).ok_or(Failure::BadBundle)?;
        let failure = match bundle {
            Bundle { closed: true, .. } => Some(Failure::BundleClosed),
            Bundle { flags, .. } if *flags != ask.flags => Some(Failure::BundleFlags),
            _ => None,
        };
        if let Some(failure) = failure {
            self.bundles.remove(&ask.id);
            return Err(failure);
        }
        self.bundles.get_mut(&ask.id).ok_or(Failure::BadBundle)
    }

    /// Closes a bundle. No message can be added to a closed bundle.
    pub fn close(&mut self, ask: Ask<'_>) -> Result<(), Failure> {
        self.open_one(ask)?.closed = true;
        Ok(())
    }

    /// Adds the message in the request. `free_bytes` is the number of bytes by which all bundles may still grow.
    pub fn add(&mut self, ask: Ask<'_>, free_bytes: usize, limits: &Limits) -> Result<(), Failure> {
        if ask.request.len() > free_bytes {
            return Err(Failure::BundleTooMany);
        }
        let bundle = match self.bundles.contains_key(&ask.id) {
            true => self.open_one(ask)?,
            false => self.insert(ask, limits)?,
        };
        bundle.messages.extend(ask.request);
        bundle.used = ask.now;
        Ok(())
    }

    /// Removes a bundle and returns it, so that its messages can be carried out.
    pub fn take(&mut self, ask: Ask<'_>) -> Result<Bundle, Failure> {
        let bundle = self.bundles.remove(&ask.id).ok_or(Failure::BadBundle)?;
        if bundle.flags == ask.flags { Ok(bundle) } else { Err(Failure::BundleFlags) }
    }

    /// Discards a bundle.
    pub fn discard(&mut self, id: u32) -> Result<(), Failure> {
        self.bundles.remove(&id).map(drop).ok_or(Failure::BadBundle)
    }

    /// The time at which the next bundle expires, if it is not used before.
    pub fn deadline(&self, limits: &Limits) -> Option<Duration> {
        self.bundles.values().map(|bundle| bundle.used.saturating_add(limits.bundle_idle)).min()
    }

    /// Removes and returns the bundles that have expired.
    pub fn expire(&mut self, limits: &Limits, now: Duration) -> Vec<Bundle> {
        let over = |bundle: &Bundle| now >= bundle.used.saturating_add(limits.bundle_idle);
        let ids: Vec<u32> = self.bundles.iter().filter(|(_, one)| over(one)).map(|(id, _)| *id).collect();
        ids.iter().filter_map(|id| self.bundles.remove(id)).collect()
    }
}
