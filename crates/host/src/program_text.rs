//! The code of this process, as far as it is in memory.

#![allow(unsafe_code, reason = "`madvise` has no safe form")]

use std::ops::Range;

/// Lets go of all code that is mapped. A daemon that waits needs little of what its start needed; what it does need comes
/// back from the file, which the kernel keeps in memory anyway, a few pages at a time.
#[cfg(target_os = "linux")]
pub fn let_go() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for code in code_in(&maps) {
        let start = std::ptr::without_provenance_mut(code.start);
        // SAFETY: these pages come from a file, are private and are never written: they read the same when they come back.
        unsafe { libc::madvise(start, code.len(), libc::MADV_DONTNEED) };
    }
}

#[cfg(not(target_os = "linux"))]
pub fn let_go() {}

/// What `/proc/self/maps` shows as code of a file: `start-end r-xp offset device inode path`.
fn code_in(maps: &str) -> Vec<Range<usize>> {
    let code = |line: &str| {
        let mut words = line.split_whitespace();
        let (range, mode, path) = (words.next()?, words.next()?, words.nth(3)?);
        let (start, end) = range.split_once('-')?;
        let address = |text: &str| usize::from_str_radix(text, 16).ok();
        let range = address(start)?..address(end)?;
        (mode == "r-xp" && path.starts_with('/')).then_some(range)
    };
    maps.lines().filter_map(code).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_that_comes_from_a_file_is_let_go() {
        let maps = "\
55d0c8a00000-55d0c8b00000 r--p 00000000 fe:00 1234   /usr/bin/zester
55d0c8b00000-55d0c8c00000 r-xp 00100000 fe:00 1234   /usr/bin/zester (deleted)
55d0c8c00000-55d0c8d00000 r--p 00200000 fe:00 1234   /usr/bin/zester
55d0c8d00000-55d0c8d10000 rw-p 00300000 fe:00 1234   /usr/bin/zester
55d0c9000000-55d0c9021000 rw-p 00000000 00:00 0      [heap]
7ffc0e5f4000-7ffc0e5f6000 r-xp 00000000 00:00 0      [vdso]
7f0000000000-7f0000001000 r-xp 00000000 00:00 0
7f0000002000-7f0000003000 rwxp 00000000 fe:00 99     /tmp/odd
";
        let code: Vec<(usize, usize)> =
            code_in(maps).into_iter().map(|code| (code.start, code.end)).collect();
        assert_eq!(code, [(0x55d0_c8b0_0000, 0x55d0_c8c0_0000)]);
        assert!(code_in("nonsense\n").is_empty());
    }

    #[test]
    fn a_process_goes_on_without_its_code_in_memory() {
        let resident = || {
            let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
            statm.split(' ').nth(2).unwrap().parse::<usize>().unwrap()
        };
        let before = resident();
        let_go();
        let after = resident();
        assert!(after < before, "{before} pages of files before, {after} after");
    }
}
