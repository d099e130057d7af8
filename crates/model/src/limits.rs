//! Every bound of the product, by name. A number that limits something stands here and nowhere else.

use std::time::Duration;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Largest state file, template or settings file that is read.
pub const SOURCE_BYTES_MAX: usize = 16 * MIB;
/// Largest output of one rendered template.
pub const RENDER_OUTPUT_BYTES_MAX: usize = 64 * MIB;
/// Largest single value (string, list, map) that a template may build.
pub const RENDER_VALUE_BYTES_MAX: usize = 16 * MIB;
/// Instructions one render may execute (minijinja's fuel).
pub const RENDER_STEPS_MAX: u64 = 50_000_000;
/// Wall time one render may take, commands called from it excepted.
pub const RENDER_TIME_MAX: Duration = Duration::from_secs(10);
/// How deep templates may include, import and recurse.
pub const RENDER_DEPTH_MAX: usize = 64;
/// Nesting depth of a YAML document.
pub const YAML_DEPTH_MAX: usize = 128;
/// Nodes of one YAML document, aliases counted as often as they are used.
pub const YAML_NODES_MAX: usize = 8_000_000;
/// Files one compile may load.
pub const FILES_MAX: usize = 10_000;
/// States of one compiled program.
pub const STATES_MAX: usize = 1_000_000;
/// Problems reported by one compile; the rest is counted.
pub const DIAGNOSTICS_MAX: usize = 100;

/// States that run at once inside a level when nothing else is said.
pub const CONCURRENCY_DEFAULT: usize = 4096;
/// Threads that carry out short file work.
pub const WORKER_THREADS_MAX: usize = 8;
/// States that wait for a disk at once, each on a thread. They share their syncs, so more of them are fewer syncs.
pub const DISK_WAITERS_MAX: usize = 64;
/// Most tries a `retry` may ask for.
pub const RETRY_ATTEMPTS_MAX: u32 = 1000;
/// More tries when `retry` says only that it is wanted: what Salt calls its default.
pub const RETRY_ATTEMPTS_DEFAULT: u32 = 2;
/// Pause between tries when `retry` names none.
pub const RETRY_INTERVAL_DEFAULT: Duration = Duration::from_secs(10);

/// Output kept of one command's stdout and of its stderr: half from the head, half from the tail.
pub const OUTPUT_BYTES_KEPT: usize = 64 * KIB;
/// How long a process group may take to end after SIGTERM before SIGKILL.
pub const KILL_GRACE: Duration = Duration::from_secs(5);
/// How long output is still drained after the direct child has exited.
pub const OUTPUT_DRAIN: Duration = Duration::from_millis(100);
/// Lines of stderr repeated in an error message.
pub const STDERR_TAIL_LINES: usize = 10;
/// How long a guard (`onlyif`, `unless`) may run when the state has no `timeout`.
pub const GUARD_TIMEOUT: Duration = Duration::from_secs(300);
/// How long a command called from a template may run.
pub const TEMPLATE_COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// Largest file whose content `file.managed` handles.
pub const FILE_BYTES_MAX: u64 = 512 * MIB as u64;
/// How long one download may take in all.
pub const DOWNLOAD_TIME_MAX: Duration = Duration::from_secs(1800);
/// How long a server may take to accept a connection, and to send the next bytes.
pub const DOWNLOAD_STALL_MAX: Duration = Duration::from_secs(30);
/// Redirects that one download follows.
pub const DOWNLOAD_REDIRECTS_MAX: u32 = 10;
/// Largest file of checksums that is read.
pub const CHECKSUMS_BYTES_MAX: u64 = 16 * MIB as u64;
/// What an archive may unpack to: entries, bytes in all, and bytes for each byte that it has itself.
pub const ARCHIVE_ENTRIES_MAX: usize = 50_000;
pub const ARCHIVE_BYTES_MAX: u64 = 512 * MIB as u64;
pub const ARCHIVE_RATIO_MAX: u64 = 1_000;
/// Largest file that is shown as a text diff.
pub const DIFF_BYTES_MAX: usize = MIB;
/// Lines of one diff that are kept.
pub const DIFF_LINES_MAX: usize = 2_000;
/// What the kernel lets a link point at: a path without its end.
pub const LINK_TARGET_BYTES_MAX: usize = 4095;
/// Longest single argument of a program, by the kernel (MAX_ARG_STRLEN), its end not counted.
pub const ARGUMENT_BYTES_MAX: usize = 128 * KIB - 1;

/// Bytes of before-images and logs the journal keeps; the oldest runs give way once only what can be undone is left.
pub const JOURNAL_BYTES_MAX: u64 = 1024 * MIB as u64;
/// Runs the journal remembers.
pub const JOURNAL_RUNS_MAX: usize = 1_000;
/// Largest single journal record.
pub const JOURNAL_RECORD_BYTES_MAX: usize = 16 * MIB;
/// What the undo value of a state may take of its record; the rest is for the names of other states.
pub const UNDO_BYTES_MAX: usize = JOURNAL_RECORD_BYTES_MAX - MIB;
