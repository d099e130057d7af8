//! Messages for gpg in settings are opened by the system's own gpg, with the key ring of whoever runs (S-54).

use crate::local_host::LocalHost;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;
use zester_host::{FaultKind, Launch};

/// How long gpg may take for one message: its agent may ask a smartcard.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Longest text that a message may hold.
const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// Opens one message, or says in a sentence why not. Blocks.
pub fn open(
    message: &str,
    local_host: &LocalHost,
    cancel: &CancellationToken,
) -> Result<Zeroizing<String>, String> {
    // `--batch` and `--no-tty`: nobody is there who could be asked for a passphrase.
    let launch = Launch {
        stdin: Some(message.as_bytes().to_vec()),
        timeout: Some(TIMEOUT),
        output_kept: TEXT_BYTES_MAX,
        ..Launch::argv(["gpg", "--batch", "--no-tty", "--quiet", "--decrypt"])
    };
    let exit = local_host.handle.block_on(local_host.processes.run(&launch, None, cancel));
    let exit = exit.map_err(|fault| match fault.kind {
        FaultKind::NotFound => "there is no gpg on this machine".to_string(),
        _ => fault.message,
    })?;
    let text = Zeroizing::new(exit.stdout.text);
    if exit.canceled {
        return Err("canceled".into());
    }
    if exit.timed_out {
        return Err(format!("it did not answer in {} s", TIMEOUT.as_secs()));
    }
    if exit.code != Some(0) {
        let told = exit.stderr.text.lines().map(str::trim).rfind(|line| !line.is_empty());
        return Err(told.unwrap_or("it said nothing").trim_start_matches("gpg: ").to_string());
    }
    if exit.stdout.truncated {
        return Err(format!("the text has more than {} KiB", TEXT_BYTES_MAX / 1024));
    }
    if exit.stdout.lossy {
        return Err("the text is not UTF-8".into());
    }
    Ok(text)
}

/// For those who only look, and open nothing.
pub fn nobody(_: &str) -> Result<Zeroizing<String>, String> {
    Err("nothing is opened here".into())
}
