//! The one table of who may publish and subscribe what (I-2). The JWTs of users, the exports and imports of the two accounts,
//! the table in `docs/security.md` and the list of the adversary's tests are made of it.
//!
//! Peels live in an account of their own, PEELS, and operators with roles in another, OPERATORS, both without JetStream; masters
//! and admins live in CORE, which owns every stream and bucket. What crosses from one to the other is named here, row by row, and
//! nothing else does. So a reply subject that a peel or an operator chooses for a question reaches nothing in CORE: the answer
//! comes out in the account of who asked.

use crate::speaker::Role;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Stands for the name of the member in a subject.
const ME: &str = "{me}";
/// The same in the template of a scoped signing key: the server puts the name of the user there.
pub const TEMPLATE_NAME: &str = "{{name()}}";

#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    Publish,
    Subscribe,
}

/// An account of the server, and who lives in it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Account {
    /// Masters and admins.
    Core,
    Peels,
    /// Operators with roles.
    Operators,
}

impl Account {
    pub const fn of(role: Role) -> Account {
        match role {
            Role::Master | Role::Admin => Account::Core,
            Role::Peel => Account::Peels,
            Role::Operator => Account::Operators,
        }
    }
}

/// How a subject gets from one account to another.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Crossing {
    /// It stays in the account of its role.
    None,
    /// CORE offers it as a service: what is sent elsewhere arrives there, and one answer comes back.
    ServiceOfCore,
    /// PEELS offers it as a service: what is sent elsewhere arrives at the peel, and one answer comes back.
    ServiceOfPeels,
    /// Whatever is published in CORE is heard elsewhere too.
    StreamOfCore,
    /// Whatever is published in PEELS is heard elsewhere too. What came to CORE as a service is not heard through a stream of CORE.
    StreamOfPeels,
}

impl Crossing {
    /// Who offers it.
    const fn of(self) -> Option<Account> {
        match self {
            Crossing::None => None,
            Crossing::ServiceOfCore | Crossing::StreamOfCore => Some(Account::Core),
            Crossing::ServiceOfPeels | Crossing::StreamOfPeels => Some(Account::Peels),
        }
    }

    const fn is_service(self) -> bool {
        matches!(self, Crossing::ServiceOfCore | Crossing::ServiceOfPeels)
    }
}

/// One right of one role.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub role: Role,
    pub act: Act,
    subject: &'static str,
    pub crossing: Crossing,
    /// What it is for, as the documentation says it.
    pub purpose: &'static str,
}

impl Grant {
    /// The subject for a member of this name.
    pub fn subject(&self, name: &str) -> String {
        self.subject.replace(ME, name)
    }

    /// The same for any member: what an account exports and another imports.
    pub fn of_anybody(&self) -> String {
        self.subject("*")
    }
}

const fn peel_sends(subject: &'static str, purpose: &'static str) -> Grant {
    Grant { role: Role::Peel, act: Act::Publish, subject, crossing: Crossing::ServiceOfCore, purpose }
}

const fn stays(role: Role, act: Act, subject: &'static str, purpose: &'static str) -> Grant {
    Grant { role, act, subject, crossing: Crossing::None, purpose }
}

const fn master_sends(subject: &'static str, purpose: &'static str) -> Grant {
    stays(Role::Master, Act::Publish, subject, purpose)
}

const fn master_hears(subject: &'static str, purpose: &'static str) -> Grant {
    stays(Role::Master, Act::Subscribe, subject, purpose)
}

const fn admin_sends(subject: &'static str, purpose: &'static str) -> Grant {
    stays(Role::Admin, Act::Publish, subject, purpose)
}

const fn operator_asks(subject: &'static str, purpose: &'static str) -> Grant {
    Grant { role: Role::Operator, act: Act::Publish, subject, crossing: Crossing::ServiceOfCore, purpose }
}

const fn operator_hears(subject: &'static str, crossing: Crossing, purpose: &'static str) -> Grant {
    Grant { role: Role::Operator, act: Act::Subscribe, subject, crossing, purpose }
}

const fn admin_hears(subject: &'static str, purpose: &'static str) -> Grant {
    stays(Role::Admin, Act::Subscribe, subject, purpose)
}

pub const TABLE: &[Grant] = &[
    peel_sends("zester.event.{me}.send.>", "its own events"),
    peel_sends("zester.event.{me}.beacon.*", "what its beacons see"),
    peel_sends("zester.job.*.ack.{me}", "that it has the work"),
    peel_sends("zester.job.*.return.{me}", "what came of it"),
    peel_sends("zester.job.*.schedule.{me}", "what came of its own schedule"),
    peel_sends("zester.job.*.progress.{me}", "the live view of a job"),
    peel_sends("zester.heartbeat.{me}", "that it lives"),
    peel_sends("$KV.facts.{me}", "its facts"),
    peel_sends("$KV.peel-seen.{me}", "when it was last there"),
    peel_sends("zester.target.resolve", "which peels an expression names"),
    peel_sends("$JS.API.DIRECT.GET.KV_facts.$KV.facts.{me}", "reading its own facts"),
    peel_sends("$JS.API.DIRECT.GET.KV_peel-seen.$KV.peel-seen.{me}", "reading its own last heartbeat"),
    peel_sends("$JS.API.DIRECT.GET.KV_state-files.$KV.state-files.>", "reading published states"),
    peel_sends("$JS.API.DIRECT.GET.KV_settings-files.$KV.settings-files.>", "reading published settings"),
    peel_sends("$JS.API.DIRECT.GET.KV_trust.$KV.trust.roster", "reading the roster"),
    Grant {
        role: Role::Peel,
        act: Act::Subscribe,
        subject: "zester.cmd.{me}",
        crossing: Crossing::ServiceOfPeels,
        purpose: "its commands",
    },
    Grant {
        role: Role::Peel,
        act: Act::Subscribe,
        subject: "zester.notify.*",
        crossing: Crossing::StreamOfCore,
        purpose: "that something was published",
    },
    stays(Role::Peel, Act::Subscribe, "_INBOX.{me}.>", "answers to its own questions"),
    stays(Role::Peel, Act::Publish, "_INBOX.{me}.>", "proving that the server has what was sent before"),
    master_sends("zester.cmd.*", "commands to peels"),
    master_sends("zester.job.*.dispatch", "the history of a job"),
    master_sends("zester.job.*.status", "the history of a job"),
    master_sends("zester.job.*.cancel", "the history of a job"),
    master_sends("zester.event._master.>", "events of masters"),
    master_sends("zester.ledger.*.*", "what the reactor decided"),
    master_sends("zester.audit.*.*", "what it decided, and for whom"),
    master_sends("zester.holder.*.*", "what is for the holder of a lease"),
    master_sends("zester.notify.*", "that something was published"),
    master_sends("$KV.jobs.>", "records of jobs"),
    master_sends("$KV.job-returns.>", "returns of jobs"),
    master_sends("$KV.job-targets.>", "targets of large jobs"),
    master_sends("$KV.master-heartbeat.>", "that it lives"),
    master_sends("$KV.leases.>", "leases"),
    master_sends("$KV.state-files.>", "published states"),
    master_sends("$KV.settings-files.>", "published settings"),
    master_sends("$KV.reactor-files.>", "published rules"),
    master_sends("$KV.enrollments.>", "enrollments and join tokens"),
    master_sends("$JS.API.>", "streams, buckets and their readers"),
    master_sends("$JS.ACK.>", "acknowledging what it read"),
    master_sends("$JS.FC.>", "saying that it keeps up"),
    master_sends("_INBOX.{me}.>", "proving that the server has what was sent before"),
    master_hears("zester.dispatch", "requests for jobs"),
    master_hears("zester.admin.*", "what admins ask"),
    master_hears("zester.holder.*.*", "what is for the holder of a lease"),
    master_hears("zester.target.resolve", "questions about targets"),
    master_hears("zester.peel.list", "questions about peels"),
    master_hears("zester.reactor.test", "questions about rules"),
    master_hears("zester.notify.*", "that something was published"),
    master_hears("zester.job.*.ack.*", "acks"),
    master_hears("zester.job.*.return.*", "returns"),
    master_hears("zester.job.*.cancel", "cancels"),
    master_hears("zester.heartbeat.*", "which peels live"),
    master_hears("_INBOX.{me}.>", "answers to its own questions"),
    admin_sends("zester.dispatch", "requests for jobs"),
    admin_sends("zester.admin.*", "kill, retry, publish, forget, enroll"),
    admin_sends("zester.cmd.*", "calls past the masters (`--direct`)"),
    admin_sends("zester.event._admin.send.>", "events of operators"),
    admin_sends("zester.target.resolve", "which peels an expression names"),
    admin_sends("zester.peel.list", "which peels there are"),
    admin_sends("zester.reactor.test", "what rules would do"),
    admin_sends("$KV.state-files.*", "uploading states"),
    admin_sends("$KV.settings-files.*", "uploading settings"),
    admin_sends("$KV.reactor-files.*", "uploading rules"),
    admin_sends("$KV.trust.roster", "a new roster"),
    admin_sends("zester.notify.trust", "that there is a new roster"),
    admin_sends("$JS.API.STREAM.INFO.*", "how full a store is"),
    admin_sends("$JS.API.STREAM.MSG.GET.*", "reading records"),
    admin_sends("$JS.API.DIRECT.GET.>", "reading records"),
    admin_sends("$JS.API.CONSUMER.CREATE.>", "reading streams"),
    admin_sends("$JS.API.CONSUMER.INFO.>", "reading streams"),
    admin_sends("$JS.API.CONSUMER.MSG.NEXT.>", "reading streams"),
    admin_sends("$JS.API.CONSUMER.DELETE.>", "reading streams"),
    admin_sends("_INBOX.{me}.>", "proving that the server has what was sent before"),
    admin_hears("zester.job.>", "following jobs"),
    admin_hears("zester.event.>", "watching events"),
    admin_hears("_INBOX.{me}.>", "answers to its own questions"),
    operator_asks("zester.dispatch", "requests for jobs, within its roles"),
    operator_asks("zester.admin.*", "kill, retry, publish, forget, within its roles"),
    Grant {
        role: Role::Operator,
        act: Act::Publish,
        subject: "zester.cmd.*",
        crossing: Crossing::ServiceOfPeels,
        purpose: "calls past the masters, within its roles",
    },
    operator_asks("zester.event._admin.send.>", "events of operators, within its roles"),
    operator_asks("zester.target.resolve", "which peels an expression names"),
    operator_asks("zester.peel.list", "which peels there are"),
    operator_asks("zester.reactor.test", "what rules would do"),
    operator_asks("$JS.API.DIRECT.GET.job-events", "reading records"),
    operator_asks("$JS.API.DIRECT.GET.events", "reading records"),
    operator_asks("$JS.API.DIRECT.GET.reactor-ledger", "reading records"),
    operator_asks("$JS.API.DIRECT.GET.audit", "reading records"),
    operator_asks("$JS.API.DIRECT.GET.KV_jobs", "reading records"),
    operator_asks("$JS.API.DIRECT.GET.KV_job-returns", "reading records"),
    operator_asks("$JS.API.DIRECT.GET.KV_job-targets", "reading records"),
    operator_asks("$JS.API.DIRECT.GET.KV_master-heartbeat", "reading records"),
    operator_asks("$JS.API.DIRECT.GET.KV_peel-seen", "reading records"),
    operator_asks("$JS.API.DIRECT.GET.KV_facts", "reading records"),
    operator_asks("$JS.API.DIRECT.GET.KV_leases", "reading records"),
    operator_asks("$JS.API.DIRECT.GET.KV_state-files", "reading records"),
    operator_asks("$JS.API.DIRECT.GET.KV_settings-files", "reading records"),
    operator_asks("$JS.API.DIRECT.GET.KV_reactor-files", "reading records"),
    operator_asks("$JS.API.DIRECT.GET.KV_trust", "reading records"),
    operator_asks("$JS.API.DIRECT.GET.KV_enrollments", "reading records"),
    stays(Role::Operator, Act::Publish, "_INBOX.{me}.>", "proving that the server has what was sent before"),
    stays(
        Role::Operator,
        Act::Subscribe,
        "zester.job.>",
        "following jobs: of the subjects below, those of one job",
    ),
    operator_hears("zester.job.*.dispatch", Crossing::StreamOfCore, "following jobs"),
    operator_hears("zester.job.*.status", Crossing::StreamOfCore, "following jobs"),
    operator_hears("zester.job.*.cancel", Crossing::StreamOfCore, "following jobs"),
    operator_hears("zester.job.*.ack.*", Crossing::StreamOfPeels, "following jobs"),
    operator_hears("zester.job.*.return.*", Crossing::StreamOfPeels, "following jobs"),
    operator_hears("zester.job.*.schedule.*", Crossing::StreamOfPeels, "following jobs"),
    operator_hears("zester.job.*.progress.*", Crossing::StreamOfPeels, "following jobs"),
    stays(Role::Operator, Act::Subscribe, "zester.event.>", "watching events: all of the subjects below"),
    operator_hears("zester.event._master.>", Crossing::StreamOfCore, "watching events"),
    operator_hears("zester.event._admin.send.>", Crossing::StreamOfCore, "watching events"),
    operator_hears("zester.event.*.send.>", Crossing::StreamOfPeels, "watching events"),
    operator_hears("zester.event.*.beacon.*", Crossing::StreamOfPeels, "watching events"),
    stays(Role::Operator, Act::Subscribe, "_INBOX.{me}.>", "answers to its own questions"),
];

/// Where answers to a member come in. The name is a token of its own: templates of the server know no other.
pub fn inbox_prefix(name: &str) -> String {
    format!("_INBOX.{name}")
}

/// What a role may publish or subscribe, for a member of this name.
pub fn subjects(role: Role, act: Act, name: &str) -> Vec<String> {
    let rows = TABLE.iter().filter(|grant| grant.role == role && grant.act == act);
    rows.map(|grant| grant.subject(name)).collect()
}

/// Whether the server lets a member do this.
pub fn allows(role: Role, act: Act, name: &str, subject: &str) -> bool {
    subjects(role, act, name).iter().any(|pattern| matches(pattern, subject))
}

/// What an account offers in one way, each subject once. What another of them holds already is not named again: servers refuse an
/// account that does.
pub fn offered(crossing: Crossing) -> BTreeSet<String> {
    let rows = TABLE.iter().filter(|grant| grant.crossing == crossing);
    let all: BTreeSet<String> = rows.map(Grant::of_anybody).collect();
    let is_held = |subject: &String| all.iter().any(|other| other != subject && holds(other, subject));
    all.iter().filter(|subject| !is_held(subject)).cloned().collect()
}

/// Whether every subject of one pattern is one of another's.
fn holds(wide: &str, narrow: &str) -> bool {
    let mut parts = narrow.split('.');
    for of_wide in wide.split('.') {
        match (of_wide, parts.next()) {
            (">", Some(_)) => return true,
            (_, None | Some(">")) => return false,
            ("*", Some(_)) => {}
            (of_wide, Some(part)) if of_wide == part => {}
            _ => return false,
        }
    }
    parts.next().is_none()
}

/// The same, of what an account uses that another offers.
pub fn used(by: Account, crossing: Crossing) -> BTreeSet<String> {
    if crossing.of() == Some(by) {
        return BTreeSet::new();
    }
    let is_used = |grant: &&Grant| match by {
        // Masters and admins speak to peels by what these hear; of their own rows nothing crosses.
        Account::Core => grant.role == Role::Peel && crossing.is_service(),
        Account::Peels | Account::Operators => Account::of(grant.role) == by,
    };
    let rows = TABLE.iter().filter(|grant| grant.crossing == crossing).filter(is_used);
    rows.map(Grant::of_anybody).collect()
}

/// Whether a subject is one of a pattern's.
pub fn matches(pattern: &str, subject: &str) -> bool {
    let mut words = subject.split('.');
    for part in pattern.split('.') {
        match (part, words.next()) {
            (">", Some(_)) => return true,
            (_, None) => return false,
            ("*", Some(_)) => {}
            (part, Some(word)) if part == word => {}
            _ => return false,
        }
    }
    words.next().is_none()
}

/// The table of the documentation.
pub fn markdown() -> String {
    let mut text = String::from("| role | may | subject | crosses | for |\n|---|---|---|---|---|\n");
    for grant in TABLE {
        let act = match grant.act {
            Act::Publish => "publish",
            Act::Subscribe => "subscribe",
        };
        let crossing = match grant.crossing {
            Crossing::None => "",
            Crossing::ServiceOfCore => "service of CORE",
            Crossing::ServiceOfPeels => "service of PEELS",
            Crossing::StreamOfCore => "stream of CORE",
            Crossing::StreamOfPeels => "stream of PEELS",
        };
        let (role, subject, purpose) = (grant.role, grant.subject("<name>"), grant.purpose);
        let _infallible = writeln!(text, "| {role} | {act} | `{subject}` | {crossing} | {purpose} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("I-2", "I-9")]
    fn i2_a_peel_publishes_its_own_subjects_and_nothing_else() {
        let may = |subject: &str| allows(Role::Peel, Act::Publish, "web-01", subject);
        for own in [
            "zester.event.web-01.send.deploy.done",
            "zester.event.web-01.beacon.load",
            "zester.job.2hPx2Kd8VnR7YmWqTz4PLsCfNjA.return.web-01",
            "zester.heartbeat.web-01",
            "$KV.facts.web-01",
            "$JS.API.DIRECT.GET.KV_state-files.$KV.state-files._revision",
        ] {
            assert!(may(own), "{own}");
        }
        for other in [
            "zester.event.web-02.send.x",
            "zester.event._master.x",
            "zester.event._admin.send.x",
            "zester.cmd.web-01",
            "zester.cmd.web-02",
            "zester.dispatch",
            "zester.admin.kill",
            "zester.notify.trust",
            "zester.job.2hPx2Kd8VnR7YmWqTz4PLsCfNjA.return.web-02",
            "zester.job.2hPx2Kd8VnR7YmWqTz4PLsCfNjA.cancel",
            "$KV.facts.web-02",
            "$KV.state-files._revision",
            "$KV.trust.roster",
            "$JS.API.STREAM.PURGE.KV_jobs",
            "$JS.API.STREAM.DELETE.KV_jobs",
            "$JS.API.CONSUMER.CREATE.KV_facts",
            "$JS.API.STREAM.MSG.GET.KV_jobs",
            "$JS.API.DIRECT.GET.KV_facts.$KV.facts.web-02",
            "_INBOX.x",
            "_INBOX.web-02.x",
        ] {
            assert!(!may(other), "{other}");
        }
    }

    #[test]
    #[rule("I-9")]
    fn i9_no_peel_holds_a_wide_grant_or_makes_a_consumer() {
        for grant in TABLE.iter().filter(|grant| grant.role == Role::Peel) {
            let subject = grant.subject("web-01");
            let wide = ["$JS.>", "$JS.API.>", "_INBOX.>", ">", "zester.>", "$KV.>"];
            assert!(!wide.contains(&subject.as_str()), "{subject}");
            assert!(!subject.contains("CONSUMER"), "{subject}");
            let is_own_inbox = subject == "_INBOX.web-01.>";
            assert!(is_own_inbox || !subject.starts_with("_INBOX"), "{subject}");
            assert!(!subject.starts_with("$SYS"), "{subject}");
        }
    }

    #[test]
    #[rule("I-2")]
    fn i2_what_a_peel_may_do_alone_names_it() {
        // Shared by all peels: reads of what is published to everybody, one question, and notices.
        let shared = |grant: &&Grant| grant.role == Role::Peel && grant.subject("a") == grant.subject("b");
        let shared: Vec<String> = TABLE.iter().filter(shared).map(|grant| grant.subject("x")).collect();
        assert_eq!(
            shared,
            [
                "zester.target.resolve",
                "$JS.API.DIRECT.GET.KV_state-files.$KV.state-files.>",
                "$JS.API.DIRECT.GET.KV_settings-files.$KV.settings-files.>",
                "$JS.API.DIRECT.GET.KV_trust.$KV.trust.roster",
                "zester.notify.*",
            ]
        );
    }

    #[test]
    #[rule("I-2", "I-14")]
    fn i2_everything_of_a_peel_and_an_operator_crosses_by_a_row_and_nothing_of_core_does() {
        for grant in TABLE {
            let crosses = grant.crossing != Crossing::None;
            let is_inbox = grant.subject.starts_with("_INBOX");
            // Subscriptions that name a job cover several rows; nothing is published there in the account itself.
            let is_cover = grant.role == Role::Operator
                && grant.act == Act::Subscribe
                && ["zester.job.>", "zester.event.>"].contains(&grant.subject);
            let of_core = Account::of(grant.role) == Account::Core;
            assert_eq!(crosses, !of_core && !is_inbox && !is_cover, "{grant:?}");
        }
        let one = |subject: &str| BTreeSet::from([subject.to_string()]);
        assert_eq!(offered(Crossing::ServiceOfPeels), one("zester.cmd.*"));
        for by in [Account::Core, Account::Operators] {
            assert_eq!(used(by, Crossing::ServiceOfPeels), one("zester.cmd.*"), "{by:?}");
        }
        assert_eq!(used(Account::Peels, Crossing::StreamOfCore), one("zester.notify.*"));
        for (by, crossing) in [
            (Account::Core, Crossing::ServiceOfCore),
            (Account::Core, Crossing::StreamOfCore),
            (Account::Core, Crossing::StreamOfPeels),
            (Account::Peels, Crossing::ServiceOfPeels),
            (Account::Peels, Crossing::StreamOfPeels),
        ] {
            assert_eq!(used(by, crossing), BTreeSet::new(), "{by:?} {crossing:?}");
        }
        let peels = used(Account::Peels, Crossing::ServiceOfCore);
        assert!(!peels.contains("zester.dispatch") && peels.contains("zester.target.resolve"), "{peels:?}");
    }

    #[test]
    #[rule("I-14")]
    fn i14_an_operator_asks_nothing_of_jetstream_but_single_records_and_writes_none() {
        for grant in TABLE.iter().filter(|grant| grant.role == Role::Operator && grant.act == Act::Publish) {
            let subject = grant.subject("bob");
            let is_read = subject.strip_prefix("$JS.API.DIRECT.GET.");
            assert!(!subject.starts_with('$') || is_read.is_some(), "{subject}");
            // The store stands in the subject, whole: nothing that a wildcard could widen.
            assert!(is_read.is_none_or(|store| !store.contains(['*', '>', '.'])), "{subject}");
        }
    }

    #[test]
    #[rule("I-2")]
    fn i2_the_table_of_the_documentation_is_this_one() {
        let page = include_str!("../../../docs/security.md");
        assert!(page.contains(&markdown()), "docs/security.md should hold:\n{}", markdown());
    }

    #[test]
    fn a_pattern_holds_what_all_its_subjects_hold() {
        for (wide, narrow, is) in [
            ("a.*.c.>", "a.b.c.>", true),
            ("a.>", "a.*", true),
            ("a.*", "a.>", false),
            ("a.*", "a.b", true),
            ("a.b", "a.*", false),
            ("a.*", "a.b.c", false),
            ("a.b.c", "a.b", false),
        ] {
            assert_eq!(holds(wide, narrow), is, "{wide} {narrow}");
        }
    }

    #[test]
    fn patterns_match_as_the_server_matches() {
        for (pattern, subject, is) in [
            ("a.*.c", "a.b.c", true),
            ("a.*.c", "a.b.d", false),
            ("a.>", "a.b.c", true),
            ("a.>", "a", false),
            ("a.*", "a.b.c", false),
            ("a.b", "a.b", true),
            ("a.b", "a", false),
        ] {
            assert_eq!(matches(pattern, subject), is, "{pattern} {subject}");
        }
    }
}
