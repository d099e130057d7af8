//! What a server knows of an account, and telling it something newer.

use std::time::Duration;
use zester_bus::{Bus, Bytes};
use zester_identity::PublicKey;
use zester_identity::jwt::{self, Verified};

/// Where a server takes new accounts.
const UPDATE: &str = "$SYS.REQ.CLAIMS.UPDATE";
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// The account as the server has it, which may be of somebody whom it does not believe.
pub async fn lookup(system: &dyn Bus, account: &PublicKey) -> Result<Verified, String> {
    let subject = format!("$SYS.REQ.ACCOUNT.{account}.CLAIMS.LOOKUP");
    let answer =
        system.request(&subject, Bytes::new(), ANSWER_WAIT).await.map_err(|error| error.to_string())?;
    let text = String::from_utf8(answer.payload.to_vec()).unwrap_or_default();
    let found =
        jwt::verify(text.trim()).map_err(|bad| format!("the server has no account {account}: {bad}"))?;
    match found.claims.subject == *account {
        true => Ok(found),
        false => Err(format!("the server shows another account than {account}")),
    }
}

pub async fn update(system: &dyn Bus, account: &str, jwt: String) -> Result<(), String> {
    let answer =
        system.request(UPDATE, Bytes::from(jwt), ANSWER_WAIT).await.map_err(|error| error.to_string())?;
    let answer: serde_json::Value = serde_json::from_slice(&answer.payload).unwrap_or_default();
    match answer["data"]["code"] == 200 {
        true => Ok(()),
        false => {
            let why = answer["error"]["description"].as_str().unwrap_or("it does not say why");
            Err(format!("the server does not take the account {account}: {why}"))
        }
    }
}
