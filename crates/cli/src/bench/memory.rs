//! The memory that processes have now.

use crate::up::child::Child;

/// Resident bytes of all of them; those that are gone have none.
pub fn resident<'a>(children: impl IntoIterator<Item = &'a Child>) -> u64 {
    children.into_iter().map(|child| of_process(child.id())).sum()
}

fn of_process(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    resident_of_status(&status).unwrap_or_default()
}

fn resident_of_status(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_it_in_kilobytes() {
        assert_eq!(resident_of_status("Name:\tx\nVmHWM:\t 9 kB\nVmRSS:\t    1234 kB\n"), Some(1234 * 1024));
        assert_eq!(resident_of_status("Name:\tx\n"), None);
    }

    #[test]
    fn this_very_process_has_some() {
        assert!(of_process(std::process::id()) > 0);
    }
}
