//! A master that may tell the server whom to keep out (I-5): with a signing key of the operator and credentials of the system
//! account, which somebody put on its machine on purpose.

use super::door::account;
use crate::answer::Failure;
use crate::app::App;
use crate::auth::claims;
use crate::auth::directory::{ACCOUNT_FILE, SIGNER_FILE, SYSTEM_FILE, now, read_key, read_secret};
use crate::auth::trusted::Servers;
use crate::connection::Connect;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use zester_bus::Bus;
use zester_bus::nats::{self, Credentials as BusCredentials, Options};
use zester_identity::authority::with_revoked;
use zester_identity::{KeyKind, KeyPair, PublicKey};
use zester_master::Revokes;

pub struct Revoker {
    signer: KeyPair,
    /// Where it was read.
    file: PathBuf,
    account: PublicKey,
    options: Options,
}

impl Revoker {
    pub fn open(dir: &Path, connect: &Connect, app: &App) -> Result<Revoker, Failure> {
        let file = dir.join(SIGNER_FILE);
        let signer = read_key(&file)?;
        if signer.kind() != KeyKind::Operator {
            return Err(Failure::usage(format!("{}: this is no key of an operator", file.display())));
        }
        let mut options = connect.options_of_daemon(app, "zester master, revoking")?;
        options.credentials = BusCredentials::Text(read_secret(&dir.join(SYSTEM_FILE))?);
        options.inbox_prefix = "_INBOX".into();
        Ok(Revoker { signer, file, account: account(&dir.join(ACCOUNT_FILE))?, options })
    }

    async fn tell(&self, keys: &[String]) -> Result<usize, String> {
        let keys: Vec<PublicKey> =
            keys.iter().filter_map(|key| PublicKey::of_kind(key, KeyKind::User).ok()).collect();
        let bus = nats::connect(self.options.clone()).await.map_err(|error| error.to_string())?;
        let told = async {
            let servers = Servers::ask(&bus).await?;
            self.counts(&servers)?;
            let there = claims::lookup(&bus, &self.account).await?;
            // What it says would be ours once we signed it.
            if let Some(server) = servers.doubting(&there.issuer) {
                return Err(format!(
                    "{server} keeps an account of peels that it does not believe, and would let none of them in once it was restarted: lay another over it with `zester auth push`"
                ));
            }
            match with_revoked(&there.claims, &keys, &self.signer, now()) {
                None => Ok(0),
                Some((jwt, count)) => claims::update(&bus, self.account.as_str(), jwt).await.map(|()| count),
            }
        };
        let told = told.await;
        let _closed = bus.close().await;
        told
    }
}

impl Revoker {
    /// Refuses to sign what a server would keep and not believe.
    fn counts(&self, servers: &Servers) -> Result<(), String> {
        match servers.doubting(self.signer.public()) {
            None => Ok(()),
            Some(server) => Err(format!(
                "{server} does not believe the key in {}: copy the new revoker/ from the keys of the fleet to this master and restart it; or, where this one is the new one, restart the server with the new nats-server.conf",
                self.file.display()
            )),
        }
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
