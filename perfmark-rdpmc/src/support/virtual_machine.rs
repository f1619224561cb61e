//! Detects a virtual machine.

use crate::machine::Machine;

/// A virtual machine, and how it was detected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VirtualMachine {
    /// Its product or vendor, if known.
    pub name: Option<String>,
    /// The evidence for it.
    pub by: String,
}

/// Texts that virtual machines have in their firmware tables, and the name reported here. The name of a cloud alone is
/// not sufficient: some rent out entire physical machines.
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
        // Entries of lists in the device tree end with NUL.
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
        // Xen's first domain also has this file, and is not a physical machine either.
        let name = machine.text("sys/hypervisor/type").filter(|name| !name.is_empty())?;
        Some(Self { name: Some(name), by: "/sys/hypervisor/type".into() })
    }
}

fn firmware(machine: &Machine) -> Option<String> {
    let file_text = |file: &str| machine.text(format!("sys/class/dmi/id/{file}")).unwrap_or_default();
    let product = file_text("product_name");
    let full = format!("{} {product}", file_text("sys_vendor"));
    if let Some((_, name)) = FIRMWARE.iter().find(|(text, _)| full.contains(text)) {
        return Some((*name).into());
    }
    // Amazon's physical machines have types such as `m7i.metal-24xl`.
    (full.starts_with("Amazon EC2") && !product.contains(".metal")).then(|| "Amazon EC2".into())
}
