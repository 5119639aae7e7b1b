//! What needs a real KVM: in the nested machine.

mod host_interrupts;
mod kvm_costs;
mod kvm_path;
mod kvm_trace;
mod kvm_worst;
mod kvm_worst_causes;
mod nested_events;
mod network;
mod partition;
mod partition_loads;
mod phases;
mod tti;
mod virtual_function;
mod vm;
mod wakeups;
