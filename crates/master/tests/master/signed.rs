//! Masters that believe only who is a member, and what they say to an operator whose clock is wrong.

use crate::fleet::{Fleet, eventually};
use std::sync::Arc;
use std::time::Duration;
use zester_identity::authority::{self, Secrets};
use zester_identity::limits::REQUEST_AGE_MAX;
use zester_identity::{KeyKind, KeyPair, Role};
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

#[tokio::test(start_paused = true)]
#[rule("I-8", "J-28")]
async fn i8_a_request_that_was_kept_is_refused_and_the_clock_is_named() {
    let fleet = Fleet::new().await;
    let now = SystemClock.wall();
    let mut seed = 0;
    let secrets = Secrets::new(|| {
        seed += 1;
        [seed; 32]
    });
    let secrets = secrets.unwrap();
    let mut members = authority::Fleet::new(&secrets);
    let mut roster = authority::first_roster(secrets.issuer.public(), now).unwrap();
    let mut join = |role, name: &str, seed: u8| {
        let pair = KeyPair::new(KeyKind::User, [seed; 32]).unwrap();
        members.member((role, name), pair, &secrets.core, &mut roster, (now, Duration::ZERO)).unwrap()
    };
    let (master, ann) = (join(Role::Master, "m1", 11), join(Role::Admin, "ann", 12));
    let signed = authority::signed(&authority::renewed(&roster, now), &secrets.core).unwrap();
    let anchor = secrets.core.public();
    let (master, ann) = (master.with_roster(anchor, &signed), ann.with_roster(anchor, &signed));
    let bus = || Arc::new(fleet.net.connect("ann"));
    let master = Link::new(Arc::new(fleet.net.connect("m1"))).signed(master).unwrap();
    let master = fleet.start_with("m1", master, Timing::default());
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
