//! A control loop: readings of axes, an estimate of each axis' state, and the resulting forces.

mod actuator;
mod axis;
mod controller;
mod sensor;

pub(crate) use actuator::Actuator;
pub(crate) use controller::Controller;
pub(crate) use sensor::Sensor;
