//! Stock guests with a crypto device: their kernel is the driver, QEMU the front-end, `tautline crypto` the back-end.

mod af_alg;
mod beside_qemu;
mod guest;
mod keys;
mod killed;
mod page;
mod stopped;
