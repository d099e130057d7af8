//! Telling a watch what changes.

use super::client::entry_of;
use super::faults::WatchFate;
use super::net::Net;
use crate::error::{Error, Kind};
use crate::limits::WATCH_LOOK;
use crate::message::{Entry, Seen, Sequence};
use crate::pattern::stream_of;
use std::time::Duration;
use tokio::sync::mpsc;

pub(super) struct Follower {
    pub net: Net,
    pub client: u64,
    pub bucket: String,
    pub filter: String,
    pub after: Sequence,
    /// Of which making of the store it tells.
    pub making: u64,
}

/// What the store has for a watch.
enum News {
    Entries(Vec<Entry>),
    /// It is another store than the one that is watched.
    OtherStore,
}

impl Follower {
    /// Ends when nobody listens any more, and with an error when the faults say so.
    pub async fn follow(mut self, sender: mpsc::Sender<Result<Seen, Error>>) {
        let mut changes = self.net.changes();
        let mut current = false;
        loop {
            changes.mark_unchanged();
            let news = match self.news() {
                Some(News::Entries(news)) if current && !news.is_empty() => match self.fate() {
                    WatchFate::OnTime => Some(News::Entries(news)),
                    // Of what is written meanwhile only the last is told.
                    WatchFate::Late(delay) => {
                        self.pause(delay).await;
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
            if let Some(News::OtherStore) = news {
                // Deaf until the next look.
                self.pause(WATCH_LOOK).await;
                let error = Error::new(Kind::Missing, format!("{} was made again", self.bucket));
                let _unheard = sender.send(Err(error)).await;
                return;
            }
            if let Some(News::Entries(entries)) = news {
                for entry in entries {
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

    async fn pause(&self, pause: Duration) {
        self.net.timer.sleep_until(self.net.timer.now() + pause).await;
    }

    fn fate(&self) -> WatchFate {
        self.net.lock().fate_of_watch(self.client, &self.bucket)
    }

    /// None without a connection.
    fn news(&self) -> Option<News> {
        let now = self.net.timer.now();
        let mut state = self.net.lock();
        if !state.is_reached(self.client) {
            return None;
        }
        let store = state.store(&stream_of(&self.bucket), Kind::Unavailable, now).ok()?;
        if store.making != self.making {
            return Some(News::OtherStore);
        }
        let records = store.since(&self.filter, self.after);
        let entries = records.into_iter().filter_map(|record| entry_of(&self.bucket, record));
        Some(News::Entries(entries.collect()))
    }
}
