//! As much of the QEMU Machine Protocol as pinning needs (QEMU's docs/interop/qmp-spec).

use std::time::Duration;

use serde_json::{Value, json};

use crate::channel::{Channel, ChannelError};

/// Pins vCPU n to the n-th of `cpus`.
pub fn pin_vcpus(mut control: Channel, cpus: &[usize], limit: Duration) -> Result<(), ChannelError> {
    control.receive(limit)?; // the greeting
    execute(&mut control, "qmp_capabilities", limit)?;
    let vcpus = execute(&mut control, "query-cpus-fast", limit)?;
    for vcpu in vcpus.as_array().into_iter().flatten() {
        let (Some(index), Some(thread)) = (vcpu["cpu-index"].as_u64(), vcpu["thread-id"].as_i64()) else {
            return Err(ChannelError::Malformed(
                "an answer to query-cpus-fast without cpu-index and thread-id",
            ));
        };
        if let Some(&cpu) = cpus.get(index as usize) {
            linux::cpus::bind_thread(thread as u32, &[cpu])?;
        }
    }
    Ok(())
}

fn execute(control: &mut Channel, command: &str, limit: Duration) -> Result<Value, ChannelError> {
    control.send(&json!({ "execute": command }).to_string(), limit)?;
    loop {
        let line = control.receive(limit)?;
        let mut answer: Value = serde_json::from_str(&line)
            .map_err(|_| ChannelError::Malformed("a line of QMP that is not JSON"))?;
        if let Some(value) = answer.get_mut("return") {
            return Ok(value.take());
        }
        if answer.get("error").is_some() {
            return Err(ChannelError::Malformed("an error in answer to a QMP command"));
        }
        // Otherwise an event, which comes unasked.
    }
}
