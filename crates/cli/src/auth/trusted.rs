//! Whose accounts the servers believe. A server of 2.9 takes and keeps an account that anybody signed, says that all is well, and asks
//! who signed it only when it loads it: then it has none. So whoever tells it of accounts asks before.

use std::collections::BTreeSet;
use std::time::Duration;
use zester_bus::{Bus, Bytes};
use zester_identity::PublicKey;
use zester_identity::jwt::{self, BadJwt};

const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// Every server that can be asked, with the keys that may sign accounts there.
pub struct Servers(Vec<(String, BTreeSet<String>)>);

impl Servers {
    /// Asks one server, and those that it has routes to.
    pub async fn ask(system: &dyn Bus) -> Result<Servers, String> {
        let first = asked(system, "$SYS.REQ.SERVER.PING.VARZ").await?;
        let id = first["server"]["id"].as_str().ok_or("the server does not say which one it is")?;
        let routes = asked(system, &format!("$SYS.REQ.SERVER.{id}.ROUTEZ")).await?;
        let routes = routes["data"]["routes"].as_array().into_iter().flatten();
        let others: BTreeSet<&str> = routes.filter_map(|route| route["remote_id"].as_str()).collect();
        let mut all = vec![signers(&first)?];
        for other in others {
            all.push(signers(&asked(system, &format!("$SYS.REQ.SERVER.{other}.VARZ")).await?)?);
        }
        Ok(Servers(all))
    }

    /// The first that does not believe what this key signs.
    pub fn doubting(&self, key: &PublicKey) -> Option<&str> {
        self.0.iter().find(|(_, signers)| !signers.contains(key.as_str())).map(|(name, _)| name.as_str())
    }
}

async fn asked(system: &dyn Bus, subject: &str) -> Result<serde_json::Value, String> {
    let answer =
        system.request(subject, Bytes::new(), ANSWER_WAIT).await.map_err(|error| error.to_string())?;
    let answer: serde_json::Value = serde_json::from_slice(&answer.payload)
        .map_err(|error| format!("what the server says of itself cannot be read: {error}"))?;
    match answer["error"]["description"].as_str() {
        Some(why) => Err(format!("the server does not say how it is: {why}")),
        None => Ok(answer),
    }
}

/// The name of a server, and who may sign there: its operators, and what they name.
fn signers(answer: &serde_json::Value) -> Result<(String, BTreeSet<String>), String> {
    let name = answer["server"]["name"].as_str().unwrap_or("nats-server").to_string();
    let operators = answer["data"]["trusted_operators_jwt"].as_array();
    let operators = operators.ok_or_else(|| format!("{name} does not say which operators it trusts"))?;
    let mut keys = BTreeSet::new();
    for operator in operators {
        let text = operator.as_str().unwrap_or_default();
        keys.extend(keys_of(text).map_err(|bad| format!("the operator of {name}: {bad}"))?);
    }
    Ok((name, keys))
}

/// The keys whose accounts count where an operator is trusted: its own, and those that it names.
pub fn keys_of(operator: &str) -> Result<BTreeSet<String>, BadJwt> {
    let claims = jwt::verify(operator)?.claims;
    let named = claims.nats.get("signing_keys").and_then(serde_json::Value::as_array);
    let named = named.into_iter().flatten().filter_map(|key| key.as_str().map(String::from));
    Ok(named.chain([claims.subject.to_string()]).collect())
}
