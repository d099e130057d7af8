//! What processes take of the processor while nothing happens.

use crate::up::child::Child;
use std::time::Duration;

/// The kernel counts in ticks of this length, whatever the machine.
const TICKS_PER_SECOND: f64 = 100.0;

/// The time that all of them had of the processor so far; those that are gone had none.
pub fn used<'a>(children: impl IntoIterator<Item = &'a Child>) -> Duration {
    children.into_iter().map(|child| of_process(child.id())).sum()
}

fn of_process(id: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    Duration::from_secs_f64(ticks_of_stat(&stat).unwrap_or_default() as f64 / TICKS_PER_SECOND)
}

/// User and system time: the 14th and 15th field. The name before them may hold anything, so it is counted from its end.
fn ticks_of_stat(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_may_hold_anything() {
        let stat = "42 (a b) c) S 1 2 3 4 5 6 7 8 9 10 310 27 0 0 20 0";
        assert_eq!(ticks_of_stat(stat), Some(337));
        assert_eq!(ticks_of_stat(""), None);
        assert_eq!(ticks_of_stat("42 (x) S 1"), None);
    }
}
