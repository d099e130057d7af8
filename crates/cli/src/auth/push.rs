//! Telling a running fleet what changed: accounts to the server, the roster to everybody.

use super::directory::{Directory, failure, now};
use crate::answer::Failure;
use crate::app::App;
use crate::connection::Connect;
use std::time::Duration;
use zester_bus::nats::{self, Credentials as BusCredentials};
use zester_bus::{Bus, Bytes};
use zester_wire::{Bucket, Key, Notice, Subject, Token, VERSION};

/// Where a server takes new accounts.
const UPDATE: &str = "$SYS.REQ.CLAIMS.UPDATE";
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// What was told to whom.
pub struct Pushed {
    pub accounts: usize,
    pub serial: u64,
}

/// Accounts first: who is revoked is out before anybody is told of it.
pub async fn push(directory: &Directory, connect: &Connect, app: &App) -> Result<Pushed, Failure> {
    let fleet = directory.fleet()?;
    let (roster, bytes) = directory.roster(&fleet)?;
    let told = |error: zester_bus::Error| Failure::usage(error.to_string());
    let jwts = fleet.server_jwts(&directory.secret("operator")?, now()).map_err(failure)?;
    let mut options = connect.options(app, "zester auth")?;
    let path = directory.path("creds/sys.creds");
    let text = std::fs::read_to_string(&path)
        .map_err(|error| zester_converge::Error::io("read the credentials", &path, error))?;
    options.credentials = BusCredentials::Text(text);
    let system = nats::connect(options).await.map_err(told)?;
    for (key, jwt) in &jwts.accounts {
        let answer = system.request(UPDATE, Bytes::from(jwt.clone()), ANSWER_WAIT).await.map_err(told)?;
        let answer: serde_json::Value = serde_json::from_slice(&answer.payload).unwrap_or_default();
        if answer["data"]["code"] != 200 {
            let why = answer["error"]["description"].as_str().unwrap_or("it does not say why");
            return Err(Failure::usage(format!("the server does not take the account {key}: {why}")));
        }
    }
    let _closed = system.close().await;
    // Whoever may put the roster where everybody reads it: any admin. That it counts, its signature says.
    let client = connect.client(app).await?;
    let link = client.link();
    let bus = link.bus();
    bus.put(Bucket::Trust.as_str(), &Key::Roster.to_string(), bytes.into()).await.map_err(told)?;
    let what = Token::parse(Bucket::Trust.as_str()).map_err(|bad| Failure::usage(bad.to_string()))?;
    let notice = Notice { v: VERSION, bucket: what.clone(), revision: roster.serial };
    let sent = link.publish(&Subject::Notify { what }, &notice).await;
    sent.map_err(|error| Failure::usage(error.to_string()))?;
    let _closed = bus.close().await;
    Ok(Pushed { accounts: jwts.accounts.len(), serial: roster.serial })
}
