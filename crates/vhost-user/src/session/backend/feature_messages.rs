//! Negotiation of features.
use super::{BackendSession, Commit, Event, Next};
use crate::bits::ProtocolFeatures;
use crate::codec::table::Rule;
use crate::violation::Violation;
use virtio::Features;

impl BackendSession {
    pub(super) fn on_set_features(&mut self, rule: &Rule, features: Features) -> Result<Next, Violation> {
        let surplus = features.difference(self.agreed.offered);
        if !surplus.is_empty() {
            return Err(rule.violation("features", surplus.bits(), "features that were offered"));
        }
        // Only migration sets features under running rings, and only to switch the log.
        let changed = features.symmetric_difference(self.agreed.features).difference(Features::VHOST_LOG_ALL);
        if self.any_ring_started() && !changed.is_empty() {
            return Err(rule.violation("features", changed.bits(), "no change while queues run"));
        }
        Ok(self.ask_done(rule, Commit::Features(features), |done| Event::FeaturesSet { features, done }))
    }

    /// Without protocol features there is no SET_VRING_ENABLE, and all rings are enabled at once.
    pub(super) fn set_features(&mut self, features: Features) {
        self.agreed.features = features;
        self.features_set = true;
        if !features.contains(Features::VHOST_PROTOCOL_FEATURES) {
            self.rings.iter_mut().for_each(|ring| ring.enabled = true);
        }
    }

    pub(super) fn on_set_protocol_features(
        &mut self,
        rule: &Rule,
        features: ProtocolFeatures,
    ) -> Result<Next, Violation> {
        let surplus = features.difference(self.agreed.protocol_offered);
        if !surplus.is_empty() {
            return Err(rule.violation("protocol features", surplus.bits(), "features that were offered"));
        }
        if self.any_ring_started() && features != self.agreed.protocol {
            return Err(rule.violation("protocol features", features.bits(), "no change while queues run"));
        }
        rule.check_needs(features)?;
        self.agreed.protocol = features;
        Ok(Next::Done)
    }
}
