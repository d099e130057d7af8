//! Links with credentials: each is believed where it may speak, and nowhere else; nobody else is anywhere.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;
use zester_bus::memory::{Net, TokioClock};
use zester_bus::{Listen, storage};
use zester_identity::authority::{self, Fleet, PEEL_LIFE, Secrets};
use zester_identity::{Credentials, KeyKind, KeyPair, Role, Spoof};
use zester_link::{Clock, Error, Link, OsDice, Reason};
use zester_rule::rule;
use zester_wire::*;

const NOW: UnixMillis = UnixMillis(1_790_000_000_000);

struct Still;

impl Clock for Still {
    fn wall(&self) -> UnixMillis {
        NOW
    }
}

struct World {
    net: Net,
    secrets: Secrets,
    fleet: Fleet,
    roster: Roster,
    members: Vec<Credentials>,
}

fn user(seed: u8) -> KeyPair {
    KeyPair::new(KeyKind::User, [seed; 32]).unwrap()
}

fn peel(name: &str) -> PeelId {
    PeelId::parse(name).unwrap()
}

impl World {
    /// The master m1, the admin ann, the peels web-1 and web-2.
    async fn start() -> World {
        let net = Net::new(Arc::new(TokioClock::new()));
        storage::ensure_all(&net.connect("maker"), &storage::table(), 1).await.unwrap();
        let mut seed = 0;
        let secrets = Secrets::new(|| {
            seed += 1;
            [seed; 32]
        });
        let secrets = secrets.unwrap();
        let mut fleet = Fleet::new(&secrets);
        let mut roster = authority::first_roster(secrets.issuer.public(), NOW).unwrap();
        let (mut unsealed, at) = (Vec::new(), (NOW, Duration::ZERO));
        for (role, name, seed) in [(Role::Master, "m1", 11), (Role::Admin, "ann", 12)] {
            unsealed.push(fleet.member((role, name), user(seed), &secrets.core, &mut roster, at).unwrap());
        }
        for (name, seed) in [("web-1", 21), ("web-2", 22)] {
            unsealed.push(fleet.peel(&peel(name), user(seed), &secrets.issuer, NOW, PEEL_LIFE).unwrap());
        }
        let roster = authority::renewed(&roster, NOW);
        let signed = authority::signed(&roster, &secrets.core).unwrap();
        let anchor = secrets.core.public();
        let members = unsealed.into_iter().map(|one| one.with_roster(anchor, &signed)).collect();
        World { net, secrets, fleet, roster, members }
    }

    fn unsigned(&self, name: &str) -> Link {
        Link::with(Arc::new(self.net.connect(name)), Arc::new(Still), Arc::new(OsDice))
    }

    fn link(&self, name: &str) -> Link {
        let credentials = self.members.iter().find(|one| one.name == name).unwrap().clone();
        self.unsigned(name).signed(credentials).unwrap()
    }
}

fn ack(jid: &Jid, name: &str) -> Ack {
    Ack { v: 1, jid: jid.clone(), peel: peel(name), dispatch_epoch: 1, ts: NOW, ahead: 0 }
}

#[tokio::test(start_paused = true)]
#[rule("I-8")]
async fn i8_a_message_is_believed_from_whom_its_subject_names_and_a_spoof_is_counted() {
    let world = World::start().await;
    let master = world.link("m1");
    let jid = master.new_jid();
    let subject = Subject::JobAck { jid: jid.clone(), peel: peel("web-1") };
    let mut heard = master.bus().subscribe(subject::ALL_ACKS, Listen::alone(8)).await.unwrap();
    let senders = [world.link("web-1"), world.link("web-2"), world.link("ann"), world.unsigned("stranger")];
    for sender in &senders {
        sender.publish(&subject, &ack(&jid, "web-1")).await.unwrap();
    }
    let mut believed = Vec::new();
    for _ in &senders {
        let raw = master.delivered(heard.next().await.unwrap()).unwrap();
        believed.extend(
            master.open_addressed::<Ack>(&subject, &raw.payload).map(|opened| opened.principal.unwrap()),
        );
    }
    let named: Vec<(Role, &str)> = believed.iter().map(|who| (who.role, who.name.as_str())).collect();
    assert_eq!(named, [(Role::Peel, "web-1")]);
    assert_eq!(master.dropped().of(Reason::Spoof), 3);
    assert_eq!(master.dropped().total(), 3);
}

#[tokio::test(start_paused = true)]
#[rule("I-12")]
async fn i12_a_record_that_was_forged_moved_or_never_signed_is_refused() {
    let world = World::start().await;
    let (master, web) = (world.link("m1"), world.link("web-1"));
    let beat = |name: &str| PeelHeartbeat::new(peel(name), master.new_token().unwrap(), 1, NOW);
    let key = Key::Peel(peel("web-1"));
    web.put(&key, &beat("web-1")).await.unwrap();
    assert_eq!(master.get::<PeelHeartbeat>(&key).await.unwrap().unwrap().value.peel, peel("web-1"));
    let why = |found: Result<Option<zester_link::Found<PeelHeartbeat>>, Error>| match found {
        Err(Error::Spoof { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    // Written by another, by nobody who signs, and as it was by who edits the store.
    world.link("web-2").put(&key, &beat("web-1")).await.unwrap();
    assert!(matches!(why(master.get(&key).await), Spoof::NotTheirs(_)));
    world.unsigned("stranger").put(&key, &beat("web-1")).await.unwrap();
    assert_eq!(why(master.get(&key).await), Spoof::Unsigned);
    let other = Key::Peel(peel("web-2"));
    world.link("web-2").put(&other, &beat("web-2")).await.unwrap();
    let entry = master.bus().get("peel-seen", "web-2").await.unwrap().unwrap();
    master.bus().put("peel-seen", "web-1", entry.value).await.unwrap();
    assert_eq!(why(master.get(&key).await), Spoof::BadSignature);
    // Of masters: a lease that an admin or a peel wrote is none.
    let lease = Key::Lease(Token::parse("publisher").unwrap());
    for (name, holds) in [("m1", true), ("ann", false), ("web-1", false)] {
        let holder = MasterId::parse("m1.boot").unwrap();
        let record = Lease { v: 1, name: Token::parse("publisher").unwrap(), holder, since: NOW, serial: 1 };
        world.link(name).put(&lease, &record).await.unwrap();
        assert_eq!(world.link("web-2").get::<Lease>(&lease).await.is_ok(), holds, "{name}");
    }
}

#[tokio::test(start_paused = true)]
#[rule("I-8", "I-9")]
async fn i8_an_answer_is_believed_from_a_master_only() {
    let world = World::start().await;
    let subject = Subject::TargetResolve;
    for (name, is_believed) in [("m1", true), ("web-2", false)] {
        let server = world.link(name);
        let mut asked = server.bus().subscribe(&subject.to_string(), Listen::alone(8)).await.unwrap();
        let answering = tokio::spawn(async move {
            let raw = server.delivered(asked.next().await.unwrap()).unwrap();
            let reply = ResolveReply {
                v: 1,
                peels: vec![peel("web-1")],
                too_many: false,
                explained: None,
                error: None,
            };
            server.answer(raw.reply.as_deref(), &reply).await.unwrap();
        });
        let asked = world.link("ann");
        let question = ResolveRequest::of("*");
        let answer = asked.request::<_, ResolveReply>(&subject, &question, Duration::from_secs(1)).await;
        answering.await.unwrap();
        match answer {
            Ok(_) => assert!(is_believed, "{name}"),
            Err(error) => assert!(!is_believed && matches!(error, Error::Spoof { .. }), "{name}: {error}"),
        }
    }
}

#[tokio::test(start_paused = true)]
#[rule("I-5", "I-8")]
async fn i5_a_new_roster_counts_at_once_and_an_old_one_never_again() {
    let mut world = World::start().await;
    let (master, web) = (world.link("m1"), world.link("web-1"));
    let first = authority::signed(&world.roster, &world.secrets.core).unwrap();
    let key = Key::Peel(peel("web-1"));
    web.put(&key, &PeelHeartbeat::new(peel("web-1"), web.new_token().unwrap(), 1, NOW)).await.unwrap();
    assert!(master.get::<PeelHeartbeat>(&key).await.is_ok());
    let kept = Arc::new(std::sync::Mutex::new(Vec::new()));
    let keep = kept.clone();
    let following =
        tokio::spawn(master.clone().follow_trust(move |bytes| keep.lock().unwrap().push(bytes.to_vec())));
    world.fleet.revoke("web-1", &mut world.roster, NOW).unwrap();
    let second = authority::signed(&authority::renewed(&world.roster, NOW), &world.secrets.core).unwrap();
    let ann = world.link("ann");
    let tell = async |bytes: &[u8]| {
        ann.bus().put("trust", "roster", zester_bus::Bytes::copy_from_slice(bytes)).await.unwrap();
        let what = Token::parse("trust").unwrap();
        let notice = Notice { v: 1, bucket: what.clone(), revision: 1 };
        ann.publish(&Subject::Notify { what }, &notice).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    tell(&second).await;
    assert_eq!(*kept.lock().unwrap(), [second]);
    let refused = master.get::<PeelHeartbeat>(&key).await.unwrap_err();
    assert!(matches!(refused, Error::Spoof { why: Spoof::Revoked, .. }), "{refused}");
    // Somebody puts the roster back in which web-1 counted.
    tell(&first).await;
    assert!(master.get::<PeelHeartbeat>(&key).await.is_err());
    assert_eq!(kept.lock().unwrap().len(), 1);
    assert!(master.dropped().of(Reason::Spoof) >= 1);
    following.abort();
}

/// A clock that is off.
struct Off(i64);

impl Clock for Off {
    fn wall(&self) -> UnixMillis {
        UnixMillis(NOW.0.saturating_add_signed(self.0 * 1000))
    }
}

impl World {
    fn link_at(&self, name: &str, seconds: i64) -> Link {
        let credentials = self.members.iter().find(|one| one.name == name).unwrap().clone();
        let bus = Arc::new(self.net.connect(name));
        Link::with(bus, Arc::new(Off(seconds)), Arc::new(OsDice)).signed(credentials).unwrap()
    }
}

#[tokio::test(start_paused = true)]
#[rule("I-15", "I-8")]
async fn i15_what_a_replaced_key_signs_after_its_end_is_refused_however_it_is_dated() {
    let mut world = World::start().await;
    let jid = Jid::parse("2hPx2Kd8VnR7YmWqTz4PLsCfNjA").unwrap();
    let subject = Subject::JobCancel { jid: jid.clone() };
    let event = JobEvent {
        v: 1,
        jid,
        ts: NOW,
        event: JobEventKind::Canceled { data: String::new(), by: "ann".into() },
    };
    let old = world.link("m1");
    let sealed = old.seal(&subject.to_string(), old.new_message_id().unwrap(), &event).unwrap();
    // The master gets a new key; the old one counts for a minute more.
    let minute = Duration::from_secs(60);
    world
        .fleet
        .member((Role::Master, "m1"), user(31), &world.secrets.core, &mut world.roster, (NOW, minute))
        .unwrap();
    let next = authority::signed(&authority::renewed(&world.roster, NOW), &world.secrets.core).unwrap();
    let opened = |seconds: i64, kept: Option<u64>| {
        let reader = world.link_at("ann", seconds);
        reader.trust().unwrap().take(&next).unwrap();
        let record = |at| zester_bus::Record {
            subject: subject.to_string(),
            payload: sealed.clone(),
            sequence: 1,
            at,
        };
        match kept {
            Some(at) => reader.open_addressed::<JobEvent>(&subject, &record(at)).is_some(),
            None => reader.open_addressed::<JobEvent>(&subject, &sealed).is_some(),
        }
    };
    assert!(opened(60, None), "within its time");
    assert!(opened(360, None), "a clock may be off");
    assert!(!opened(361, None), "it was dated back");
    assert!(opened(86_400, Some(NOW.0)), "the stream has had it since before");
    assert!(!opened(86_400, Some(NOW.0 + 361_000)), "the stream has had it since after");
}

/// Who writes what stands under a key: a new kind of key does not compile here, and is to be tried below.
fn writer(key: &Key) -> Option<&'static str> {
    match key {
        Key::Job(_)
        | Key::Active(_)
        | Key::Return(..)
        | Key::TargetPage(..)
        | Key::Master(_)
        | Key::Lease(_)
        | Key::Manifest(_)
        | Key::ManifestOf(..)
        | Key::Revision(_)
        | Key::Enrollment(_)
        | Key::JoinToken(_) => Some("m1"),
        Key::Peel(_) | Key::Facts(_) => Some("web-1"),
        // Contents prove themselves by their hash, and the roster by its anchor: they are in no envelope.
        Key::Content(..) | Key::Roster => None,
    }
}

#[tokio::test(start_paused = true)]
#[rule("I-12")]
async fn i12_every_kind_of_record_is_believed_from_its_writer_alone() {
    let world = World::start().await;
    let (jid, web, of) = (world.link("m1").new_jid(), peel("web-1"), Published::States);
    let token = Token::parse("publisher").unwrap();
    let by_master = [
        Key::Job(jid.clone()),
        Key::Active(jid.clone()),
        Key::Return(jid.clone(), web.clone()),
        Key::Master(MasterId::parse("m1.boot").unwrap()),
        Key::Lease(token),
        Key::Manifest(of),
        Key::ManifestOf(of, 1),
        Key::Revision(of),
        Key::TargetPage(jid.clone(), Token::parse("list").unwrap(), 0),
        Key::Enrollment(web.clone()),
        Key::JoinToken(Token::parse("0707").unwrap()),
    ];
    let by_peel = [Key::Peel(web.clone()), Key::Facts(web)];
    assert!(by_master.iter().all(|key| writer(key) == Some("m1")));
    assert!(by_peel.iter().all(|key| writer(key) == Some("web-1")));
    let note = Notice { v: 1, bucket: Token::parse("x").unwrap(), revision: 1 };
    for (keys, writer) in [(&by_master[..], "m1"), (&by_peel[..], "web-1")] {
        for key in keys {
            for name in ["m1", "ann", "web-1", "web-2"] {
                world.link(name).put(key, &note).await.unwrap();
                let read = world.link("ann").get::<Notice>(key).await;
                assert_eq!(read.is_ok(), name == writer, "{key} by {name}: {read:?}");
            }
            world.unsigned("stranger").put(key, &note).await.unwrap();
            let unsigned = world.link("ann").get::<Notice>(key).await.unwrap_err();
            assert!(matches!(unsigned, Error::Spoof { why: Spoof::Unsigned, .. }), "{key}: {unsigned}");
            // Good under another key, moved here by who edits the store.
            let other = Key::Lease(Token::parse("elsewhere").unwrap());
            world.link("m1").put(&other, &note).await.unwrap();
            let entry = world.link("m1").bus().get("leases", "elsewhere").await.unwrap().unwrap();
            let bus = world.net.connect("broker");
            zester_bus::Bus::put(&bus, key.bucket().as_str(), &key.to_string(), entry.value).await.unwrap();
            assert!(world.link("ann").get::<Notice>(key).await.is_err(), "{key}");
        }
    }
}

#[tokio::test(start_paused = true)]
#[rule("I-12")]
async fn i12_a_return_is_proven_by_its_peel_and_not_by_the_master_that_stored_it() {
    let world = World::start().await;
    let (master, web, reader) = (world.link("m1"), world.link("web-1"), world.link("ann"));
    let (jid, other) = (master.new_jid(), master.new_jid());
    let said = |jid: &Jid, success| Return {
        success,
        answer: "what it did".into(),
        ..Return::refusing(jid.clone(), peel("web-1"), 1, Cause::Finished, "")
    };
    let sent = |link: &Link, ret: &Return| {
        link.seal(&ret.subject().to_string(), link.new_message_id().unwrap(), ret).unwrap()
    };
    let key = Key::Return(jid.clone(), peel("web-1"));
    // A master opens what came, and stores that; it alone says that it came late.
    let failed = said(&jid, false);
    let subject = failed.subject();
    let came = master.open_return(&subject, &sent(&web, &failed)).unwrap();
    let late = Return { late: true, ..came.clone() };
    master.put(&key, &late.kept()).await.unwrap();
    let read = reader.get::<Return>(&key).await.unwrap().unwrap().value;
    assert_eq!((read.success, read.late, &read.answer), (false, true, &failed.answer));
    assert_eq!(reader.returns_of(&jid).await.unwrap().len(), 1);
    // A master that says otherwise: in its own words, in words that it signed, in those of another peel, and of another job.
    let lies = [
        said(&jid, true),
        Return { own: sent(&master, &said(&jid, true)).to_vec(), ..said(&jid, true) },
        Return { own: sent(&world.link("web-2"), &said(&jid, true)).to_vec(), ..said(&jid, true) },
        Return { own: sent(&web, &said(&other, true)).to_vec(), ..said(&jid, true) },
    ];
    for (number, lie) in lies.iter().enumerate() {
        master.put(&key, lie).await.unwrap();
        let read = reader.get::<Return>(&key).await;
        assert!(read.is_err(), "{number}: {read:?}");
        assert!(reader.returns_of(&jid).await.unwrap().is_empty(), "{number}");
    }
    // What is changed around the words of the peel changes nothing of them.
    let dressed = Return { success: true, error: "all is well".into(), ..came };
    master.put(&key, &dressed).await.unwrap();
    let read = reader.get::<Return>(&key).await.unwrap().unwrap().value;
    assert_eq!((read.success, read.error.as_str()), (false, ""));
}

#[tokio::test(start_paused = true)]
#[rule("I-12")]
async fn i12_a_broker_that_edits_any_byte_of_a_record_is_noticed_in_every_bucket() {
    let world = World::start().await;
    let (jid, web, of) = (world.link("m1").new_jid(), peel("web-1"), Published::States);
    let note = Notice { v: 1, bucket: Token::parse("x").unwrap(), revision: 1 };
    let bus = world.net.connect("broker");
    for (key, writer) in [
        (Key::Job(jid.clone()), "m1"),
        (Key::Active(jid.clone()), "m1"),
        (Key::Return(jid, web.clone()), "m1"),
        (Key::Master(MasterId::parse("m1.boot").unwrap()), "m1"),
        (Key::Lease(Token::parse("publisher").unwrap()), "m1"),
        (Key::Manifest(of), "m1"),
        (Key::Revision(of), "m1"),
        (Key::Peel(web.clone()), "web-1"),
        (Key::Facts(web), "web-1"),
    ] {
        world.link(writer).put(&key, &note).await.unwrap();
        let (bucket, name) = (key.bucket().as_str(), key.to_string());
        let good = zester_bus::Bus::get(&bus, bucket, &name).await.unwrap().unwrap().value;
        let envelope: Envelope = decode(&good).unwrap();
        for edited in [
            Envelope {
                payload: encode(&Notice { revision: 2, ..note.clone() }).unwrap(),
                ..envelope.clone()
            },
            Envelope { ts: UnixMillis(envelope.ts.0 - 1), ..envelope.clone() },
            Envelope { id: MessageId::parse("other").unwrap(), ..envelope.clone() },
            Envelope { key: String::new(), sig: Vec::new(), ..envelope.clone() },
        ] {
            let bytes = encode(&edited).unwrap();
            zester_bus::Bus::put(&bus, bucket, &name, bytes.into()).await.unwrap();
            assert!(world.link("ann").get::<Notice>(&key).await.is_err(), "{key}");
        }
        zester_bus::Bus::put(&bus, bucket, &name, good).await.unwrap();
        assert!(world.link("ann").get::<Notice>(&key).await.is_ok(), "{key}: as it was");
    }
}

#[tokio::test(start_paused = true)]
#[rule("I-12", "I-7")]
async fn i12_a_broker_that_puts_an_older_record_back_is_noticed_in_every_store_that_changes_in_place() {
    let world = World::start().await;
    let (master, reader) = (world.link("m1"), world.link("ann"));
    let broker = world.net.connect("broker");
    let jid = master.new_jid();
    let owner = MasterId::parse("m1.boot").unwrap();
    let claimed = Job {
        status: JobStatus::Claimed,
        epoch: 1,
        ..Job::untold(jid.clone(), owner.clone(), String::new(), NOW)
    };
    let adopted = Job { status: JobStatus::Running, epoch: 2, ..claimed.clone() };
    let over = Job { status: JobStatus::Canceled, ..adopted.clone() };
    let name = Token::parse("publisher").unwrap();
    let lease = |serial| Lease { v: 1, name: name.clone(), holder: owner.clone(), since: NOW, serial };
    let web = peel("web-1");
    let enrolled = |status, serial| Enrollment {
        v: 1,
        id: Token::parse("0011223344556677-web-1").unwrap(),
        peel: web.clone(),
        key: "U".into(),
        status,
        address: String::new(),
        requested: NOW,
        changed: NOW,
        by: String::new(),
        reason: String::new(),
        token: None,
        until: None,
        former: Vec::new(),
        serial,
        rest: Default::default(),
    };
    let used = TokenUse { key: "U".into(), peel: web.clone(), at: NOW };
    let token = |used| JoinToken {
        v: 1,
        digest: vec![7; 32],
        names: "*".into(),
        address: None,
        until: NOW,
        label: String::new(),
        hold: false,
        by: "ann".into(),
        made: NOW,
        used,
    };
    struct Probe<'a> {
        master: &'a Link,
        reader: &'a Link,
        broker: &'a dyn zester_bus::Bus,
    }
    impl Probe<'_> {
        async fn goes_back<T: Message + Clone>(&self, key: &Key, older: &T, newer: &T) {
            let (bucket, name) = (key.bucket(), key.to_string());
            self.master.put(key, older).await.unwrap();
            let kept = self.broker.get(bucket.as_str(), &name).await.unwrap().unwrap().value;
            self.master.put(key, newer).await.unwrap();
            assert!(self.reader.get::<T>(key).await.is_ok(), "{key}");
            let counted = self.reader.dropped().of(Reason::Older);
            self.broker.put(bucket.as_str(), &name, kept).await.unwrap();
            // However it is read: by who asks any server or the leader, and by who scans or watches.
            for link in [self.reader, self.master] {
                for read in [link.get::<T>(key).await, link.get_latest::<T>(key).await] {
                    assert!(matches!(read, Err(Error::Older { .. })), "{key}: {:?}", read.err());
                }
                let entry = self.broker.get(bucket.as_str(), &name).await.unwrap().unwrap();
                assert!(matches!(link.record::<T>(bucket, &entry), Err(Error::Older { .. })), "{key}");
                let standing = link.get_standing::<T>(key).await.unwrap().unwrap();
                assert!(standing.value.is_err_and(|error| error.is_void()), "{key}");
            }
            assert!(self.reader.dropped().of(Reason::Older) > counted, "{key}: it was not counted");
            // Whoever has the newest puts it over that, and all is well again.
            self.master.put(key, newer).await.unwrap();
        }
    }
    let probe = Probe { master: &master, reader: &reader, broker: &broker };
    let key = Key::Job(jid);
    probe.goes_back(&key, &claimed, &adopted).await;
    assert!(reader.get::<Job>(&key).await.unwrap().is_some(), "written over by who knows better");
    probe.goes_back(&key, &adopted, &over).await;
    probe.goes_back(&Key::Lease(name.clone()), &lease(1), &lease(2)).await;
    let key = Key::Enrollment(web.clone());
    probe
        .goes_back(&key, &enrolled(EnrollmentStatus::Active, 1), &enrolled(EnrollmentStatus::Revoked, 2))
        .await;
    // What a master of the release before wrote has no number, and was not put back.
    master.put(&key, &enrolled(EnrollmentStatus::Pending, 0)).await.unwrap();
    assert!(reader.get_latest::<Enrollment>(&key).await.unwrap().is_some());
    assert_eq!(reader.newest_number(&key), Some(2));
    probe.goes_back(&Key::JoinToken(Token::parse("0707").unwrap()), &token(None), &token(Some(used))).await;
    // Who never saw the newer one cannot tell.
    assert_eq!(world.link("web-2").dropped().of(Reason::Older), 0);
}

#[tokio::test(start_paused = true)]
#[rule("I-13")]
async fn i13_a_peel_that_floods_a_reader_has_its_share_and_takes_nothing_of_others() {
    let world = World::start().await;
    let master = world.link("m1");
    let burst = zester_identity::limits::PEEL_SHARE.burst;
    let taken = (0..3 * burst).filter(|_| master.has_room_for(&peel("web-1"))).count() as u64;
    assert_eq!((taken, master.dropped().of(Reason::Flood)), (burst, 2 * burst));
    assert!(master.has_room_for(&peel("web-2")));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(master.has_room_for(&peel("web-1")));
}
