//! Masters that crash on a bus that loses, doubles and delays. However it goes, every job ends, and says what happened.

use crate::fleet::{Fleet, Losing, Peel, eventually};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use zester_bus::memory::Chaos;
use zester_link::Link;
use zester_rule::rule;
use zester_wire::*;

const PEELS: usize = 5;
const JOBS: usize = 6;

/// Acks and returns, again and again until the bus has both; what it has done it does not do again.
async fn serve(mut peel: Peel) {
    let mut done: BTreeMap<(Jid, u64), Return> = BTreeMap::new();
    let mut beats = tokio::time::interval(Duration::from_secs(10));
    loop {
        let command = tokio::select! {
            biased;
            _ = beats.tick() => {
                peel.try_beat().await;
                continue;
            }
            command = peel.command() => command,
        };
        let PeelCommand::Exec(request) = command else { continue };
        let key = (request.jid.clone(), request.dispatch_epoch);
        let ret = done.entry(key).or_insert_with(|| peel.returning(&request, true)).clone();
        let subject = Subject::JobReturn { jid: ret.jid.clone(), peel: peel.id.clone() };
        let id = peel.link.new_message_id().unwrap();
        while peel.link.publish_stored(&subject, &id, &ret).await.is_err() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

/// How many peels have a return in the stream.
async fn returned(fleet: &Fleet, jid: &Jid) -> usize {
    let page = fleet.link.bus().replay("job-events", &subject::all_returns(jid), 0).await.unwrap();
    let subjects: BTreeSet<String> = page.items.into_iter().map(|record| record.subject).collect();
    subjects.len()
}

async fn life(seed: u64) {
    let fleet = Fleet::new().await;
    let mut peels = JoinSet::new();
    for number in 0..PEELS {
        let peel = fleet.peel(&format!("p{number}")).await;
        peel.record_seen().await;
        peels.spawn(serve(peel));
    }
    let mut masters = vec![fleet.master("m1").await, fleet.master("m2").await];
    fleet.known("*", PEELS).await;
    fleet.net.set_faults(Chaos::new(seed));
    let client = Link::new(Arc::new(fleet.net.connect("requester")));
    let mut jids = Vec::new();
    for number in 0..JOBS {
        let request = DispatchRequest { timeout: Duration::from_secs(300), ..fleet.request("*") };
        // A client asks until it hears its jid.
        eventually("the job is accepted", async || {
            let asked = client.request(&Subject::Dispatch, &request, Duration::from_secs(5)).await;
            asked.ok().and_then(|reply: DispatchReply| reply.jid)
        })
        .await;
        jids.push(request.jid);
        if number % 2 == 1 {
            // One crashes, and another begins.
            masters.remove(0);
            masters.push(fleet.start(&format!("m{}", number + 2)));
        }
    }
    tokio::time::sleep(Duration::from_secs(100)).await;
    fleet.net.set_faults(Losing::new(0, |_| false));
    let mut complete = 0;
    for jid in &jids {
        let job = fleet.over(jid).await;
        // Whatever a peel said is known: it counts, or it came after the end and is marked as late.
        let said = returned(&fleet, jid).await;
        let mut stored = Vec::new();
        for number in 0..PEELS {
            stored.extend(fleet.stored(jid, &format!("p{number}")).await);
        }
        assert_eq!(stored.len(), said, "seed {seed}: {job:?}");
        let in_time = stored.iter().filter(|ret| !ret.late).count();
        assert_eq!(job.return_count, in_time as u64, "seed {seed}: {job:?}");
        complete += usize::from(job.status == JobStatus::Complete);
    }
    // Work that was lost twice on its way is rare.
    assert!(complete >= JOBS - 2, "seed {seed}: {complete}");
    for master in masters {
        assert_eq!(master.metric("zester_jobs_illegal_total"), 0, "seed {seed}");
        master.stop().await;
    }
}

#[tokio::test(start_paused = true)]
#[rule("J-13")]
async fn j13_every_job_ends_whatever_the_network_does() {
    for seed in 0..10 {
        life(seed).await;
    }
}
