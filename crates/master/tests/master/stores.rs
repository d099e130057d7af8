//! Stores that are full, have no leader, or answer too late, and what becomes of jobs meanwhile.

use crate::again::record;
use crate::fleet::{Fleet, LONG, Losing, eventually, peel};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;
use zester_bus::Store;
use zester_bus::memory::{Fate, Faults, Leg, Perfect, SERVER, WatchFate};
use zester_health::State;
use zester_rule::rule;
use zester_wire::*;

const JOBS: &str = "KV_jobs";
const WAIT: Duration = Duration::from_secs(15);

fn waited(fleet: &Fleet) -> DispatchRequest {
    DispatchRequest { wait: Some(WAIT), timeout: Duration::from_secs(3600), ..fleet.request("*") }
}

async fn readyz(master: &crate::fleet::Master, wanted: impl Fn(&State) -> bool) -> State {
    eventually("what readyz says of the stores", async || master.health.state("stores").filter(&wanted)).await
}

#[tokio::test(start_paused = true)]
#[rule("J-23", "J-28")]
async fn j23_a_full_bucket_refuses_a_job_at_once_and_takes_the_next_when_it_has_room() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let running = fleet.ask(&waited(&fleet)).await.jid.unwrap();
    let exec = web.exec().await;
    fleet.net.set_full(JOBS, true);
    let (began, refused) = (Instant::now(), waited(&fleet));
    let refusal = fleet.ask(&refused).await.error.unwrap();
    assert_eq!(refusal.kind, RefusalKind::CannotWrite);
    assert!(refusal.message.starts_with("jobs has refused writes since"), "{}", refusal.message);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    // The one that runs comes to its end, as soon as that can be written.
    web.ret(&exec, true).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    fleet.net.set_full(JOBS, false);
    assert_eq!(fleet.over(&running).await.status, JobStatus::Complete);
    let next = eventually("a job is taken again", async || fleet.ask(&waited(&fleet)).await.jid).await;
    assert_eq!(web.serve(true).await.jid, next);
    assert!(web.hears_nothing(LONG).await, "what was refused runs later");
    assert_eq!(fleet.record(&refused.jid).await, None);
}

/// The bus may bring a request twice, the second time when there is room again: its client went with the first answer.
#[tokio::test(start_paused = true)]
#[rule("J-28")]
async fn j28_a_copy_of_a_request_that_was_refused_gets_the_same_answer_while_its_client_could_wait() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    fleet.net.set_full(JOBS, true);
    let (refused, nobody) =
        (waited(&fleet), DispatchRequest { target_expr: "db-*".into(), ..waited(&fleet) });
    let refusal = fleet.ask(&refused).await.error.unwrap();
    assert_eq!(refusal.kind, RefusalKind::CannotWrite);
    let unmatched = fleet.ask(&nobody).await.error.unwrap();
    assert_eq!(unmatched.kind, RefusalKind::NoTargets);
    fleet.net.set_full(JOBS, false);
    let next = eventually("a job is taken again", async || fleet.ask(&waited(&fleet)).await.jid).await;
    assert_eq!(web.serve(true).await.jid, next);
    let _db = fleet.peel("db-1").await;
    fleet.known("*", 2).await;
    assert_eq!(fleet.ask(&refused).await.error, Some(refusal));
    assert_eq!(fleet.ask(&nobody).await.error, Some(unmatched));
    assert!(web.hears_nothing(LONG).await, "what was refused runs later");
    assert_eq!((fleet.record(&refused.jid).await, fleet.record(&nobody.jid).await), (None, None));
}

#[tokio::test(start_paused = true)]
#[rule("J-28", "J-29")]
async fn j29_a_store_without_a_leader_is_told_by_name_and_since_when() {
    let fleet = Fleet::new().await;
    let master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    fleet.net.set_led(JOBS, false);
    let down = readyz(&master, |state| matches!(state, State::Down(_))).await;
    assert!(
        matches!(&down, State::Down(why) if why.starts_with("jobs has had no leader since ")),
        "{down:?}"
    );
    assert!(!master.health.report().0);
    // An election would be over by now.
    tokio::time::sleep(Duration::from_secs(12)).await;
    let (began, refused) = (Instant::now(), waited(&fleet));
    let refusal = fleet.ask(&refused).await.error.unwrap();
    assert_eq!(refusal.kind, RefusalKind::CannotWrite, "{refusal}");
    assert!(began.elapsed() < Duration::from_secs(1));
    fleet.net.set_led(JOBS, true);
    readyz(&master, |state| *state == State::Up).await;
    let jid = fleet.ask(&waited(&fleet)).await.jid.unwrap();
    assert_eq!(web.serve(true).await.jid, jid);
    assert!(web.hears_nothing(LONG).await, "what was refused runs later");
    assert_eq!(fleet.record(&refused.jid).await, None);
}

/// Creates of records arrive long after their answers were given up, until a moment.
struct Slow {
    until: Instant,
    by: Duration,
}

impl Faults for Slow {
    fn fate(&mut self, leg: Leg<'_>) -> Fate {
        let claim = leg.to == SERVER && leg.subject.starts_with("$KV.jobs.") && Instant::now() < self.until;
        vec![if claim { self.by } else { Duration::ZERO }]
    }
}

async fn a_claim_that_comes_late(until: Duration, by: Duration) {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    fleet.net.set_faults(Slow { until: Instant::now() + until, by });
    let request = waited(&fleet);
    let reply = fleet.ask(&request).await;
    assert_eq!(reply.error.unwrap().kind, RefusalKind::NeverRan);
    let job = fleet.record(&request.jid).await.unwrap();
    assert_eq!(job.status, JobStatus::Failed);
    assert!(job.reason.starts_with("it never ran"), "{}", job.reason);
    tokio::time::sleep(by * 2).await;
    assert_eq!(fleet.record(&request.jid).await.unwrap(), job, "the late write was taken");
    assert!(web.hears_nothing(LONG).await, "it ran after its client had gone");
}

#[tokio::test(start_paused = true)]
#[rule("J-28")]
async fn j28_a_claim_that_lands_after_its_client_has_gone_never_runs() {
    // The end is written before the claim arrives, and after it.
    a_claim_that_comes_late(Duration::from_secs(14), Duration::from_secs(40)).await;
    a_claim_that_comes_late(Duration::from_secs(30), Duration::from_secs(7)).await;
}

#[tokio::test(start_paused = true)]
#[rule("J-28")]
async fn j28_a_claim_that_its_owner_left_behind_is_ended_when_its_client_has_gone() {
    let fleet = Fleet::new().await;
    let first = fleet.master("m1").await;
    let _second = fleet.master("m2").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    // It died between the claim and the mark, so that no listing of active jobs shows it; nobody waits any more.
    let request = waited(&fleet);
    let owner = first.id.clone();
    drop(first);
    let now = fleet.link.now();
    let claim = Job { claim_until: now, ..record(&request, &owner, JobStatus::Claimed, now) };
    fleet.link.create(&Key::Job(request.jid.clone()), &claim).await.unwrap();
    let job = fleet.over(&request.jid).await;
    assert_eq!(job.status, JobStatus::Failed, "{}", job.reason);
    assert!(web.hears_nothing(LONG).await);
}

#[tokio::test(start_paused = true)]
#[rule("J-13")]
async fn j13_a_job_that_a_living_master_lost_is_taken_up_again() {
    let fleet = Fleet::new().await;
    let master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let request = waited(&fleet);
    let job = record(&request, &master.id, JobStatus::Running, fleet.link.now());
    fleet.link.create(&Key::Job(request.jid.clone()), &job).await.unwrap();
    fleet.link.put(&Key::Active(request.jid.clone()), &job).await.unwrap();
    web.serve(true).await;
    let job = fleet.over(&request.jid).await;
    assert_eq!((job.status, job.epoch, job.owner), (JobStatus::Complete, 2, master.id.clone()));
}

/// Direct gets of one client are a minute behind; the answer to one write is lost.
struct Behind {
    losing: Losing,
}

impl Faults for Behind {
    fn fate(&mut self, leg: Leg<'_>) -> Fate {
        self.losing.fate(leg)
    }

    fn lag(&mut self, client: &str, _: &str) -> Duration {
        if client == "m1" { Duration::from_secs(60) } else { Duration::ZERO }
    }
}

#[tokio::test(start_paused = true)]
#[rule("J-13")]
async fn j13_a_stale_read_after_a_lost_answer_loses_no_job() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let request = waited(&fleet);
    let key = format!("$KV.jobs.{}", request.jid);
    let mut writes = 0;
    // The answer to the second write of the record: that it runs.
    let losing = Losing::new(1, move |leg| {
        let answer = leg.from == SERVER && leg.to == "m1" && leg.subject == key;
        writes += usize::from(answer);
        answer && writes == 2
    });
    fleet.net.set_faults(Behind { losing });
    let jid = fleet.ask(&request).await.jid.unwrap();
    web.serve(true).await;
    let job = fleet.over(&jid).await;
    assert_eq!((job.status, job.epoch), (JobStatus::Complete, 1), "{}", job.reason);
    fleet.net.set_faults(Perfect);
}

#[tokio::test(start_paused = true)]
#[rule("J-13")]
async fn j13_an_orphan_is_adopted_by_a_master_whose_reads_are_behind() {
    let fleet = Fleet::new().await;
    let first = fleet.master("m2").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let jid = fleet.ask(&waited(&fleet)).await.jid.unwrap();
    let exec = web.exec().await;
    web.ack(&exec).await;
    fleet.net.set_faults(Behind { losing: Losing::new(0, |_| false) });
    let second = fleet.master("m1").await;
    drop(first);
    let died = Instant::now();
    eventually("it is adopted", async || fleet.record(&jid).await.filter(|job| job.owner == second.id)).await;
    assert!(died.elapsed() <= Duration::from_secs(12), "{:?}", died.elapsed());
    web.ret(&exec, true).await;
    let job = fleet.over(&jid).await;
    assert_eq!((job.status, job.epoch, job.reclaim_count), (JobStatus::Complete, 2, 1));
}

#[tokio::test(start_paused = true)]
#[rule("J-11")]
async fn j11_a_kill_of_a_job_that_is_over_says_so_though_reads_are_behind() {
    let fleet = Fleet::new().await;
    let master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    fleet.net.set_faults(Behind { losing: Losing::new(0, |_| false) });
    let jid = fleet.ask(&waited(&fleet)).await.jid.unwrap();
    web.serve(true).await;
    fleet.over(&jid).await;
    eventually("the job is let go", async || (master.metric("zester_jobs_active") == 0).then_some(())).await;
    assert_eq!(fleet.kill(&jid).await.error.unwrap().kind, RefusalKind::AlreadyOver);
}

#[tokio::test(start_paused = true)]
#[rule("J-11")]
async fn j11_a_kill_is_answered_once_the_stream_has_it_and_survives_its_master() {
    let fleet = Fleet::new().await;
    let first = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let jid = fleet.ask(&waited(&fleet)).await.jid.unwrap();
    let exec = web.exec().await;
    web.ack(&exec).await;
    let reply = fleet.kill(&jid).await;
    assert_eq!((reply.message.as_str(), reply.error), ("told 1 peel to stop", None));
    // The master dies on its answer.
    drop(first);
    let _second = fleet.master("m2").await;
    assert_eq!(fleet.over(&jid).await.status, JobStatus::Canceled);
}

/// Whoever listens hears a message that no stream keeps; but nobody who comes later would know of it.
#[tokio::test(start_paused = true)]
#[rule("J-11")]
async fn j11_a_kill_that_is_not_stored_is_not_said_to_be() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let jid = fleet.ask(&waited(&fleet)).await.jid.unwrap();
    let exec = web.exec().await;
    web.ack(&exec).await;
    fleet.net.set_led("job-events", false);
    let refusal = fleet.kill(&jid).await.error.unwrap();
    assert!(refusal.message.starts_with("the cancel is not stored, but whoever heard"), "{refusal}");
    assert!(refusal.message.contains("job-events has had no leader"), "{refusal}");
    fleet.net.set_led("job-events", true);
    assert_eq!(fleet.over(&jid).await.status, JobStatus::Canceled);
}

#[tokio::test(start_paused = true)]
#[rule("J-23")]
async fn j23_the_oldest_jobs_that_are_over_make_room_before_the_limit() {
    let small = Store::bucket("jobs", 256 * 1024);
    let fleet = Fleet::with(std::slice::from_ref(&small)).await;
    let long_ago = UnixMillis(fleet.link.now().0 - 3_600_000);
    let owner = MasterId::new("m0", "boot").unwrap();
    let mut jids = Vec::new();
    // Until it is nearly full.
    while fleet.link.bus().usage(&small).await.unwrap().percent() < 93 {
        let request = DispatchRequest { state_id: "x".repeat(2_000), ..fleet.request("*") };
        let status = if jids.len() == 3 { JobStatus::Unknown } else { JobStatus::Complete };
        let job = record(&request, &owner, status, long_ago);
        fleet.link.create(&Key::Job(request.jid.clone()), &job).await.unwrap();
        let ret = Return::refusing(request.jid.clone(), peel("web-1"), 1, Cause::Finished, "");
        fleet.link.create(&Key::Return(request.jid.clone(), peel("web-1")), &ret).await.unwrap();
        jids.push(request.jid);
    }
    let masters = [fleet.start("m1"), fleet.start("m2")];
    let told = readyz(&masters[0], |state| *state != State::Up).await;
    assert!(matches!(&told, State::Degraded(why) if why.starts_with("jobs is 9")), "{told:?}");
    eventually("room is made", async || {
        (fleet.link.bus().usage(&small).await.unwrap().percent() <= 70).then_some(())
    })
    .await;
    readyz(&masters[0], |state| *state == State::Up).await;
    let left: BTreeSet<String> = fleet.link.bus().keys("jobs", "*").await.unwrap().into_iter().collect();
    let returns = fleet.link.bus().keys("job-returns", ">").await.unwrap();
    let gone = jids.len() - left.len();
    assert!(gone > 0 && left.len() > jids.len() / 2, "{gone} of {}", jids.len());
    // Oldest first, with their returns; and never one that is not over.
    for (number, jid) in jids.iter().enumerate() {
        let kept = number == 3 || number > gone;
        assert_eq!(left.contains(jid.as_str()), kept, "{number} of {}, {gone} gone", jids.len());
        assert_eq!(returns.iter().any(|key| key.starts_with(jid.as_str())), kept, "{number}");
    }
    assert_eq!(fleet.link.bus().keys("leases", ">").await.unwrap(), ["presence", "pruner"]);
}

/// What a store that is nearly full still takes is kept for the ends of the jobs that run.
#[tokio::test(start_paused = true)]
#[rule("J-23", "J-28")]
async fn j23_the_last_room_is_for_the_ends_of_jobs_that_run() {
    let small = Store::bucket("jobs", 256 * 1024);
    let fleet = Fleet::with(std::slice::from_ref(&small)).await;
    let master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let running = fleet.ask(&waited(&fleet)).await.jid.unwrap();
    let exec = web.exec().await;
    let bus = fleet.link.bus();
    // Nobody can read it, so nobody prunes it.
    for number in 0.. {
        if bus.usage(&small).await.unwrap().percent() >= 96 {
            break;
        }
        bus.put("jobs", &format!("filler-{number}"), vec![0; 1_000].into()).await.unwrap();
    }
    let down = readyz(&master, |state| matches!(state, State::Down(_))).await;
    assert_eq!(down, State::Down("jobs is 96 % full and takes no new jobs".into()));
    bus.put("jobs", "filler-last", vec![0; 1_000].into()).await.unwrap();
    let refused = waited(&fleet);
    assert_eq!(fleet.ask(&refused).await.error.unwrap().kind, RefusalKind::CannotWrite);
    assert_eq!(fleet.record(&refused.jid).await, None);
    web.ret(&exec, true).await;
    assert_eq!(fleet.over(&running).await.status, JobStatus::Complete);
}

/// News of the facts are held back.
struct NoNews;

impl Faults for NoNews {
    fn fate(&mut self, _: Leg<'_>) -> Fate {
        vec![Duration::ZERO]
    }

    fn watch(&mut self, _: &str, bucket: &str) -> WatchFate {
        if bucket == "facts" { WatchFate::Late(Duration::from_secs(9_999)) } else { WatchFate::OnTime }
    }
}

async fn index_is(master: &crate::fleet::Master, wanted: impl Fn(&State) -> bool) {
    eventually("readyz says how the index is", async || {
        master.health.state("index").filter(&wanted).map(|_| ())
    })
    .await;
}

#[tokio::test(start_paused = true)]
#[rule("J-29")]
async fn j29_readyz_says_when_the_index_is_not_fed_and_since_when() {
    let fleet = Fleet::new().await;
    let master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    index_is(&master, |state| *state == State::Up).await;
    let silent = |state: &State| matches!(state, State::Degraded(why) if why.starts_with("no heartbeat of any peel was heard since "));
    index_is(&master, silent).await;
    web.beat().await;
    index_is(&master, |state| *state == State::Up).await;
    fleet.net.set_faults(NoNews);
    web.publish_facts(serde_json::json!({"os": "Plan 9"})).await;
    let behind = |state: &State| matches!(state, State::Degraded(why) if why.starts_with("the watch of facts has told nothing since "));
    index_is(&master, behind).await;
    // It watches again by itself.
    fleet.net.set_faults(Perfect);
    web.beat().await;
    fleet.known("G@os:Plan*", 1).await;
}
