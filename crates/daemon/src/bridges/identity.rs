//! The facts by which controllers identify a bridge.
use bridge::Identity;
use openflow::Description;

/// The identity of a bridge with this name and number.
pub fn identity(name: &str, datapath_id: u64) -> Identity {
    let text = |text: &str| text.as_bytes().to_vec();
    Identity {
        datapath_id,
        description: Description {
            manufacturer: text("Tautline"),
            hardware: text("Tautline"),
            software: text(env!("CARGO_PKG_VERSION")),
            serial: text("None"),
            datapath: text(name),
        },
    }
}
