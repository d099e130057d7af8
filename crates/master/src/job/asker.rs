//! Whoever waits to hear that a job was accepted.

use crate::core::Core;
use zester_wire::{AdminReply, DispatchReply, DispatchRequest, Jid, PeelId, Refusal, RefusalKind, VERSION};

/// What the client wants to hear: its words differ by what it asked.
#[derive(Clone, Debug)]
enum Form {
    Dispatch,
    /// A retry, told in this sentence.
    Admin(String),
}

/// A client, and what it asked for.
#[derive(Clone, Debug)]
pub struct Asker {
    pub request: DispatchRequest,
    reply: Option<String>,
    form: Form,
}

impl Asker {
    pub fn dispatch(request: DispatchRequest, reply: Option<String>) -> Asker {
        Asker { request, reply, form: Form::Dispatch }
    }

    pub fn retry(request: DispatchRequest, reply: Option<String>, sentence: String) -> Asker {
        Asker { request, reply, form: Form::Admin(sentence) }
    }

    pub async fn accept(self, core: &Core, jid: &Jid, targets: &[PeelId]) {
        let jid = Some(jid.clone());
        match self.form {
            Form::Dispatch => {
                let reply = DispatchReply { v: VERSION, jid, targets: targets.to_vec(), error: None };
                core.answer(self.reply.as_deref(), &reply).await;
            }
            Form::Admin(message) => {
                let reply = AdminReply { v: VERSION, message, jid, error: None };
                core.answer(self.reply.as_deref(), &reply).await;
            }
        }
    }

    pub async fn refuse(self, core: &Core, refusal: Refusal) {
        let error = Some(refusal);
        match self.form {
            Form::Dispatch => {
                let reply = DispatchReply { v: VERSION, jid: None, targets: Vec::new(), error };
                core.answer(self.reply.as_deref(), &reply).await;
            }
            Form::Admin(_) => {
                let reply = AdminReply { v: VERSION, message: String::new(), jid: None, error };
                core.answer(self.reply.as_deref(), &reply).await;
            }
        }
    }

    /// For a job that ended here before it was accepted.
    pub fn unavailable(why: &str) -> Refusal {
        Refusal::new(RefusalKind::Unavailable, why)
    }
}
