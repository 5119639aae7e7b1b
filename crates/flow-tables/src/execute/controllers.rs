//! Frames for controllers, and flows that frames learn.
use std::sync::Arc;

use flow::{Controller, Field, Learn, Reason};

use super::{Next, Run};
use crate::fields::{ENDS_TCP, has, write};
use crate::{Effect, PacketIn, Surroundings, Uncached};

impl<S: Surroundings> Run<'_, '_, S> {
    pub(super) fn controller(&mut self, controller: &Controller) -> Next {
        self.write_window();
        self.uncached(Uncached::Controller);
        if controller.meter != 0 && !self.passes(controller.meter) {
            return Next::Go;
        }
        if !self.around.has_room_for_packet_in(controller) {
            return if controller.pause { Next::Exit } else { Next::Go };
        }
        let header = self.keep_window();
        let packet = PacketIn {
            controller: controller.clone(),
            table: self.table,
            cookie: self.entry.map_or(self.cookie, |entry| entry.flow.cookie),
            header,
            key: self.key,
            continuation: controller.pause.then(Box::default),
        };
        self.outcome.effect(Effect::PacketIn(Box::new(packet)));
        if controller.pause { Next::Freeze } else { Next::Go }
    }

    pub(super) fn dec_ttl(&mut self, controllers: &[u16]) -> Next {
        if !has(&self.key, flow::Needs::Ip) {
            return Next::Go;
        }
        let ttl = self.key.get(Field::NwTtl);
        if ttl > 1 {
            self.key.set(Field::NwTtl, ttl - 1);
            return Next::Go;
        }
        for id in controllers {
            self.controller(&Controller { id: *id, reason: Reason::InvalidTtl, ..Controller::default() });
        }
        Next::Stop
    }

    /// Shortens the times of the flow if the frame ends its connection. Such frames come once or twice in a connection.
    pub(super) fn fin_timeout(&mut self) {
        if has(&self.key, flow::Needs::Tcp) && self.key.get(Field::TcpFlags) & ENDS_TCP != 0 {
            self.uncached(Uncached::Learning);
            if let Some(entry) = self.entry.filter(|_| self.outcome.trace.is_none()) {
                entry.end_connection();
            }
        }
    }

    pub(super) fn learn(&mut self, learn: &Arc<Learn>) {
        self.uncached(Uncached::Learning);
        let now_ms = self.around.now_ms();
        let is_there = self.outcome.trace.is_none() && self.tables.refresh_learned(learn, &self.key, now_ms);
        let room = is_there || self.around.learn(learn, &self.key);
        if let Some(bit) = learn.result {
            write(&mut self.key, bit.field, u128::from(room) << bit.start, bit.mask());
        }
    }
}
