//! `tautline vdpa`: gives the rings of a guest to a vDPA device until a signal ends it.

use super::serving::{guard, serve};
use crate::exit::Done;
use crate::{cli, output};

pub fn run(cli::Vdpa { port, device }: &cli::Vdpa) -> anyhow::Result<Done> {
    let _guard = guard()?;
    serve(|goes_on| vdpa_relay::run(port, device, |line| output::remark(&line.to_string()), goes_on))
}
