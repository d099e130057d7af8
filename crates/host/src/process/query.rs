//! The questions that a check may put to a program.
//!
//! A dry run must not be able to start just anything, so it is given this door and not the one of
//! [`Processes`]. Each question names the one program that answers it, and how it is called so that it can
//! only answer.

use super::{Exit, Launch, Processes};
use crate::fault::{Fault, FaultKind};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A question is answered from local files; longer means that something is stuck.
const TIMEOUT: Duration = Duration::from_secs(120);

/// What is asked.
#[derive(Copy, Clone, Debug)]
pub enum Question<'a> {
    /// `dpkg-query -W`: which of these packages are known, one line each in this format.
    Packages { format: &'a str, names: &'a [String] },
    /// `apt-get --simulate`: what it would do if it were called with these words.
    Plan { words: &'a [String] },
}

impl Question<'_> {
    fn words(self) -> Vec<String> {
        let (fixed, words): (Vec<String>, &[String]) = match self {
            Question::Packages { format, names } => {
                (vec!["dpkg-query".into(), "-W".into(), format!("-f={format}")], names)
            }
            Question::Plan { words } => (vec!["apt-get".into(), "--simulate".into()], words),
        };
        fixed.into_iter().chain(words.iter().cloned()).collect()
    }
}

/// The door of a check to other programs.
#[derive(Copy, Clone)]
pub struct Query<'a>(&'a dyn Processes);

impl<'a> Query<'a> {
    pub fn through(processes: &'a dyn Processes) -> Query<'a> {
        Query(processes)
    }

    /// Whatever the answer is; that none came (cancelled, stuck, no such program) is a fault.
    pub async fn ask(self, question: Question<'_>, cancel: &CancellationToken) -> Result<Exit, Fault> {
        let mut launch = Launch::argv(question.words());
        launch.environment = vec![("LC_ALL".into(), "C".into())];
        launch.timeout = Some(TIMEOUT);
        let exit = self.0.run(&launch, None, cancel).await?;
        if exit.canceled {
            return Err(Fault::canceled());
        }
        if exit.timed_out {
            let words = question.words();
            let program = words.first().map_or("", String::as_str);
            return Err(Fault::new(FaultKind::TimedOut, format!("{program} gave no answer in {TIMEOUT:?}")));
        }
        Ok(exit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::fake::{Scripted, exit};

    #[tokio::test]
    async fn a_question_can_only_ask() {
        let processes = Scripted::new().with(|_| Some(Ok(exit(0, "", ""))));
        let cancel = CancellationToken::new();
        let words = ["-y".to_string(), "install".to_string(), "x".to_string()];
        let query = Query::through(&processes);
        query.ask(Question::Plan { words: &words }, &cancel).await.unwrap();
        query.ask(Question::Packages { format: "f", names: &words[2..] }, &cancel).await.unwrap();
        assert_eq!(processes.ran(), ["apt-get --simulate -y install x", "dpkg-query -W -f=f x"]);
    }
}
