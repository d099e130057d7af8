//! Telling a watch what changes.

use super::client::entry_of;
use super::faults::WatchFate;
use super::net::Net;
use crate::error::{Error, Kind};
use crate::message::{Entry, Seen, Sequence};
use crate::pattern::stream_of;
use tokio::sync::mpsc;

pub(super) struct Follower {
    pub net: Net,
    pub client: u64,
    pub bucket: String,
    pub filter: String,
    pub after: Sequence,
}

impl Follower {
    /// Ends when nobody listens any more, and with an error when the faults say so.
    pub async fn follow(mut self, sender: mpsc::Sender<Result<Seen, Error>>) {
        let mut changes = self.net.changes();
        let mut current = false;
        loop {
            changes.mark_unchanged();
            let news = match self.news() {
                Some(news) if current && !news.is_empty() => match self.fate() {
                    WatchFate::OnTime => Some(news),
                    // Of what is written meanwhile only the last is told.
                    WatchFate::Late(delay) => {
                        self.net.timer.sleep_until(self.net.timer.now() + delay).await;
                        self.news()
                    }
                    WatchFate::Ends => {
                        let error = Error::new(Kind::Other, format!("the watch of {} ended", self.bucket));
                        let _unheard = sender.send(Err(error)).await;
                        return;
                    }
                },
                news => news,
            };
            if let Some(news) = news {
                for entry in news {
                    self.after = entry.revision;
                    if sender.send(Ok(Seen::Entry(entry))).await.is_err() {
                        return;
                    }
                }
                if !current && sender.send(Ok(Seen::Current)).await.is_err() {
                    return;
                }
                current = true;
            }
            changes.changed().await;
        }
    }

    fn fate(&self) -> WatchFate {
        self.net.lock().fate_of_watch(self.client, &self.bucket)
    }

    /// None without a connection.
    fn news(&self) -> Option<Vec<Entry>> {
        let now = self.net.timer.now();
        let mut state = self.net.lock();
        if !state.is_reached(self.client) {
            return None;
        }
        let store = state.store(&stream_of(&self.bucket), Kind::Unavailable, now).ok()?;
        let records = store.since(&self.filter, self.after);
        Some(records.into_iter().filter_map(|record| entry_of(&self.bucket, record)).collect())
    }
}
