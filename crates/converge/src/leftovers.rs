//! What a run that was killed left running.
//!
//! A run that ends by SIGKILL cannot end its commands. The lock is free then, and whoever takes it next would work beside
//! them (S-42, S-46).

use std::time::Duration;
use tokio::time::Instant;
use zester_host::process::kill_leftovers;

/// The lock of a process that is killed is free a moment before the process is gone.
const GONE_WITHIN: Duration = Duration::from_secs(2);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Ends the commands of a life that is over and waits until they are gone; returns the processes that could not be ended.
/// A process that lives on ends its commands itself: only its note was left.
pub async fn end(life: &str, own: &str) -> Vec<u32> {
    if life.is_empty() || life == own {
        return Vec::new();
    }
    let until = Instant::now() + GONE_WITHIN;
    while is_lived(life) {
        if Instant::now() >= until {
            return Vec::new();
        }
        tokio::time::sleep(PAUSE).await;
    }
    kill_leftovers(life).await
}

/// Whether the process of a life, `<pid>-<born>`, still runs: another one with its pid began later.
fn is_lived(life: &str) -> bool {
    let Some((pid, born)) = life.split_once('-') else { return false };
    let (Ok(pid), Ok(born)) = (pid.parse::<u32>(), born.parse::<u64>()) else { return false };
    let Ok(stat) = std::fs::read(format!("/proc/{pid}/stat")) else { return false };
    began(&stat).is_some_and(|start| start <= born)
}

/// When a process began, in clock ticks since the boot; `None` for one that has ended and was not collected yet. `stat` is
/// `pid (comm) state …`, and the name may hold anything.
fn began(stat: &[u8]) -> Option<u64> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let mut rest = std::str::from_utf8(stat.get(end + 2..)?).ok()?.split(' ');
    let state = rest.next()?;
    (!matches!(state, "Z" | "X")).then(|| rest.nth(18)?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_over_once_its_process_has_ended_or_is_another() {
        let own = zester_host::process::Runner::new().life();
        assert!(is_lived(&own));
        let pid = std::process::id();
        assert!(!is_lived(&format!("{pid}-1")), "that one began before us");
        for gone in ["", "x", "1-x", "4294967295-1"] {
            assert!(!is_lived(gone), "{gone}");
        }
        let stat =
            |state: &str| format!("7 (a) b) {state} 1 7 6 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1");
        assert_eq!(began(stat("S").as_bytes()), Some(4242));
        assert_eq!(began(stat("Z").as_bytes()), None);
    }
}
