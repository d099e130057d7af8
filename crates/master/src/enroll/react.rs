//! `enroll.*` of a rule.

use super::decide::{Declined, Who, decide};
use crate::core::Core;
use zester_identity::enrollment::address_is;
use zester_model::target::glob::Glob;
use zester_reactor::actions::{Enroll, EnrollVerb};
use zester_wire::{EnrollDecision, Enrollment, Token, TokenName};

/// By which name a record knows whom a rule made decide.
const REACTOR: &str = "reactor";

/// Takes the decision of a rule, if the record is what the rule requires.
pub async fn react(core: &Core, rule: &str, enroll: &Enroll) -> Result<Enrollment, Declined> {
    let id = Token::parse(&enroll.id).map_err(|bad| Declined::Refused(format!("`id` is {bad}")))?;
    let decision = match enroll.verb {
        EnrollVerb::Approve => EnrollDecision::Approve,
        EnrollVerb::Reject => EnrollDecision::Reject,
        EnrollVerb::Revoke => EnrollDecision::Revoke,
    };
    let audited = format!("{REACTOR}:{rule}");
    let who = Who { by: REACTOR, audited: &audited, reason: &enroll.reason, is_operator: false };
    decide(core, &id, decision, who, |record| allowed(enroll, record)).await
}

fn allowed(enroll: &Enroll, record: &Enrollment) -> Result<(), String> {
    let peel = record.peel.as_str();
    if !Glob::parse(&enroll.require_peel).is_ok_and(|glob| glob.matches(peel)) {
        return Err(format!("{peel} is not `{}`, which the rule requires", enroll.require_peel));
    }
    if let Some(wanted) = &enroll.require_token {
        let brought = record.token.as_ref();
        let is_it = |token: &TokenName| token.label == *wanted || token.id.as_str() == wanted;
        if wanted.is_empty() || !brought.is_some_and(is_it) {
            return Err(format!("{peel} brought no join token `{wanted}`, which the rule requires"));
        }
    }
    if let Some(wanted) = &enroll.require_ip
        && !address_is(wanted, &record.address)
    {
        return Err(format!("{peel} came from {}, and the rule requires {wanted}", record.address));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;
    use zester_wire::{EnrollmentStatus, PeelId, UnixMillis};

    #[test]
    #[rule("R-7")]
    fn r7_a_rule_decides_only_about_what_it_requires() {
        let label = "fleet".to_string();
        let record = Enrollment {
            v: 1,
            id: Token::parse("x").unwrap(),
            peel: PeelId::parse("web-1").unwrap(),
            key: String::new(),
            status: EnrollmentStatus::Pending,
            address: "10.1.2.3".into(),
            requested: UnixMillis(0),
            changed: UnixMillis(0),
            by: String::new(),
            reason: String::new(),
            token: Some(TokenName { id: Token::parse("0a").unwrap(), label }),
            until: None,
            former: Vec::new(),
            serial: 0,
            rest: Default::default(),
        };
        let rule = |peel: &str, token: Option<&str>, ip: Option<&str>| Enroll {
            verb: EnrollVerb::Approve,
            id: "x".into(),
            require_peel: peel.into(),
            require_token: token.map(String::from),
            require_ip: ip.map(String::from),
            reason: String::new(),
        };
        for good in [
            rule("web-*", None, None),
            rule("web-1", Some("fleet"), Some("10.1.0.0/16")),
            rule("*", Some("0a"), Some("10.1.2.3")),
        ] {
            assert_eq!(allowed(&good, &record), Ok(()), "{good:?}");
        }
        for bad in [
            rule("db-*", None, None),
            rule("[", None, None),
            rule("web-*", Some("other"), None),
            rule("web-*", Some(""), None),
            rule("web-*", None, Some("10.2.0.0/16")),
            rule("web-*", None, Some("nonsense")),
        ] {
            assert!(allowed(&bad, &record).is_err(), "{bad:?}");
        }
        // An empty label is no label that a rule could mean.
        let bare = TokenName { id: Token::parse("0a").unwrap(), label: String::new() };
        let unnamed = Enrollment { token: Some(bare), ..record };
        assert!(allowed(&rule("web-*", Some(""), None), &unnamed).is_err());
    }
}
