//! A fleet of keys: everybody whom the tests need, from fixed seeds.

use std::path::Path;
use zester_identity::accounts::{self, AccountKeys, Revocations};
use zester_identity::{Credentials, KeyKind, KeyPair, Role, certificate, roster};
use zester_wire::{Member, MemberRole, PeelId, Revoked, Roster, Token, UnixMillis};

/// A moment that lies in every validity below.
pub const NOW: UnixMillis = UnixMillis(1_790_000_000_000);
pub const ENDS: UnixMillis = UnixMillis(4_000_000_000_000);
pub const ISSUED: u64 = 1_700_000_000;

pub struct Keys {
    pub operator: KeyPair,
    pub core: KeyPair,
    pub peels: KeyPair,
    pub operators: KeyPair,
    pub system: KeyPair,
    pub issuer: KeyPair,
}

pub fn pair(kind: KeyKind, seed: u8) -> KeyPair {
    KeyPair::new(kind, [seed; 32]).unwrap()
}

pub fn user(name: &str) -> KeyPair {
    let mut seed = [9; 32];
    seed.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
    KeyPair::new(KeyKind::User, seed).unwrap()
}

impl Keys {
    pub fn new() -> Keys {
        Keys {
            operator: pair(KeyKind::Operator, 1),
            core: pair(KeyKind::Account, 2),
            peels: pair(KeyKind::Account, 3),
            operators: pair(KeyKind::Account, 6),
            system: pair(KeyKind::Account, 4),
            issuer: pair(KeyKind::Account, 5),
        }
    }

    pub fn accounts(&self) -> AccountKeys {
        AccountKeys {
            core: self.core.public().clone(),
            peels: self.peels.public().clone(),
            operators: self.operators.public().clone(),
            system: self.system.public().clone(),
        }
    }

    pub fn roster(&self) -> Roster {
        let member = |role, name: &str, key: &KeyPair| Member {
            role,
            name: Token::parse(name).unwrap(),
            key: key.public().to_string(),
            until: None,
        };
        Roster {
            v: 1,
            serial: 10,
            issued: UnixMillis(1_700_000_000_000),
            expires: ENDS,
            members: vec![
                member(MemberRole::Master, "m1", &user("m1")),
                member(MemberRole::Admin, "ann", &user("ann")),
                member(MemberRole::Issuer, "m1", &self.issuer),
            ],
            revoked: vec![Revoked { key: user("gone").public().to_string(), name: "gone".into(), at: NOW }],
            roles: Vec::new(),
        }
    }

    pub fn certificate(&self, name: &str) -> Vec<u8> {
        let peel = PeelId::parse(name).unwrap();
        certificate::issue(&peel, user(name).public(), ENDS, &self.issuer).unwrap()
    }

    pub fn peel(&self, name: &str) -> Credentials {
        let pair = user(name);
        let claims = accounts::peel(name, pair.public(), self.peels.public(), ISSUED, ENDS.0 / 1000);
        self.credentials(name, claims.issued_by(&self.issuer), self.certificate(name))
    }

    pub fn member(&self, role: Role, name: &str) -> Credentials {
        let key = user(name);
        let claims = match role {
            Role::Operator => accounts::operator_user(name, key.public(), self.operators.public(), ISSUED),
            _ => accounts::member(role, name, key.public(), ISSUED),
        };
        self.credentials(name, claims.issued_by(&self.core), Vec::new())
    }

    fn credentials(&self, name: &str, jwt: String, certificate: Vec<u8>) -> Credentials {
        let roster = roster::sign(&self.roster(), &self.core).unwrap();
        let anchor = self.core.public().clone();
        Credentials { jwt, name: name.into(), pair: user(name), anchor, roster, certificate }
    }

    /// Who may tell the server of accounts.
    #[allow(dead_code, reason = "only those tests that have a server")]
    pub fn system_user(&self) -> String {
        let pair = user("sys");
        let jwt = accounts::system_user(pair.public(), ISSUED).issued_by(&self.system);
        self.credentials("sys", jwt, Vec::new()).to_text().unwrap()
    }

    #[allow(dead_code, reason = "only those tests that have a server")]
    pub fn peels_account(&self, revoked: &Revocations, issued: u64) -> String {
        let issuers = [self.issuer.public().clone()];
        accounts::peels(&self.accounts(), &issuers, revoked, issued).issued_by(&self.operator)
    }

    /// What a server in operator mode is told: all accounts, and where it keeps them.
    #[allow(dead_code, reason = "only those tests that have a server")]
    pub fn server_config(&self, resolver: &Path) -> String {
        let keys = self.accounts();
        let operator = accounts::operator("test", self.operator.public(), &keys.system, &[], ISSUED);
        let operator = operator.issued_by(&self.operator);
        let none = Revocations::default();
        let core = accounts::core(&keys, &none, ISSUED).issued_by(&self.operator);
        let peels = self.peels_account(&none, ISSUED);
        let operators = accounts::operators(&keys, &none, ISSUED).issued_by(&self.operator);
        let system = accounts::system(&keys, &none, ISSUED).issued_by(&self.operator);
        format!(
            "operator: {operator}\nsystem_account: {}\nresolver: {{ type: full, dir: {:?}, allow_delete: false, interval: \"2m\" }}\n\
             resolver_preload: {{\n  {}: {core}\n  {}: {peels}\n  {}: {operators}\n  {}: {system}\n}}\n",
            keys.system,
            resolver.display().to_string(),
            keys.core,
            keys.peels,
            keys.operators,
            keys.system,
        )
    }
}
