//! Telling a running fleet what changed: accounts to the server, the roster to everybody.

use super::claims;
use super::directory::{Directory, failure, now};
use super::operators::{self, Moved};
use super::trusted::Servers;
use crate::answer::Failure;
use crate::app::App;
use crate::connection::Connect;
use zester_bus::Bus;
use zester_bus::nats::{self, Credentials as BusCredentials};
use zester_wire::{Bucket, Key, Notice, Subject, Token, VERSION};

/// What was told to whom.
pub struct Pushed {
    pub accounts: usize,
    pub serial: u64,
    /// Operators who got an account of their own, and their new credentials.
    pub moved: Vec<Moved>,
}

/// Accounts first: who is revoked is out before anybody is told of it.
pub async fn push(directory: &Directory, connect: &Connect, app: &App) -> Result<Pushed, Failure> {
    let moved = operators::settle(directory)?;
    operators::tell(&moved, app);
    let mut fleet = directory.fleet()?;
    let (roster, bytes) = directory.roster(&fleet)?;
    let told = |error: zester_bus::Error| Failure::usage(error.to_string());
    let operator = directory.secret("operator")?;
    let mut options = connect.options(app, "zester auth")?;
    let path = directory.path("creds/sys.creds");
    let text = std::fs::read_to_string(&path)
        .map_err(|error| zester_converge::Error::io("read the credentials", &path, error))?;
    options.credentials = BusCredentials::Text(text);
    let system = nats::connect(options).await.map_err(told)?;
    // Masters may have had it keep out peels that this directory does not know.
    let peels = fleet.account_of_peels().map_err(|bad| Failure::usage(bad.to_string()))?;
    let servers = Servers::ask(&system).await.map_err(Failure::usage)?;
    let there = claims::lookup(&system, &peels).await.map_err(Failure::usage)?;
    match servers.doubting(&there.issuer) {
        None => fleet.join_revoked(&there.claims),
        // Anybody who talks to the server itself may have written it.
        Some(server) => app.output.notice(&format!(
            "{server} kept an account of peels that it does not believe; another is laid over it, and who was to be kept out by that one alone is not: masters that revoke tell the server again of theirs, of others `zester enroll revoke NAME --dir`"
        )),
    }
    directory.keep_fleet(&fleet)?;
    let jwts = fleet.server_jwts(&operator, now()).map_err(failure)?;
    for (key, jwt) in &jwts.accounts {
        claims::update(&system, key, jwt.clone()).await.map_err(Failure::usage)?;
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
    operators::told(directory)?;
    Ok(Pushed { accounts: jwts.accounts.len(), serial: roster.serial, moved })
}
