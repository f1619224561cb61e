//! What confines the process.

use crate::machine::Machine;
use crate::rights::field;

/// A seccomp filter or a container around the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Confinement {
    /// Whether a seccomp filter checks the process's system calls.
    pub seccomp: Option<bool>,
    /// The container, if one was detected.
    pub container: Option<Container>,
}

/// A container, and how it was detected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Container {
    /// Its kind: `Docker`, `Podman`, `Kubernetes`, or as it calls itself.
    pub name: String,
    /// The evidence for it.
    pub by: String,
}

impl Confinement {
    pub(super) fn of(machine: &Machine) -> Self {
        let status = machine.text("proc/self/status");
        Self {
            seccomp: status.and_then(|status| Some(field(&status, "Seccomp")? != "0")),
            container: Container::of(machine),
        }
    }
}

impl Container {
    fn of(machine: &Machine) -> Option<Self> {
        let found = |name: &str, by: &str| Some(Self { name: name.into(), by: by.into() });
        for (name, file) in [
            // First, because it runs inside the containers of the others.
            ("Kubernetes", "run/secrets/kubernetes.io"),
            ("Kubernetes", "var/run/secrets/kubernetes.io"),
            ("Podman", "run/.containerenv"),
            ("Docker", ".dockerenv"),
        ] {
            if machine.path(file).exists() {
                return found(name, &format!("/{file}"));
            }
        }
        // systemd's interface for containers.
        if let Some(name) = machine.text("run/systemd/container").filter(|name| !name.is_empty()) {
            return found(&name, "/run/systemd/container");
        }
        let groups = machine.text("proc/1/cgroup")?;
        let names = [("kubepods", "Kubernetes"), ("docker", "Docker"), ("libpod", "Podman"), ("lxc", "LXC")];
        let (_, name) = names.into_iter().find(|(text, _)| groups.contains(text))?;
        found(name, "/proc/1/cgroup")
    }
}
