//! A master that may tell the server whom to keep out (I-5): with a signing key of the operator and credentials of the system
//! account, which somebody put on its machine on purpose.

use super::door::account;
use crate::answer::Failure;
use crate::app::App;
use crate::auth::claims;
use crate::auth::directory::{ACCOUNT_FILE, SIGNER_FILE, SYSTEM_FILE, now, read_key, read_secret};
use crate::connection::Connect;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use zester_bus::Bus;
use zester_bus::nats::{self, Credentials as BusCredentials, Options};
use zester_identity::authority::with_revoked;
use zester_identity::{KeyKind, KeyPair, PublicKey};
use zester_master::Revokes;

pub struct Revoker {
    signer: KeyPair,
    account: PublicKey,
    options: Options,
}

impl Revoker {
    pub fn open(dir: &Path, connect: &Connect, app: &App) -> Result<Revoker, Failure> {
        let signer = read_key(&dir.join(SIGNER_FILE))?;
        if signer.kind() != KeyKind::Operator {
            let path = dir.join(SIGNER_FILE);
            return Err(Failure::usage(format!("{}: this is no key of an operator", path.display())));
        }
        let mut options = connect.options_of_daemon(app, "zester master, revoking")?;
        options.credentials = BusCredentials::Text(read_secret(&dir.join(SYSTEM_FILE))?);
        options.inbox_prefix = "_INBOX".into();
        Ok(Revoker { signer, account: account(&dir.join(ACCOUNT_FILE))?, options })
    }

    async fn tell(&self, keys: &[String]) -> Result<usize, String> {
        let keys: Vec<PublicKey> =
            keys.iter().filter_map(|key| PublicKey::of_kind(key, KeyKind::User).ok()).collect();
        if keys.is_empty() {
            return Ok(0);
        }
        let bus = nats::connect(self.options.clone()).await.map_err(|error| error.to_string())?;
        let told = async {
            let now_there = claims::lookup(&bus, &self.account).await?;
            match with_revoked(&now_there, &keys, &self.signer, now()) {
                None => Ok(0),
                Some((jwt, count)) => claims::update(&bus, self.account.as_str(), jwt).await.map(|()| count),
            }
        };
        let told = told.await;
        let _closed = bus.close().await;
        told
    }
}

impl Revokes for Revoker {
    fn revoke<'a>(
        &'a self,
        keys: &'a [String],
    ) -> Pin<Box<dyn Future<Output = Result<usize, String>> + Send + 'a>> {
        Box::pin(self.tell(keys))
    }
}
