//! Whoever waits to hear that a job was accepted.

use crate::core::Core;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;
use zester_wire::limits::NAMES_ANSWERED_BYTES_MAX;
use zester_wire::{AdminReply, DispatchReply, DispatchRequest, Jid, PeelId, Refusal, RefusalKind};
use zester_wire::{UnixMillis, VERSION};

/// What the client wants to hear: its words differ by what it asked.
#[derive(Clone, Debug)]
enum Form {
    Dispatch,
    /// A retry, told in this sentence.
    Admin(String),
    /// A rule of this master's reactor, which waits here.
    Reaction(Waiting),
}

/// Where a reaction waits. Taken by whoever answers first.
type Waiting = Arc<Mutex<Option<oneshot::Sender<Begun>>>>;

/// What became of the job that a reaction asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Begun {
    /// It runs, because it was asked for now.
    Now,
    /// It ran already.
    Before,
    Refused(Refusal),
}

/// A client, and what it asked for.
#[derive(Clone, Debug)]
pub struct Requester {
    pub request: DispatchRequest,
    /// Until when it waits, on our clock; zero if it did not say (J-28).
    pub claim_until: UnixMillis,
    reply: Option<String>,
    form: Form,
}

impl Requester {
    /// Who asked at `received`.
    pub fn dispatch(request: DispatchRequest, reply: Option<String>, received: UnixMillis) -> Requester {
        Requester::new(request, reply, received, Form::Dispatch)
    }

    pub fn retry(
        request: DispatchRequest,
        reply: Option<String>,
        received: UnixMillis,
        sentence: String,
    ) -> Requester {
        Requester::new(request, reply, received, Form::Admin(sentence))
    }

    /// A reaction. Its answer comes by the other end, which closes where nobody will ever answer.
    pub fn reaction(request: DispatchRequest) -> (Requester, oneshot::Receiver<Begun>) {
        let (sender, answer) = oneshot::channel();
        let form = Form::Reaction(Arc::new(Mutex::new(Some(sender))));
        (Requester { request, claim_until: UnixMillis(0), reply: None, form }, answer)
    }

    fn new(request: DispatchRequest, reply: Option<String>, received: UnixMillis, form: Form) -> Requester {
        let claim_until = request.wait.map_or(UnixMillis(0), |wait| received.plus(wait));
        Requester { request, claim_until, reply, form }
    }

    pub async fn accept(self, core: &Core, jid: &Jid, targets: &[PeelId]) {
        let jid = Some(jid.clone());
        match self.form {
            Form::Dispatch => {
                let offline = core.index.offline(targets);
                let reply =
                    DispatchReply { v: VERSION, jid, targets: answered(targets), error: None, offline };
                core.answer(self.reply.as_deref(), &reply).await;
            }
            Form::Admin(message) => {
                let reply = AdminReply { jid, ..AdminReply::done(message) };
                core.answer(self.reply.as_deref(), &reply).await;
            }
            Form::Reaction(waiting) => answer(&waiting, Begun::Now),
        }
    }

    /// The job was there before this was asked. Clients need not know; a reaction must, because it did nothing now.
    pub async fn accept_known(self, core: &Core, jid: &Jid, targets: &[PeelId]) {
        match &self.form {
            Form::Reaction(waiting) => answer(waiting, Begun::Before),
            Form::Dispatch | Form::Admin(_) => self.accept(core, jid, targets).await,
        }
    }

    /// A refusal that its client takes for the last word is the answer to copies of the request, too (J-28).
    pub async fn refuse(self, core: &Core, refusal: Refusal) {
        if let Form::Reaction(waiting) = &self.form {
            return answer(waiting, Begun::Refused(refusal));
        }
        let jid = &self.request.jid;
        let error = Some(core.running.refuse(jid, refusal, self.claim_until, core.link.now()));
        match self.form {
            Form::Dispatch => {
                let reply =
                    DispatchReply { v: VERSION, jid: None, targets: Vec::new(), error, offline: None };
                core.answer(self.reply.as_deref(), &reply).await;
            }
            Form::Admin(_) | Form::Reaction(_) => {
                let reply = AdminReply { error, ..AdminReply::done("") };
                core.answer(self.reply.as_deref(), &reply).await;
            }
        }
    }

    /// Nothing was done about the request.
    pub fn unavailable(why: &str) -> Refusal {
        Refusal::new(RefusalKind::Unavailable, why)
    }

    /// For a job that this master let go before it could say what becomes of it: its record may stand, and another may go on with
    /// it. Whoever asked must not take that for "nothing runs" (J-28).
    pub fn in_doubt(why: &str) -> Refusal {
        Refusal::new(RefusalKind::ClaimPending, why)
    }
}

fn answer(waiting: &Waiting, begun: Begun) {
    let sender = waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(sender) = sender {
        // Whoever has gone needs no answer.
        let _gone = sender.send(begun);
    }
}

/// The names that fit an answer: all or none. Whoever gets none reads the record.
fn answered(targets: &[PeelId]) -> Vec<PeelId> {
    let bytes: usize = targets.iter().map(|peel| peel.as_str().len() + 3).sum();
    if bytes <= NAMES_ANSWERED_BYTES_MAX { targets.to_vec() } else { Vec::new() }
}
