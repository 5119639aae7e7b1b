//! The commands of docs/crypto-for-guests.md.

use std::path::Path;

use peers::guest::{Settings, crypto_arguments};

use crate::guest::{Device, self_test};

/// The lines of the page's block that begins with this one.
fn block<'a>(page: &'a str, first: &str) -> &'a str {
    let at = page.find(&format!("```sh\n{first}")).unwrap_or_else(|| panic!("no block begins with {first}"));
    page[at + 6..].split_once("```").unwrap().0
}

#[test]
fn the_page_has_the_options_that_boot_and_what_the_guest_prints() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/crypto-for-guests.md");
    let page = std::fs::read_to_string(page).unwrap();
    let qemu = block(&page, "tautline crypto --port c=vhost-user:/run/c.sock &");
    for option in crypto_arguments(Path::new("/run/c.sock")).chunks(2) {
        assert!(qemu.contains(&option.join(" ")), "{option:?} is not in {qemu}");
    }
    let device = Device::start();
    let guest = Settings::default().crypto(&device.socket()).start().unwrap();
    self_test(&guest);
    // The driver is loaded already, by a guest without modprobe's lists.
    let command = block(&page, "modprobe virtio_crypto").lines().nth(1).unwrap();
    let printed = guest.must(command);
    assert!(page.contains(&format!("```text\n{printed}```")), "the guest prints {printed}");
}
