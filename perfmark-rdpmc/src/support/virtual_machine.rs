//! The signs of a virtual machine.

use crate::machine::Machine;

/// A virtual machine, and how it was noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VirtualMachine {
    /// Whose it is, where something tells.
    pub name: Option<String>,
    /// What tells of it.
    pub by: String,
}

/// What makers of virtual machines write in the firmware's tables, and what it is called here. A cloud's name alone is no sign: some
/// rent out whole machines.
const FIRMWARE: &[(&str, &str)] = &[
    ("QEMU", "QEMU"),
    ("KVM", "KVM"),
    ("Bochs", "Bochs"),
    ("VMware", "VMware"),
    ("VirtualBox", "VirtualBox"),
    ("Xen", "Xen"),
    ("HVM domU", "Xen"),
    ("Microsoft Corporation Virtual Machine", "Hyper-V"),
    ("Google Compute Engine", "Google Compute Engine"),
    ("OpenStack", "OpenStack"),
    ("Parallels", "Parallels"),
    ("Apple Virtualization", "Apple Virtualization"),
    ("BHYVE", "bhyve"),
];

impl VirtualMachine {
    pub(super) fn of(machine: &Machine) -> Option<Self> {
        let firmware = firmware(machine);
        let found = |by: &str| Some(Self { name: firmware.clone(), by: by.into() });
        let processors = machine.text("proc/cpuinfo").unwrap_or_default();
        let flags = processors.lines().find(|line| line.starts_with("flags"));
        if flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor")) {
            return found("the flag hypervisor in /proc/cpuinfo");
        }
        if firmware.is_some() {
            return found("/sys/class/dmi/id");
        }
        // Lists in the device tree are ended by NUL each.
        let tree = |file: &str| Some(machine.text(file)?.replace('\0', " ").trim().to_owned());
        if let Some(name) = tree("proc/device-tree/hypervisor/compatible") {
            return Some(Self { name: Some(name), by: "/proc/device-tree/hypervisor".into() });
        }
        if tree("proc/device-tree/compatible").is_some_and(|names| names.contains("linux,dummy-virt")) {
            return Some(Self {
                name: Some("QEMU".into()),
                by: "linux,dummy-virt in /proc/device-tree/compatible".into(),
            });
        }
        // Xen's first domain has it too, and is no machine of its own either.
        let name = machine.text("sys/hypervisor/type").filter(|name| !name.is_empty())?;
        Some(Self { name: Some(name), by: "/sys/hypervisor/type".into() })
    }
}

fn firmware(machine: &Machine) -> Option<String> {
    let text = |file: &str| machine.text(format!("sys/class/dmi/id/{file}")).unwrap_or_default();
    let product = text("product_name");
    let whole = format!("{} {product}", text("sys_vendor"));
    if let Some((_, name)) = FIRMWARE.iter().find(|(sign, _)| whole.contains(sign)) {
        return Some((*name).into());
    }
    // Amazon's whole machines are of types such as `m7i.metal-24xl`.
    (whole.starts_with("Amazon EC2") && !product.contains(".metal")).then(|| "Amazon EC2".into())
}
