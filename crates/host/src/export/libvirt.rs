//! A domain's XML for libvirt.

use std::io;

use quick_xml::Writer;
use quick_xml::events::{BytesText, Event};

use super::guest::Guest;

const CANNOT: &str = "
  libvirt's domain cannot express:
    cpu-pm=on of QEMU (no exits when idle) except by qemu:commandline
    the host's side: isolation, interrupts, the kernel's command line (tautline host plan)
    vhost's worker off the vCPUs' CPUs before Linux 6.4: emulatorpin moves it only where it is QEMU's own task
";

type Xml = Writer<Vec<u8>>;

/// The domain.
pub fn libvirt(guest: &Guest) -> String {
    let mut xml = Writer::new_with_indent(Vec::new(), b' ', 2);
    // Writing to memory does not fail.
    let written = domain(&mut xml, guest);
    debug_assert!(written.is_ok());
    String::from_utf8_lossy(&xml.into_inner()).into_owned() + "\n"
}

fn domain(xml: &mut Xml, guest: &Guest) -> io::Result<()> {
    let housekeeping = guest.housekeeping.to_string();
    let count = guest.cpus.len().to_string();
    xml.write_event(Event::Comment(BytesText::from_escaped(CANNOT)))?;
    xml.create_element("domain").with_attribute(("type", "kvm")).write_inner_content(|xml| {
        text(xml, "name", &[], &guest.name)?;
        text(xml, "memory", &[("unit", "MiB")], &guest.memory_mib.to_string())?;
        inner(xml, "memoryBacking", &[], |xml| {
            inner(xml, "hugepages", &[], |_| Ok(()))?;
            empty(xml, "nosharepages", &[])?;
            empty(xml, "locked", &[])?;
            empty(xml, "source", &[("type", "memfd")])?;
            empty(xml, "access", &[("mode", "shared")])?;
            empty(xml, "allocation", &[("mode", "immediate")])
        })?;
        text(xml, "vcpu", &[("placement", "static")], &count)?;
        inner(xml, "cputune", &[], |xml| {
            for (vcpu, cpu) in guest.cpus.iter().enumerate() {
                empty(xml, "vcpupin", &[("vcpu", &vcpu.to_string()), ("cpuset", &cpu.to_string())])?;
            }
            empty(xml, "emulatorpin", &[("cpuset", &housekeeping)])?;
            for vcpu in 0..guest.cpus.len() {
                let vcpu = vcpu.to_string();
                empty(xml, "vcpusched", &[("vcpus", &vcpu), ("scheduler", "fifo"), ("priority", "1")])?;
            }
            Ok(())
        })?;
        inner(xml, "os", &[], |xml| {
            text(xml, "type", &[("arch", "x86_64"), ("machine", "q35")], "hvm")?;
            empty(xml, "boot", &[("dev", "hd")])
        })?;
        inner(xml, "features", &[], |xml| {
            empty(xml, "acpi", &[])?;
            empty(xml, "apic", &[])?;
            inner(xml, "kvm", &[], |xml| empty(xml, "hint-dedicated", &[("state", "on")]))?;
            empty(xml, "pmu", &[("state", "off")])
        })?;
        inner(xml, "cpu", &[("mode", "host-passthrough"), ("migratable", "off")], |xml| {
            let topology = [("sockets", "1"), ("dies", "1"), ("cores", &count), ("threads", "1")];
            empty(xml, "topology", &topology)?;
            empty(xml, "feature", &[("policy", "require"), ("name", "tsc-deadline")])
        })?;
        inner(xml, "devices", &[], |xml| {
            empty(xml, "controller", &[("type", "usb"), ("model", "none")])?;
            inner(xml, "console", &[("type", "pty")], |xml| empty(xml, "target", &[("type", "virtio")]))?;
            empty(xml, "memballoon", &[("model", "none")])
        })
    })?;
    Ok(())
}

type Attributes<'a> = [(&'a str, &'a str)];

fn empty(xml: &mut Xml, name: &str, attributes: &Attributes) -> io::Result<()> {
    xml.create_element(name).with_attributes(attributes.iter().copied()).write_empty().map(drop)
}

fn text(xml: &mut Xml, name: &str, attributes: &Attributes, content: &str) -> io::Result<()> {
    let element = xml.create_element(name).with_attributes(attributes.iter().copied());
    element.write_text_content(BytesText::new(content)).map(drop)
}

fn inner(
    xml: &mut Xml,
    name: &str,
    attributes: &Attributes,
    content: impl FnOnce(&mut Xml) -> io::Result<()>,
) -> io::Result<()> {
    let element = xml.create_element(name).with_attributes(attributes.iter().copied());
    element.write_inner_content(content).map(drop)
}
