//! One full example of every type: all optional keys set, so that a golden file shows the whole key set.

#![allow(dead_code, reason = "each test binary uses its own part")]

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use zester_wire::*;

pub const JID: &str = "2hPx2Kd8VnR7YmWqTz4PLsCfNjA";
pub const OTHER_JID: &str = "2hPx2Kd8VnR7YmWqTz4PLsCfNjB";

pub fn jid() -> Jid {
    Jid::parse(JID).unwrap()
}

pub fn peel() -> PeelId {
    PeelId::parse("web-01").unwrap()
}

pub fn master() -> MasterId {
    MasterId::parse("m1.2hPwzBoot").unwrap()
}

pub fn token(text: &str) -> Token {
    Token::parse(text).unwrap()
}

fn map(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

pub fn job() -> Job {
    Job {
        v: 1,
        jid: jid(),
        function: "state.apply".into(),
        args: map(json!({"pkgs": ["nginx"], "port": 80})),
        state_id: "webserver".into(),
        targets: vec![peel(), PeelId::parse("web-02").unwrap()],
        target_expr: "web*".into(),
        timeout: Duration::from_secs(300),
        deadline: UnixMillis(1_700_000_300_000),
        status: JobStatus::Partial,
        created: UnixMillis(1_700_000_000_000),
        updated: UnixMillis(1_700_000_300_100),
        user: "alice".into(),
        owner: master(),
        epoch: 3,
        dispatch_epoch: 1,
        reclaim_count: 2,
        return_count: 1,
        success_count: 1,
        metadata: map(json!({"reactor_depth": 2, "source": "reactor"})),
        positionals: vec![json!("extra")],
        test: true,
        reason: "the deadline passed".into(),
        missing: BTreeMap::from([(PeelId::parse("web-02").unwrap(), Missing::Running)]),
        unknown_peels: Vec::new(),
        request: vec![1, 2, 255],
        claim_until: UnixMillis(0),
        target_digest: None,
        target_list: None,
        rest: BTreeMap::new(),
    }
}

pub fn exec() -> ExecRequest {
    ExecRequest {
        v: 1,
        jid: jid(),
        function: "state.apply".into(),
        args: map(json!({"port": 80})),
        state_id: "webserver".into(),
        dispatch_epoch: 1,
        budget: Duration::from_millis(299_500),
        user: "alice".into(),
        rdepth: 2,
        positionals: vec![json!("extra")],
        test: true,
        direct: true,
        request: vec![1, 2, 255],
        proof: None,
    }
}

pub fn returned() -> Return {
    Return {
        v: 1,
        jid: jid(),
        peel: peel(),
        dispatch_epoch: 1,
        success: false,
        error: "canceled".into(),
        duration_ms: 1200,
        ts: UnixMillis(1_700_000_001_200),
        answer: json!({"success": false, "states": {}}),
        cause: Cause::Canceled,
        canceled: true,
        late: true,
        truncated: true,
        schedule: None,
        revision: None,
        own: Vec::new(),
    }
}

pub fn dispatch_request() -> DispatchRequest {
    let job = job();
    DispatchRequest {
        v: 1,
        jid: job.jid,
        function: job.function,
        args: job.args,
        state_id: job.state_id,
        targets: job.targets,
        target_expr: job.target_expr,
        timeout: job.timeout,
        user: job.user,
        metadata: job.metadata,
        positionals: job.positionals,
        test: job.test,
        wait: None,
        target_digest: None,
    }
}

pub fn refusal() -> Refusal {
    Refusal { kind: RefusalKind::ClaimPending, message: "claim pending".into(), hint: "ask again".into() }
}

pub fn envelope() -> Envelope {
    Envelope {
        v: 1,
        id: MessageId::parse("2hPx2Kd8VnR7YmWqTz4PLsCfNjC").unwrap(),
        ts: UnixMillis(1_700_000_000_000),
        key: "UABC".into(),
        sig: vec![9, 8, 7],
        payload: vec![0x80],
        beside: Vec::new(),
        cert: Vec::new(),
    }
}

pub fn roster() -> Roster {
    let member = |role, name: &str, until| Member {
        role,
        name: Token::parse(name).unwrap(),
        key: format!("U{name}"),
        until,
    };
    Roster {
        v: 1,
        serial: 7,
        issued: UnixMillis(1_700_000_000_000),
        expires: UnixMillis(1_800_000_000_000),
        members: vec![
            member(MemberRole::Master, "m1", Some(UnixMillis(1_700_000_100_000))),
            member(MemberRole::Admin, "ann", None),
            member(MemberRole::Issuer, "m1", None),
        ],
        revoked: vec![Revoked {
            key: "Uold".into(),
            name: "web-1".into(),
            at: UnixMillis(1_700_000_000_001),
        }],
        roles: Vec::new(),
    }
}

/// Hands every example to `visit`, under the name of its golden file.
pub fn each(visit: &mut impl Visit) {
    visit.one("envelope", envelope());
    visit.one("envelope_cert", Envelope { cert: vec![0x82], ..envelope() });
    visit.one("roster", roster());
    let rule = RoleRule {
        effect: RoleEffect::Allow,
        functions: vec!["state.*".into()],
        verbs: vec!["kill".into()],
        targets: "web*".into(),
        environments: vec!["staging".into()],
        test_only: true,
        direct: true,
        line: "roles.yaml:2:5".into(),
    };
    let role = OperatorRole { name: token("deployers"), members: vec![token("bob")], rules: vec![rule] };
    visit.one("roster_roles", Roster { roles: vec![role], ..roster() });
    visit.one("signed_roster", SignedRoster { v: 1, roster: vec![1, 2], sig: vec![3; 64] });
    let (key, issuer) = ("UABC".to_string(), "AABC".to_string());
    let until = UnixMillis(1_800_000_000_000);
    visit.one("certificate", Certificate { v: 1, peel: peel(), key, until, issuer, sig: vec![3; 64] });
    visit.one("job", job());
    let digest = || Some(TargetDigest { count: 3, root: vec![7; 32] });
    visit.one("envelope_beside", Envelope { beside: vec![0x81], ..envelope() });
    let target_list = Some(TargetList { digest: TargetDigest { count: 3, root: vec![7; 32] }, pages: 1 });
    visit.one("job_target_list", Job { targets: Vec::new(), target_list, ..job() });
    visit.one("target_page", TargetPage { v: 1, peels: vec![peel()] });
    visit.one("job_digest", Job { target_digest: digest(), ..job() });
    let request = DispatchRequest { targets: Vec::new(), target_digest: digest(), ..dispatch_request() };
    visit.one("dispatch_request_digest", request);
    let proof = Some(TargetProof { index: 2, path: vec![8; 64] });
    visit.one("command_exec_proof", PeelCommand::Exec(ExecRequest { proof, ..exec() }));
    visit.one("job_unknown_peels", Job { unknown_peels: vec![PeelId::parse("ghost").unwrap()], ..job() });
    visit.one("job_claim", Job { claim_until: UnixMillis(1_700_000_015_000), ..job() });
    visit.one("command_exec", PeelCommand::Exec(exec()));
    let cancel = Cancel { v: 1, jid: jid(), dispatch_epoch: 1, reason: "cancelled by user".into() };
    visit.one("command_cancel", PeelCommand::Cancel(cancel));
    let ts = UnixMillis(1_700_000_000_100);
    visit.one("ack", Ack { v: 1, jid: jid(), peel: peel(), dispatch_epoch: 1, ts, ahead: 3 });
    visit.one("return", returned());
    let schedule = ScheduledRun {
        name: "highstate".into(),
        function: "state.apply".into(),
        due: UnixMillis(1_700_000_000_000),
    };
    visit.one("return_scheduled", Return { schedule: Some(schedule), ..returned() });
    let revision = RunRevision { states: Some(42), settings: Some(7), commit: "9fceb02".into() };
    visit.one("return_own", Return { own: vec![1, 2, 255], ..returned() });
    visit.one("return_revision", Return { revision: Some(revision), ..returned() });
    let state = json!({"name": "file.managed:/etc/motd", "changed": true});
    let progress = Progress { v: 1, jid: jid(), peel: peel(), dispatch_epoch: 1, seq: 2, total: 5, state };
    visit.one("progress", progress);
    job_events(visit);
    presence(visit);
    requests(visit);
}

fn job_events(visit: &mut impl Visit) {
    let event = |event| JobEvent { v: 1, jid: jid(), ts: UnixMillis(1_700_000_000_050), event };
    let dispatched = JobEventKind::Dispatched {
        owner: master(),
        epoch: 1,
        dispatch_epoch: 1,
        function: "state.apply".into(),
        target_count: 2,
        deadline: UnixMillis(1_700_000_300_000),
    };
    visit.one("job_event_dispatched", event(dispatched));
    let status = JobEventKind::Status {
        status: JobStatus::Failed,
        epoch: 5,
        return_count: 2,
        success_count: 1,
        target_count: 2,
        reason: "reclaimed more than 3 times".into(),
    };
    visit.one("job_event_status", event(status));
    let canceled = JobEventKind::Canceled { data: "cancelled by user".into(), by: "alice".into() };
    visit.one("job_event_canceled", event(canceled));
}

fn presence(visit: &mut impl Visit) {
    let ts = UnixMillis(1_700_000_000_000);
    visit.one(
        "peel_heartbeat",
        PeelHeartbeat {
            v: 1,
            peel: peel(),
            ts,
            boot: token("2hPwzBoot"),
            connects: 4,
            version: "0.1.0".into(),
            os: "debian 12".into(),
            busy: 2,
            outbox: 1,
            jobs: Vec::new(),
            stopped: false,
            next: None,
        },
    );
    let jobs = vec![JobAtPeel { jid: jid(), dispatch_epoch: 3 }];
    let working = PeelHeartbeat::new(peel(), token("2hPwzBoot"), 4, ts);
    visit.one("peel_heartbeat_working", PeelHeartbeat { jobs, stopped: true, ..working.clone() });
    let next = Some(Duration::from_secs(40));
    visit.one("peel_heartbeat_paced", PeelHeartbeat { next, ..working });
    let beat =
        MasterHeartbeat { v: 1, master: master(), ts, version: "0.1.0".into(), active_jobs: 7, audit: None };
    let head = AuditHead { chain: master(), seq: 7, hash: vec![9; 32] };
    visit.one("master_heartbeat_audit", MasterHeartbeat { audit: Some(head.clone()), ..beat.clone() });
    visit.one("master_heartbeat", beat);
    let entry = AuditEntry {
        v: 1,
        chain: master(),
        seq: 1,
        prev: vec![1; 32],
        follows: Some(head),
        ts,
        act: "dispatch".into(),
        who: "operator bob".into(),
        key: "UABC".into(),
        about: "test.ping on `*`".into(),
        refused: "no line allows it".into(),
        request: "m-1".into(),
        missed: 3,
    };
    visit.one("audit_entry", entry);
    let facts = map(json!({"os": {"family": "debian"}, "cpus": 2}));
    visit.one("facts", FactsRecord { v: 1, peel: peel(), ts, hash: "ab12".into(), facts });
    let lease = Lease { v: 1, name: token("publisher"), holder: master(), since: ts, serial: 0 };
    visit.one("lease", lease.clone());
    visit.one("lease_serial", Lease { serial: 7, ..lease });
    let hash = ContentHash::of(b"hello");
    let file = PublishedFile {
        path: "web/init.zy".into(),
        hash: hash.clone(),
        size: 5,
        mode: 0o644,
        parts: vec![hash.clone(), hash.clone()],
    };
    visit.one("manifest_page", ManifestPage { v: 1, files: vec![file] });
    let manifest = Manifest {
        v: 1,
        revision: 42,
        root: Manifest::root_of(std::slice::from_ref(&hash)),
        pages: vec![hash.clone()],
        files: 1,
        bytes: 5,
        published: ts,
        master: master(),
        user: "alice".into(),
        source: "/srv/zester/states".into(),
        commit: "9fceb02d0ae598e95dc970b74767f19372d61af8".into(),
        rollback_of: Some(41),
        uploaded: false,
    };
    visit.one("manifest", manifest.clone());
    let by_hand = Manifest { uploaded: true, rollback_of: None, ..manifest };
    visit.one("manifest_uploaded", by_hand);
    visit.one("revision", Revision { v: 1, revision: 42, root: hash });
    visit.one("notice", Notice { v: 1, bucket: token("state-files"), revision: 42 });
    let event = Event {
        id: "2hPx2Kd8VnR7YmWqTz4PLsCfNjD".into(),
        tag: Tag::parse("deploy/finished").unwrap(),
        data: map(json!({"version": "1.2"})),
        ts,
        v: 1,
        origin: "web-01".into(),
        depth: 1,
    };
    visit.one("event", event);
}

fn requests(visit: &mut impl Visit) {
    let (user, error) = (String::from("alice"), Some(refusal()));
    visit.one("dispatch_request", dispatch_request());
    let wait = Some(Duration::from_secs(15));
    visit.one("dispatch_request_wait", DispatchRequest { wait, ..dispatch_request() });
    let reply =
        DispatchReply { v: 1, jid: Some(jid()), targets: vec![peel()], error: error.clone(), offline: None };
    visit.one("dispatch_reply", reply);
    let offline = Offline { count: 2, since: UnixMillis(1_700_000_000_000), some: vec![peel()] };
    let reply =
        DispatchReply { v: 1, jid: Some(jid()), targets: vec![peel()], error: None, offline: Some(offline) };
    visit.one("dispatch_reply_offline", reply);
    visit.one("admin_forget", AdminRequest::Forget { peels: vec![peel()], user: user.clone() });
    visit.one("admin_reactor_rules", AdminRequest::ReactorRules);
    let rule = "reactor.web.restart".to_string();
    visit.one("admin_breaker_close", AdminRequest::BreakerClose { rule: rule.clone(), user: user.clone() });
    reactor(visit, rule);
    enrollment(visit);
    visit.one("peels_request", PeelsRequest { v: 1, target_expr: "*".into(), after: Some(peel()) });
    let status = PeelStatus {
        peel: peel(),
        online: true,
        last_seen: UnixMillis(1_700_000_000_000),
        version: "0.1.0".into(),
        os: "debian 12".into(),
        busy: 2,
        outbox: 1,
    };
    visit.one("peels_reply", PeelsReply { v: 1, peels: vec![status], more: true, error: error.clone() });
    visit.one("command_shared_id", PeelCommand::SharedId(SharedId { v: 1, boot: token("2hPwzBoot") }));
    visit.one("command_publish_facts", PeelCommand::PublishFacts(PublishFacts { v: 1 }));
    let pace = Pace { v: 1, every: Duration::from_secs(40), lasts: Duration::from_secs(900) };
    visit.one("command_pace", PeelCommand::Pace(pace));
    let kill = AdminRequest::Kill { jid: jid(), user: user.clone(), reason: "cancelled by user".into() };
    visit.one("admin_kill", kill);
    let new_jid = Jid::parse(OTHER_JID).unwrap();
    let retry = |wait, timeout| AdminRequest::Retry {
        jid: jid(),
        new_jid: new_jid.clone(),
        part: RetryPart::Missing,
        user: user.clone(),
        wait,
        timeout,
    };
    visit.one("admin_retry", retry(None, None));
    visit.one("admin_retry_wait", retry(wait, None));
    visit.one("admin_retry_timeout", retry(wait, Some(Duration::from_secs(90))));
    let publish = PublishRequest { allow_empty: true, user, ..PublishRequest::default() };
    visit.one("admin_publish", AdminRequest::Publish(publish.clone()));
    let tree = UploadedTree {
        published: Published::Settings,
        pages: vec![ContentHash::of(b"page")],
        source: "./settings".into(),
    };
    let publish = PublishRequest {
        id: Some(token("2hPwzOrder")),
        trees: vec![tree],
        rollback: Some(Rollback { published: Published::States, revision: 7 }),
        force: true,
        dry_run: true,
        ..publish
    };
    visit.one("admin_publish_trees", AdminRequest::Publish(publish));
    let reply = AdminReply { jid: Some(jid()), error: error.clone(), ..AdminReply::done("done") };
    visit.one("admin_reply", reply);
    let report = PublishReport {
        published: Published::States,
        status: PublishStatus::Refused,
        revision: 7,
        files: 12,
        moved: 2,
        bytes: 345,
        source: "/srv/zester/states".into(),
        commit: "0123abc".into(),
        reason: "it does not compile".into(),
        changes: FileChanges {
            added_count: 1,
            changed_count: 1,
            removed_count: 1,
            added: vec!["a".into()],
            changed: vec!["b".into()],
            removed: vec!["c".into()],
        },
        problems: Some(Problems {
            errors: 1,
            text: "error: no".into(),
            diagnostics: vec![json!({"message": "no"})],
            peels: vec![peel()],
            peels_count: 1,
            checked: 1,
            known: 2,
            warnings: Vec::new(),
        }),
    };
    visit.one("admin_reply_published", AdminReply { published: vec![report], ..AdminReply::done("") });
    let asked = ResolveRequest::of("web* and G@os:debian");
    visit.one("resolve_request", asked.clone());
    visit.one("resolve_request_explain", ResolveRequest { explain: true, after: Some(peel()), ..asked });
    let reply = ResolveReply { v: 1, peels: vec![peel()], too_many: false, explained: None, error };
    visit.one("resolve_reply", reply.clone());
    let too_many = ResolveReply { peels: Vec::new(), too_many: true, error: None, ..reply };
    visit.one("resolve_reply_too_many", too_many.clone());
    let said_no = PartSaidNo { part: "G@os:debian".into(), found: "os is Arch".into() };
    let explained = ExplainedPeel {
        peel: peel(),
        matches: false,
        online: true,
        last_seen: UnixMillis(1_700_000_000_000),
        said_no: vec![said_no],
    };
    let explained = Some(ExplainedPage { peels: vec![explained], more: true });
    visit.one("resolve_reply_explained", ResolveReply { too_many: false, explained, ..too_many });
}

fn enrollment(visit: &mut impl Visit) {
    let (at, key) = (UnixMillis(1_700_000_000_000), "UABC".to_string());
    let name = TokenName { id: token("0a1b2c3d"), label: "autoscale".into() };
    let former =
        FormerKey { key: "UOLD".into(), at, until: Some(UnixMillis(1_700_000_300_000)), counts_until: None };
    let record = Enrollment {
        v: 1,
        id: token("3f2a91c0d4e5b6a7-web-01"),
        peel: peel(),
        key: key.clone(),
        status: EnrollmentStatus::Active,
        address: "192.0.2.7".into(),
        requested: at,
        changed: at,
        by: "alice".into(),
        reason: "it is ours".into(),
        token: Some(name),
        until: Some(at),
        former: vec![former.clone()],
        serial: 0,
        rest: BTreeMap::new(),
    };
    visit.one("enrollment", record.clone());
    let former = vec![FormerKey { counts_until: Some(at), ..former }];
    visit.one("enrollment_serial", Enrollment { former, serial: 1_700_000_000_001, ..record });
    let digest = vec![7; 32];
    let used = Some(TokenUse { key: key.clone(), peel: peel(), at });
    let address = Some("192.0.2.7".to_string());
    let label = "autoscale".to_string();
    let kept = JoinToken {
        v: 1,
        digest: digest.clone(),
        names: "web-*".into(),
        address: address.clone(),
        until: at,
        label: label.clone(),
        hold: true,
        by: "alice".into(),
        made: at,
        used,
    };
    visit.one("join_token", kept);
    visit.one("enroll_nonce", EnrollNonce { v: 1, nonce: vec![1, 2, 255] });
    let (nonce, proof, word) = (vec![1, 2, 255], vec![3, 4], Some("word".to_string()));
    let replaces = Some(ReplacedKey { key: "UOLD".into(), proof: vec![5, 6] });
    let asked = EnrollRequest { v: 1, peel: peel(), key, nonce, proof, token: word, replaces: None };
    visit.one("enroll_request", asked.clone());
    visit.one("enroll_request_replaces", EnrollRequest { token: None, replaces, ..asked });
    let grant = EnrollGrant {
        credentials: "-----BEGIN".into(),
        nats: "tls://bus:4222".into(),
        ca: "-----BEGIN CERTIFICATE-----".into(),
        until: at,
        life: Duration::from_secs(3_600),
    };
    let answer = EnrollAnswer {
        id: Some(token("3f2a91c0d4e5b6a7-web-01")),
        grant: Some(Box::new(grant)),
        ..EnrollAnswer::new(EnrollOutcome::Granted, "welcome")
    };
    visit.one("enroll_answer", answer);
    let ordered = |order| AdminRequest::Enroll { order, user: "alice".into() };
    let decide = EnrollOrder::Decide {
        id: token("3f2a91c0d4e5b6a7-web-01"),
        decision: EnrollDecision::Revoke,
        reason: "lost".into(),
    };
    visit.one("admin_enroll_decide", ordered(decide));
    let life = Duration::from_secs(3_600);
    let new = NewToken { digest, names: "web-*".into(), address, life, label, hold: true };
    visit.one("admin_enroll_token", ordered(EnrollOrder::Token(new)));
    visit.one("admin_enroll_drop_token", ordered(EnrollOrder::DropToken { id: token("0a1b2c3d") }));
}

pub trait Visit {
    fn one<T: Message + PartialEq + std::fmt::Debug>(&mut self, name: &str, example: T);
}

fn reactor(visit: &mut impl Visit, rule: String) {
    let entry = LedgerEntry {
        v: 1,
        at: UnixMillis(1_700_000_000_000),
        origin: "web-01".into(),
        tag: "deploy/done".into(),
        event_id: "e-1".into(),
        sequence: 42,
        depth: 1,
        rule: rule.clone(),
        block: "restart".into(),
        decision: "dispatched".into(),
        reason: "to 1 peel".into(),
        jid: Some(Jid::parse("rxn-0123456789abcdef0123456789abcdef").unwrap()),
        event_sent: "e-2".into(),
        master: master().to_string(),
        unwritten: 3,
    };
    visit.one("ledger_entry", entry);
    let data = map(json!({"version": 3}));
    let key = "web-01/deploy/done".to_string();
    visit.one("reactor_test_request", ReactorTestRequest { v: 1, key, data: data.clone() });
    let block = TestedBlock {
        block: "restart".into(),
        action: "dispatch.module".into(),
        rendered: data,
        targets: Some(1),
    };
    let glob = "*/deploy/*".to_string();
    let tested = TestedRule {
        rule: rule.clone(),
        glob: glob.clone(),
        blocks: vec![block],
        errors: vec!["web/restart.zy:3:5: unknown key `tgt`".into()],
    };
    let master = master().to_string();
    let error = Some(Refusal::new(RefusalKind::Unavailable, "no rules yet"));
    let reply = ReactorTestReply { v: 1, revision: 7, master: master.clone(), rules: vec![tested], error };
    visit.one("reactor_test_reply", reply);
    let status = RuleStatus {
        rule,
        glob,
        file: "web/restart.zy".into(),
        throttle: Duration::from_secs(30),
        fires: 61,
        open_until: UnixMillis(1_700_000_300_000),
    };
    let problems = vec!["top.zy:2:5: no such file".into()];
    let list = RuleList { revision: 7, master, rules: vec![status], more: 2, problems };
    visit.one("admin_reply_reactor", AdminReply { reactor: Some(list), ..AdminReply::done("") });
}
