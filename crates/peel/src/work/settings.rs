//! Renders published settings as soon as they are here (D-6): what is wrong with them shows in `/readyz` before a run needs
//! them, and the last good ones are kept before their files can be lost.

use super::Local;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use zester_converge::document;
use zester_converge::functions::{self, Arguments};
use zester_health::{Health, State};

/// How often it is looked whether there are new ones; that costs a lock.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Their name in `/readyz`.
const NAME: &str = "rendered_settings";
/// Any question about settings renders them and keeps them.
const QUESTION: &str = "settings.keys";

impl Local {
    /// Ends only with its task.
    pub async fn follow_settings(self, health: Arc<Health>) {
        let mut seen = None;
        loop {
            let found = self.published_settings();
            if found.is_some() && found != seen {
                let state = self.render_settings().await;
                if let State::Degraded(why) = &state {
                    tracing::warn!("no states run with these settings: {why}");
                }
                health.set(NAME, state);
                seen = found;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Whether the settings that are here now are good; then they are kept for an offline start.
    pub async fn render_settings(&self) -> State {
        let Some(function) = functions::find(QUESTION) else { return State::Up };
        match self.function(function, Arguments::default(), &CancellationToken::new()).await {
            Ok(_) => State::Up,
            Err(error) => State::Degraded(document::error_sentence(&error)),
        }
    }
}
