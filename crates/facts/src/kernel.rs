//! The kernel and the architecture.

use crate::Facts;

pub fn collect(facts: &mut Facts) {
    let uname = rustix::system::uname();
    let fields = [
        ("kernel", uname.sysname()),
        ("kernelrelease", uname.release()),
        ("kernelversion", uname.version()),
        ("cpuarch", uname.machine()),
    ];
    for (name, value) in fields {
        facts.insert(name.into(), value.to_string_lossy().into());
    }
}
