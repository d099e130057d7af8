//! Who came and who went, beside the inbox of a job. It stands in no stream, so what finds the inbox full is kept here until the
//! job has read its inbox: of each peel the newest, and whether this master hears anybody. No more than the job has targets.

use super::running_jobs::JobMessage;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, mpsc};
use zester_wire::PeelId;

#[derive(Default)]
struct Left {
    of_peels: BTreeMap<PeelId, Sign>,
    hearing: Option<bool>,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    Connected,
    Gone { stopped: bool },
}

impl Sign {
    fn of(self, peel: PeelId) -> JobMessage {
        match self {
            Sign::Connected => JobMessage::Connected(peel),
            Sign::Gone { stopped } => JobMessage::Gone { peel, stopped },
        }
    }
}

/// Signs that the inbox had no room for.
#[derive(Clone, Default)]
pub struct Signs {
    left: Arc<Mutex<Left>>,
    some: Arc<Notify>,
}

impl Signs {
    pub fn leave(&self, inbox: &mpsc::Sender<JobMessage>, peel: &PeelId, sign: Sign) {
        let mut left = self.left();
        // One that waits here is older than whatever comes now, and must not be read after it.
        if left.of_peels.contains_key(peel) || inbox.try_send(sign.of(peel.clone())).is_err() {
            left.of_peels.insert(peel.clone(), sign);
            self.some.notify_one();
        }
    }

    pub fn leave_hearing(&self, inbox: &mpsc::Sender<JobMessage>, hears: bool) {
        let mut left = self.left();
        if left.hearing.is_some() || inbox.try_send(JobMessage::Hearing(hears)).is_err() {
            left.hearing = Some(hears);
            self.some.notify_one();
        }
    }

    /// Waits until there are some. Only for whoever read its inbox before: what is there is older.
    pub async fn take(&self) -> Vec<JobMessage> {
        loop {
            let taken = std::mem::take(&mut *self.left());
            let mut messages: Vec<JobMessage> =
                taken.of_peels.into_iter().map(|(peel, sign)| sign.of(peel)).collect();
            messages.extend(taken.hearing.map(JobMessage::Hearing));
            if !messages.is_empty() {
                return messages;
            }
            self.some.notified().await;
        }
    }

    fn left(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
