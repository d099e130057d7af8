//! What an operator asks about who may be a peel (I-4): records are read from their bucket, decisions are asked of a master.

use crate::client::Client;
use crate::error::Error;
use std::time::Duration;
use zester_identity::{enrollment, join_token};
use zester_wire::{
    AdminRequest, Bucket, EnrollDecision, EnrollOrder, Enrollment, JoinToken, Key, NewToken, PeelId, Refusal,
    RefusalKind, Token,
};

/// What a new join token is to be.
#[derive(Clone, Debug)]
pub struct TokenWish {
    /// A name, or a glob over names.
    pub names: String,
    pub address: Option<String>,
    pub life: Duration,
    pub label: String,
    /// It vouches, and leaves the word to a rule or an operator.
    pub hold: bool,
}

/// One that was made. The word is known here and nowhere else.
pub struct MadeToken {
    pub id: Token,
    pub word: String,
}

fn invalid(message: impl Into<String>) -> Error {
    Error::Refused(Refusal::new(RefusalKind::Invalid, message))
}

impl Client {
    /// All enrollments, by name.
    pub async fn enrollments(&self) -> Result<Vec<Enrollment>, Error> {
        let found = self.records::<Enrollment>(Bucket::Enrollments, Key::ALL_ENROLLMENTS).await?;
        let mut all: Vec<Enrollment> = found
            .into_iter()
            .filter(|(key, found)| matches!(key, Key::Enrollment(peel) if *peel == found.value.peel))
            .map(|(_, found)| found.value)
            .collect();
        all.sort_by(|a, b| a.peel.cmp(&b.peel));
        Ok(all)
    }

    /// The record of a name, or of an id.
    pub async fn enrollment(&self, name: &str) -> Result<Enrollment, Error> {
        let none =
            || invalid(format!("nobody asked for the name `{name}`; `zester enroll list` shows who did"));
        let by_id = enrollment::peel_of_id(name);
        let peel = match &by_id {
            Some(peel) => peel.clone(),
            None => PeelId::parse(name).map_err(|bad| invalid(format!("`{name}` is {bad}")))?,
        };
        let found = self.link.get_latest::<Enrollment>(&Key::Enrollment(peel)).await?.ok_or_else(none)?;
        match by_id.is_some() && found.value.id.as_str() != name {
            true => Err(invalid(format!("{name} is gone; that name has {} by now", found.value.id))),
            false => Ok(found.value),
        }
    }

    /// Decides about the record that was read: not about whoever has the name by then.
    pub async fn decide_enrollment(
        &self,
        record: &Enrollment,
        decision: EnrollDecision,
        reason: &str,
        user: &str,
    ) -> Result<String, Error> {
        let order = EnrollOrder::Decide { id: record.id.clone(), decision, reason: reason.to_string() };
        self.order(order, user).await
    }

    async fn order(&self, order: EnrollOrder, user: &str) -> Result<String, Error> {
        let request = AdminRequest::Enroll { order, user: user.to_string() };
        Ok(self.ask_admin(&request).await?.message)
    }

    /// Makes a join token. Its word is made here and leaves this process by its answer only; masters get the digest.
    pub async fn make_join_token(&self, wish: TokenWish, user: &str) -> Result<MadeToken, Error> {
        let (first, second) = (self.link.random(), self.link.random());
        let random: [u8; 32] = std::array::from_fn(|at| if at < 16 { first[at] } else { second[at - 16] });
        let word = join_token::word(&random);
        let digest = join_token::digest(&word).to_vec();
        let id = join_token::id_of(&digest).ok_or_else(|| invalid("the word makes no id"))?;
        let TokenWish { names, address, life, label, hold } = wish;
        let new = NewToken { digest, names, address, life, label, hold };
        self.order(EnrollOrder::Token(new), user).await?;
        Ok(MadeToken { id, word })
    }

    pub async fn drop_join_token(&self, id: &Token, user: &str) -> Result<String, Error> {
        self.order(EnrollOrder::DropToken { id: id.clone() }, user).await
    }

    /// All join tokens, the newest last.
    pub async fn join_tokens(&self) -> Result<Vec<(Token, JoinToken)>, Error> {
        let found = self.records::<JoinToken>(Bucket::Enrollments, Key::ALL_JOIN_TOKENS).await?;
        let mut all: Vec<(Token, JoinToken)> = found
            .into_iter()
            .filter_map(|(key, found)| match key {
                Key::JoinToken(id) => Some((id, found.value)),
                _ => None,
            })
            .collect();
        all.sort_by_key(|(_, token)| token.made);
        Ok(all)
    }
}
