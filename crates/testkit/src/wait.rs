//! Waiting for a condition, never for a time.

use std::future::Future;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(5);

/// Asks until the answer is a value; ends the test when the deadline passes.
pub fn wait_for<T>(what: &str, deadline: Duration, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        if start.elapsed() > deadline {
            panic!("waited {deadline:?} for this to happen: {what}");
        }
        std::thread::sleep(PAUSE);
    }
}

/// The same in a task. Follows tokio's clock, so a paused clock makes it instant.
pub async fn wait_until<T, F>(what: &str, deadline: Duration, mut condition: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let start = tokio::time::Instant::now();
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        if start.elapsed() > deadline {
            panic!("waited {deadline:?} for this to happen: {what}");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_comes_true_ends_the_wait() {
        let mut asked = 0;
        let answer = wait_for("three questions", Duration::from_secs(10), || {
            asked += 1;
            (asked == 3).then_some("yes")
        });
        assert_eq!(answer, "yes");
    }

    #[test]
    #[should_panic(expected = "a thing that never happens")]
    fn a_passed_deadline_ends_the_test_and_says_what_was_awaited() {
        wait_for("a thing that never happens", Duration::ZERO, || None::<()>);
    }
}
