//! Whether the machine is a machine, and by whom it was made.

use crate::{Facts, read};
use std::path::Path;

pub fn collect(facts: &mut Facts) {
    let dmi = |name: &str| read::system_line(format!("/sys/class/dmi/id/{name}"));
    let signs = Signs {
        docker: Path::new("/.dockerenv").exists(),
        podman: Path::new("/run/.containerenv").exists(),
        systemd_container: read::system_line("/run/systemd/container"),
        first_cgroup: read::system_text("/proc/1/cgroup"),
        vendor: dmi("sys_vendor"),
        product: dmi("product_name"),
        bios: dmi("bios_vendor"),
        hypervisor: read::system_line("/sys/hypervisor/type"),
        flagged: facts
            .get("cpu_flags")
            .and_then(|flags| flags.as_array())
            .is_some_and(|flags| flags.iter().any(|flag| flag == "hypervisor")),
    };
    let (kind, subtype) = understand(&signs);
    facts.insert("virtual".into(), kind.into());
    if !subtype.is_empty() {
        facts.insert("virtual_subtype".into(), subtype.into());
    }
    facts.insert("manufacturer".into(), signs.vendor.into());
    facts.insert("productname".into(), signs.product.into());
    facts.insert("biosvendor".into(), signs.bios.into());
}

/// Everything that may give a container or a virtual machine away.
#[derive(Debug, Default)]
struct Signs {
    docker: bool,
    podman: bool,
    /// What systemd calls the container manager.
    systemd_container: String,
    first_cgroup: String,
    vendor: String,
    product: String,
    bios: String,
    hypervisor: String,
    /// The processor says that there is a hypervisor.
    flagged: bool,
}

/// `virtual` and `virtual_subtype`. A container comes first: what it runs on is not its own.
fn understand(signs: &Signs) -> (&'static str, &'static str) {
    match container(signs) {
        Some(subtype) => ("container", subtype),
        None => (machine(signs), ""),
    }
}

fn container(signs: &Signs) -> Option<&'static str> {
    let named = |name: &str| signs.systemd_container == name;
    let grouped = |name: &str| signs.first_cgroup.contains(name);
    if signs.podman || named("podman") {
        return Some("Podman");
    }
    if grouped("kubepods") {
        return Some("Kubernetes");
    }
    if signs.docker || named("docker") || grouped("/docker") {
        return Some("Docker");
    }
    if named("lxc") || named("lxc-libvirt") || grouped("/lxc") {
        return Some("LXC");
    }
    if named("systemd-nspawn") {
        return Some("nspawn");
    }
    (!signs.systemd_container.is_empty()).then_some("other")
}

fn machine(signs: &Signs) -> &'static str {
    // Bare metal of a cloud has the vendor of its virtual machines.
    if signs.product.ends_with(".metal") {
        return "physical";
    }
    let says = |text: &str| {
        [&signs.vendor, &signs.product, &signs.bios].into_iter().any(|field| field.contains(text))
    };
    match () {
        () if signs.hypervisor == "xen" || says("Xen") => "xen",
        () if says("VMware") => "VMware",
        () if says("VirtualBox") || says("innotek") => "VirtualBox",
        () if says("Virtual Machine") && says("Microsoft") => "HyperV",
        () if says("Parallels") => "Parallels",
        () if [
            "QEMU",
            "KVM",
            "OpenStack",
            "oVirt",
            "RHEV",
            "Amazon EC2",
            "Google",
            "DigitalOcean",
            "Hetzner",
        ]
        .into_iter()
        .any(says) =>
        {
            "kvm"
        }
        () if says("Bochs") || says("BHYVE") => "kvm",
        // Something is there that does not say its name.
        () if signs.flagged => "vm",
        () => "physical",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    fn dmi(vendor: &str, product: &str, bios: &str) -> Signs {
        Signs { vendor: vendor.into(), product: product.into(), bios: bios.into(), ..Signs::default() }
    }

    #[test]
    #[rule("D-7")]
    fn d7_hypervisors_are_known_by_what_the_firmware_says() {
        for (vendor, product, bios, expected) in [
            ("QEMU", "Standard PC (Q35 + ICH9, 2009)", "SeaBIOS", "kvm"),
            ("VMware, Inc.", "VMware Virtual Platform", "Phoenix Technologies LTD", "VMware"),
            ("innotek GmbH", "VirtualBox", "innotek GmbH", "VirtualBox"),
            ("Microsoft Corporation", "Virtual Machine", "American Megatrends Inc.", "HyperV"),
            ("Microsoft Corporation", "Surface Laptop", "Microsoft Corporation", "physical"),
            ("Xen", "HVM domU", "Xen", "xen"),
            ("Amazon EC2", "m5.large", "Amazon EC2", "kvm"),
            ("Amazon EC2", "m5.metal", "Amazon EC2", "physical"),
            ("Google", "Google Compute Engine", "Google", "kvm"),
            ("Dell Inc.", "PowerEdge R640", "Dell Inc.", "physical"),
            ("", "", "", "physical"),
        ] {
            assert_eq!(understand(&dmi(vendor, product, bios)), (expected, ""), "{vendor} {product}");
        }
        assert_eq!(understand(&Signs { flagged: true, ..Signs::default() }), ("vm", ""));
    }

    #[test]
    #[rule("D-7")]
    fn d7_a_container_hides_the_machine_below() {
        let on_vmware = || dmi("VMware, Inc.", "VMware7,1", "VMware, Inc.");
        let rows = [
            (Signs { docker: true, ..on_vmware() }, "Docker"),
            (Signs { podman: true, ..on_vmware() }, "Podman"),
            (Signs { systemd_container: "lxc".into(), ..on_vmware() }, "LXC"),
            (
                Signs {
                    first_cgroup: "12:cpu:/kubepods/besteffort/pod1".into(),
                    docker: true,
                    ..on_vmware()
                },
                "Kubernetes",
            ),
        ];
        for (signs, subtype) in rows {
            assert_eq!(understand(&signs), ("container", subtype));
        }
    }
}
