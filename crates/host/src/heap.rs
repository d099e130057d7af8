//! How the heap of this process grows.

#![allow(unsafe_code, reason = "`mallopt`, `malloc_trim` and `madvise` have no safe form")]

/// By how much the heap grows when it is used up.
const STEP: i32 = 1 << 20;
/// What is larger than this gets pages of its own, and gives them back at once.
const LARGE: i32 = 8 << 20;

/// What a run of about a thousand states needs.
const AHEAD: usize = 3 << 20;
/// The smallest page there is; larger ones are filled whole.
const PAGE: usize = 4096;

/// One heap for all threads, which grows in large steps. The C library gives every thread one of its own that grows page by
/// page: good for a daemon that lives long on many cores, but a command that runs for some milliseconds spends a good part
/// of them on asking the kernel for pages that another thread has just freed. To be called before the first thread starts.
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

/// Has the kernel back so much of the heap with memory at once, instead of page by page when each is first written to: a
/// page fault costs several times what the page does. For another thread while the first has something else to do.
#[cfg(all(target_env = "gnu", target_os = "linux"))]
pub fn fill_ahead() {
    // SAFETY: the pages lie inside a block that is ours between `malloc` and `free`, and holds nothing yet.
    unsafe {
        let block = libc::malloc(AHEAD);
        if !block.is_null() {
            let inside = block.align_offset(PAGE);
            // A kernel that does not know it does nothing.
            libc::madvise(block.add(inside), AHEAD - PAGE, libc::MADV_POPULATE_WRITE);
            libc::free(block);
        }
    }
}

#[cfg(not(all(target_env = "gnu", target_os = "linux")))]
pub fn fill_ahead() {}

/// Gives back to the kernel what is free now: for a daemon after work that needed much and is done seldom.
#[cfg(target_env = "gnu")]
pub fn give_back() {
    // SAFETY: it only looks at what the allocator itself has free, under its own locks.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
pub fn give_back() {}
