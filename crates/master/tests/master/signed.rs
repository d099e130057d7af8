//! Masters that believe only who is a member, and what they say to an operator whose clock is wrong.

use crate::again::record;
use crate::fleet::{Fleet, eventually};
use std::sync::Arc;
use std::time::Duration;
use zester_identity::authority::{self, Secrets};
use zester_identity::limits::REQUEST_AGE_MAX;
use zester_identity::{Credentials, KeyKind, KeyPair, Role};
use zester_jobs::Timing;
use zester_link::{Clock, Link, OsDice, SystemClock};
use zester_rule::rule;
use zester_wire::*;

/// Behind by so much.
struct Behind(Duration);

impl Clock for Behind {
    fn wall(&self) -> UnixMillis {
        UnixMillis(SystemClock.wall().0 - u64::try_from(self.0.as_millis()).unwrap())
    }
}

/// Who is who, and who was.
pub struct Members {
    pub secrets: Secrets,
    pub fleet: authority::Fleet,
    pub roster: Roster,
    pub now: UnixMillis,
}

impl Members {
    pub fn new() -> Members {
        let mut seed = 0;
        let secrets = Secrets::new(|| {
            seed += 1;
            [seed; 32]
        });
        let (secrets, now) = (secrets.unwrap(), SystemClock.wall());
        let roster = authority::first_roster(secrets.issuer.public(), now).unwrap();
        Members { fleet: authority::Fleet::new(&secrets), roster, secrets, now }
    }

    pub fn join(&mut self, role: Role, name: &str, seed: u8) -> authority::Unsealed {
        let pair = KeyPair::new(KeyKind::User, [seed; 32]).unwrap();
        let when = (self.now, Duration::ZERO);
        self.fleet.member((role, name), pair, &self.secrets.core, &mut self.roster, when).unwrap()
    }

    /// With the roster as it is now.
    pub fn credentials(&self, of: authority::Unsealed) -> Credentials {
        let renewed = authority::renewed(&self.roster, self.now);
        let signed = authority::signed(&renewed, &self.secrets.core).unwrap();
        of.with_roster(self.secrets.core.public(), &signed)
    }
}

/// Takes part with a key.
pub fn joined(fleet: &Fleet, name: &str, credentials: Credentials) -> Link {
    Link::new(Arc::new(fleet.net.connect(name))).signed(credentials).unwrap()
}

#[tokio::test(start_paused = true)]
#[rule("J-13", "I-5")]
async fn j13_the_record_of_a_revoked_master_keeps_no_other_job_from_being_adopted() {
    let fleet = Fleet::new().await;
    let mut members = Members::new();
    let (stolen, dead) = (members.join(Role::Master, "m1", 11), members.join(Role::Master, "m2", 12));
    let (alive, ann) = (members.join(Role::Master, "m3", 13), members.join(Role::Admin, "ann", 14));
    let stolen = joined(&fleet, "m1", members.credentials(stolen));
    members.fleet.revoke("m1", &mut members.roster, members.now).unwrap();
    let dead = joined(&fleet, "m2", members.credentials(dead));
    let ann = joined(&fleet, "ann", members.credentials(ann));
    // Two jobs of masters that are gone; what one of them signed counts no more.
    let mut jids = Vec::new();
    for (link, owner) in [(&stolen, "m1"), (&dead, "m2")] {
        let owner = MasterId::new(owner, "boot").unwrap();
        let request = fleet.request("web-1");
        let job = record(&request, &owner, JobStatus::Running, link.now());
        link.put(&Key::Job(job.jid.clone()), &job).await.unwrap();
        link.put(&Key::Active(job.jid.clone()), &job).await.unwrap();
        jids.push(job.jid);
    }
    let alive = joined(&fleet, "m3", members.credentials(alive));
    let master = fleet.start_with("m3", alive, Timing::default());
    let record_of = async |jid: &Jid| ann.get::<Job>(&Key::Job(jid.clone())).await.ok()?;
    let adopted = eventually("the job of the dead master is adopted", async || {
        record_of(&jids[1]).await.filter(|found| found.value.owner.as_str().starts_with("m3"))
    });
    assert_eq!(adopted.await.value.reclaim_count, 1);
    let ended = eventually("the job that nobody can go on with ends", async || record_of(&jids[0]).await);
    let ended = ended.await.value;
    assert_eq!(ended.status, JobStatus::Failed);
    assert!(ended.reason.contains("its key was revoked"), "{}", ended.reason);
    eventually("nothing marks it as active", async || {
        ann.bus().get("jobs", &Key::Active(jids[0].clone()).to_string()).await.ok()?.is_none().then_some(())
    })
    .await;
    master.stop().await;
}

#[tokio::test(start_paused = true)]
#[rule("I-8", "J-28")]
async fn i8_a_request_that_was_kept_is_refused_and_the_clock_is_named() {
    let fleet = Fleet::new().await;
    let mut members = Members::new();
    let (master, ann) = (members.join(Role::Master, "m1", 11), members.join(Role::Admin, "ann", 12));
    let (master, ann) = (members.credentials(master), members.credentials(ann));
    let bus = || Arc::new(fleet.net.connect("ann"));
    let master = fleet.start_with("m1", joined(&fleet, "m1", master), Timing::default());
    let current = Link::new(bus()).signed(ann.clone()).unwrap();
    let asked = async |link: &Link| {
        let request = DispatchRequest { targets: Vec::new(), ..fleet.request("nobody") };
        let dispatched: DispatchReply =
            link.request(&Subject::Dispatch, &request, Duration::from_secs(5)).await.ok()?;
        let kill = AdminRequest::Kill { jid: request.jid, user: String::new(), reason: String::new() };
        let subject = Subject::Admin { verb: Token::parse("kill").unwrap() };
        let killed: AdminReply = link.request(&subject, &kill, Duration::from_secs(5)).await.ok()?;
        Some([dispatched.error.unwrap(), killed.error.unwrap()])
    };
    let [dispatched, killed] = eventually("the master listens", async || {
        let refused = asked(&current).await?;
        (refused[0].kind != RefusalKind::Unavailable).then_some(refused)
    })
    .await;
    assert_eq!((dispatched.kind, killed.kind), (RefusalKind::NoTargets, RefusalKind::NoSuchJob));
    // Somebody kept what was signed some minutes ago, and sends it now.
    let late = Behind(REQUEST_AGE_MAX + Duration::from_secs(5));
    let late = Link::with(bus(), Arc::new(late), Arc::new(OsDice)).signed(ann).unwrap();
    let request = fleet.request("nobody");
    let dispatch = late.seal("zester.dispatch", late.new_message_id().unwrap(), &request).unwrap();
    let kill = AdminRequest::Kill { jid: request.jid, user: String::new(), reason: String::new() };
    let kill = late.seal("zester.admin.kill", late.new_message_id().unwrap(), &kill).unwrap();
    let answer = async |subject: &str, sealed| {
        let answer = current.bus().request(subject, sealed, Duration::from_secs(5)).await.unwrap();
        decode::<Envelope>(&answer.payload).unwrap()
    };
    let dispatched: DispatchReply = answer("zester.dispatch", dispatch).await.open().unwrap();
    let killed: AdminReply = answer("zester.admin.kill", kill).await.open().unwrap();
    for refusal in [dispatched.error.unwrap(), killed.error.unwrap()] {
        assert!(refusal.message.contains("older than 300 s is not taken"), "{refusal}");
        assert!(refusal.hint.contains("clock"), "{refusal}");
        assert!(!refusal.kind.is_retryable());
    }
    master.stop().await;
}
