//! How the heap of this process grows.

#![allow(unsafe_code, reason = "`mallopt`, `malloc_trim` and `madvise` have no safe form")]

use std::hint::black_box;

/// By how much the heap grows when it is used up.
const STEP: i32 = 1 << 20;
/// What is larger than this gets pages of its own, and gives them back at once.
const LARGE: i32 = 16 << 20;

/// A large page of the common machines. Where they are larger, the kernel finds no whole one and gives small ones.
const LARGE_PAGE: usize = 2 << 20;
/// What a run of about a thousand states needs.
const AHEAD: usize = 4 * LARGE_PAGE;
/// What the C library keeps in front of each block, at most.
const HEADER: usize = 16;
/// Larger than what the start of a process has freed, so that it comes from where the heap grows.
const PROBE: usize = 64 << 10;

/// One heap for all threads, which grows in large steps. The C library gives every thread one of its own that grows page by
/// page: good for a daemon that serves many on many cores, but a run of some milliseconds spends a good part of them on
/// asking the kernel for pages that another thread has just freed. To be called before the first thread starts.
#[cfg(target_env = "gnu")]
pub fn share_among_threads() {
    let settings = [
        (libc::M_ARENA_MAX, 1),
        (libc::M_TOP_PAD, STEP),
        (libc::M_MMAP_THRESHOLD, LARGE),
        (libc::M_TRIM_THRESHOLD, LARGE),
    ];
    for (setting, value) in settings {
        // SAFETY: it sets a number of the allocator, under the allocator's own lock. What it refuses stays as it was.
        unsafe { libc::mallopt(setting, value) };
    }
}

#[cfg(not(target_env = "gnu"))]
pub fn share_among_threads() {}

/// Has the kernel back the heap of a run with large pages, where it has some. The memory comes when it is first written to, as
/// always, but at a few faults instead of a thousand and more, which were a good part of a run that finds nothing to do.
/// To be called before the first thread starts, for a process that lives for one run: what is large is given back late.
#[cfg(all(target_env = "gnu", target_os = "linux"))]
pub fn use_large_pages() {
    // SAFETY: the blocks are ours between `malloc` and `free` and hold nothing; the advice says nothing of contents.
    unsafe {
        // The compiler takes away a block that nobody looks at.
        let probe = black_box(libc::malloc(PROBE));
        if probe.is_null() {
            return;
        }
        let before = probe.align_offset(LARGE_PAGE);
        libc::free(probe);
        // Kept, and never written to: with it what comes next begins at a large page. It costs addresses, no memory.
        black_box(libc::malloc(before.saturating_sub(2 * HEADER)));
        // The header of what follows is written at once: in a large page it would make that one small.
        let block = black_box(libc::malloc(AHEAD + 4 * HEADER));
        if !block.is_null() {
            let inside = block.align_offset(LARGE_PAGE);
            if inside <= 2 * HEADER {
                // A kernel that does not know it, or has none to give, gives small ones.
                libc::madvise(block.add(inside), AHEAD, libc::MADV_HUGEPAGE);
            }
            libc::free(block);
        }
    }
}

#[cfg(not(all(target_env = "gnu", target_os = "linux")))]
pub fn use_large_pages() {}

/// Gives back to the kernel what is free now: for a daemon after work that needed much and is done seldom.
#[cfg(target_env = "gnu")]
pub fn give_back() {
    // SAFETY: it only looks at what the allocator itself has free, under its own locks.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
pub fn give_back() {}
