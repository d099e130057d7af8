//! How the heap of this process grows.

#![allow(unsafe_code, reason = "`mallopt` and `malloc_trim` have no safe form")]

/// By how much the heap grows when it is used up.
const STEP: i32 = 1 << 20;
/// What is larger than this gets pages of its own, and gives them back at once.
const LARGE: i32 = 8 << 20;

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

/// Gives back to the kernel what is free now: for a daemon after work that needed much and is done seldom.
#[cfg(target_env = "gnu")]
pub fn give_back() {
    // SAFETY: it only looks at what the allocator itself has free, under its own locks.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
pub fn give_back() {}
