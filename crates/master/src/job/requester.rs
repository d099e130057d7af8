//! Whoever waits to hear that a job was accepted.

use crate::core::Core;
use zester_wire::limits::NAMES_ANSWERED_BYTES_MAX;
use zester_wire::{AdminReply, DispatchReply, DispatchRequest, Jid, PeelId, Refusal, RefusalKind};
use zester_wire::{UnixMillis, VERSION};

/// What the client wants to hear: its words differ by what it asked.
#[derive(Clone, Debug)]
enum Form {
    Dispatch,
    /// A retry, told in this sentence.
    Admin(String),
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
        }
    }

    pub async fn refuse(self, core: &Core, refusal: Refusal) {
        let error = Some(refusal);
        match self.form {
            Form::Dispatch => {
                let reply =
                    DispatchReply { v: VERSION, jid: None, targets: Vec::new(), error, offline: None };
                core.answer(self.reply.as_deref(), &reply).await;
            }
            Form::Admin(_) => {
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

/// The names that fit an answer: all or none. Whoever gets none reads the record.
fn answered(targets: &[PeelId]) -> Vec<PeelId> {
    let bytes: usize = targets.iter().map(|peel| peel.as_str().len() + 3).sum();
    if bytes <= NAMES_ANSWERED_BYTES_MAX { targets.to_vec() } else { Vec::new() }
}
