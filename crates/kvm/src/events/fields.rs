//! Converts an event's name and text to its type. `None` for an unknown event, which is counted and never guessed.

use super::Kind;

/// `text` is what follows the colon after `name`.
pub fn kind(name: &str, text: &str) -> Option<Kind> {
    Some(match name {
        // Arm's events do not name the virtual CPU.
        "kvm_entry" if text.trim().starts_with("PC:") => Kind::Entry { vcpu: 0 },
        "kvm_entry" => Kind::Entry { vcpu: number(after(text, "vcpu ")?)? },
        // `TRAP: HSR_EC: 0x0024 (DABT_LOW), PC: …`, or `IRQ: HSR_EC: 0x0000 (UNKNOWN), PC: …`.
        "kvm_exit" if text.contains("HSR_EC:") => {
            let (code, class) = text.split_once(':')?;
            let class = class.split(['(', ')']).nth(1)?;
            let reason = if code.trim() == "TRAP" { class } else { code.trim() };
            Kind::Exit { vcpu: 0, reason: reason.to_lowercase() }
        }
        "kvm_exit" => {
            let vcpu = text.find("vcpu ").and_then(|at| number(&text[at + 5..])).unwrap_or(0);
            Kind::Exit { vcpu, reason: word(after(text, "reason ")?)?.to_lowercase() }
        }
        "kvm_userspace_exit" => {
            let reason = word(after(text, "reason ")?)?;
            Kind::UserspaceExit { reason: reason.trim_start_matches("KVM_EXIT_").to_lowercase() }
        }
        // Linux 6.1: "IRQ 0x23"; earlier: "irq 35"; exceptions have an event of their own.
        "kvm_inj_virq" => Kind::Inject { vector: any_base(text.split_whitespace().nth(1)?)? },
        "kvm_apic_accept_irq" => Kind::Accept {
            apic: number(after(text, "apicid ")?.trim_start_matches('0')).unwrap_or(0),
            vector: number(after(text, "vec ")?)?,
        },
        "kvm_eoi" | "kvm_pv_eoi" => Kind::EndOfInterrupt,
        "kvm_msi_set_irq" | "kvm_set_irq" | "kvm_pio" | "kvm_mmio" | "kvm_fast_mmio" => {
            Kind::Kvm { name: name.to_owned() }
        }
        "sched_switch" => {
            let (before, next) = text.split_once(" ==> ")?;
            let state = word(after(before, "prev_state=")?)?;
            Kind::Switch {
                previous: number(after(before, "prev_pid=")?)?,
                runnable: state.starts_with('R'),
                next: number(after(next, "next_pid=")?)?,
                priority: after(next, "next_prio=")?.trim().parse().ok()?,
            }
        }
        "sched_waking" => Kind::Waking { target: number(after(text, " pid=")?)? },
        // Arm's timer has no event of its own.
        "irq_handler_entry" if text.ends_with("name=arch_timer") => Kind::Timer,
        "irq_handler_entry" => Kind::IrqEntry { name: after(text, "name=")?.trim().to_owned() },
        "irq_handler_exit" => Kind::IrqExit,
        "softirq_entry" => {
            Kind::SoftirqEntry { action: after(text, "action=")?.split(']').next()?.to_owned() }
        }
        "softirq_exit" => Kind::SoftirqExit,
        "local_timer_entry" | "hrtimer_expire_entry" => Kind::Timer,
        "local_timer_exit" => Kind::TimerExit,
        "sys_enter" => Kind::SyscallEnter { number: number(after(text, "NR ")?)? },
        "sys_exit" => Kind::SyscallExit { number: number(after(text, "NR ")?)? },
        "net_dev_queue" | "net_dev_start_xmit" | "net_dev_xmit" | "netif_rx" | "netif_receive_skb" => {
            Kind::Net { name: name.to_owned(), device: word(after(text, "dev=")?)?.to_owned() }
        }
        "block_rq_issue" => {
            let (device, sector) = request(text)?;
            Kind::BlockIssue { device, sector }
        }
        "block_rq_complete" => {
            let (device, sector) = request(text)?;
            Kind::BlockComplete { device, sector }
        }
        "page_fault_user" | "page_fault_kernel" => Kind::PageFault { guest: false },
        "kvm_page_fault" => Kind::PageFault { guest: true },
        _ => return None,
    })
}

/// `253,0 R 4096 () 2048 + 8 [dd]`: which device, and where on it. Later kernels write more behind the length.
fn request(text: &str) -> Option<(String, u64)> {
    let (before, _) = text.split_once(" + ")?;
    Some((word(before)?.to_owned(), before.rsplit(' ').next()?.parse().ok()?))
}

fn after<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.find(key).map(|at| &text[at + key.len()..])
}

fn word(text: &str) -> Option<&str> {
    text.split_whitespace().next()
}

/// The digits at the beginning.
fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

fn any_base(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => number(text),
    }
}
