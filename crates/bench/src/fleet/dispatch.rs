//! From the question to the first byte at the peel, against the three writes that no master can do without.

use super::jobs::ping;
use crate::report::Report;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use zester_bus::{Bus, Bytes, Delivery, Listen, Store, Subscription};
use zester_client::Client;
use zester_link::Link;
use zester_wire::{
    Cause, DispatchReply, ExecRequest, Jid, Key, PeelCommand, PeelHeartbeat, PeelId, Return, Subject,
};

const ROUNDS: usize = 250;
/// Rounds before those that count.
const WARM_UP: usize = 20;
/// The peel that is us.
const PEEL: &str = "bench-peel";
/// Rounds between two heartbeats, which live for half a minute.
const ROUNDS_A_BEAT: usize = 50;
/// How long any answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// About what the record of such a job weighs.
const RECORD_BYTES: usize = 700;
const STREAM_BYTES: u64 = 16 * 1024 * 1024;
const LOOK_PAUSE: Duration = Duration::from_millis(1);

pub async fn claim(client: &Client, report: &mut Report) -> Result<(), String> {
    let link = client.link();
    let bare = Bare::new(link.bus().as_ref()).await?;
    let peel = PeelId::parse(PEEL).map_err(|error| error.to_string())?;
    let commands = Subject::Command { peel: peel.clone() }.to_string();
    let mut commands = link.bus().subscribe(&commands, Listen::alone(16)).await.map_err(|e| e.to_string())?;
    let (mut ours, mut writes) = (Vec::new(), Vec::new());
    for round in 0..WARM_UP + ROUNDS {
        if round % ROUNDS_A_BEAT == 0 {
            beat(link, &peel).await?;
        }
        let cost = bare.round(round).await?;
        let (took, exec) = first_byte(client, &mut commands).await?;
        end(client, &peel, &exec).await?;
        if round >= WARM_UP {
            writes.push(cost);
            ours.push(took);
        }
    }
    let (ours, writes) = (median(ours), median(writes));
    let notes =
        json!({ "dispatch_us": ours.as_micros() as f64, "three_writes_us": writes.as_micros() as f64 });
    let ratio = ours.as_secs_f64() / writes.as_secs_f64();
    report.claim("dispatch to the peel's first byte / three bare writes", ratio, "x", 3.0, notes);
    Ok(())
}

/// A message that is kept, a key that is made, a key that is changed: on stores like the master's, of the same server.
struct Bare<'a> {
    bus: &'a dyn Bus,
    payload: Bytes,
    bucket: String,
}

impl Bare<'_> {
    async fn new(bus: &dyn Bus) -> Result<Bare<'_>, String> {
        let stream = Store::stream("bench-events", &["bench.events.>"], STREAM_BYTES);
        let bucket = Store::bucket("bench-records", STREAM_BYTES);
        for store in [&stream, &bucket] {
            bus.ensure(store, 1).await.map_err(|error| error.to_string())?;
        }
        Ok(Bare { bus, payload: Bytes::from(vec![b'x'; RECORD_BYTES]), bucket: bucket.name })
    }

    async fn round(&self, round: usize) -> Result<Duration, String> {
        let (id, key) = (format!("id-{round}"), format!("key-{round}"));
        let (bus, payload) = (self.bus, || self.payload.clone());
        let fail = |error: zester_bus::Error| error.to_string();
        let began = Instant::now();
        bus.publish_stored("bench.events.one", payload(), Some(&id)).await.map_err(fail)?;
        let revision = bus.create(&self.bucket, &key, payload()).await.map_err(fail)?;
        bus.update(&self.bucket, &key, payload(), revision).await.map_err(fail)?;
        Ok(began.elapsed())
    }
}

/// Asks the master, and takes the time until the request is here.
async fn first_byte(client: &Client, commands: &mut Subscription) -> Result<(Duration, ExecRequest), String> {
    let link = client.link();
    let request = ping(client, PEEL)?;
    let began = Instant::now();
    let asked = link.request::<_, DispatchReply>(&Subject::Dispatch, &request, PATIENCE);
    let (reply, received) = tokio::join!(asked, receive(link, commands, &request.jid));
    let reply = reply.map_err(|error| error.to_string())?;
    if let Some(refusal) = reply.error {
        return Err(format!("the master refused: {}", refusal.message));
    }
    let (at, exec) = received?;
    Ok((at.duration_since(began), exec))
}

async fn receive(
    link: &Link,
    commands: &mut Subscription,
    jid: &Jid,
) -> Result<(Instant, ExecRequest), String> {
    let lost = || "no request came to the peel".to_string();
    loop {
        let delivery = timeout(PATIENCE, commands.next()).await.map_err(|_| lost())?;
        let at = Instant::now();
        let Some(Delivery::Message(message)) = delivery else { return Err(lost()) };
        let opened = link.open::<PeelCommand>(&message.subject, &message.payload);
        if let Some(PeelCommand::Exec(exec)) = opened.map(|opened| opened.message)
            && exec.jid == *jid
        {
            return Ok((at, exec));
        }
    }
}

/// Returns for the peel, and waits until the master has written that the job is over: the next round has it to itself.
async fn end(client: &Client, peel: &PeelId, exec: &ExecRequest) -> Result<(), String> {
    let link = client.link();
    let fail = |error: zester_link::Error| error.to_string();
    let refusal = Return::refusing(exec.jid.clone(), peel.clone(), exec.dispatch_epoch, Cause::Finished, "");
    let ret = Return { success: true, ts: link.now(), ..refusal };
    let subject = Subject::JobReturn { jid: exec.jid.clone(), peel: peel.clone() };
    link.publish_stored(&subject, &link.new_message_id().map_err(fail)?, &ret).await.map_err(fail)?;
    let over = async {
        let active = Key::Active(exec.jid.clone());
        while link.get::<zester_wire::JobEvent>(&active).await.map_err(fail)?.is_some() {
            sleep(LOOK_PAUSE).await;
        }
        Ok(())
    };
    timeout(PATIENCE, over).await.map_err(|_| "a job of the bench did not end".to_string())?
}

async fn beat(link: &Link, peel: &PeelId) -> Result<(), String> {
    let boot = link.new_token().map_err(|error| error.to_string())?;
    let heartbeat = PeelHeartbeat::new(peel.clone(), boot, 1, link.now());
    let subject = Subject::Heartbeat { peel: peel.clone() };
    link.publish(&subject, &heartbeat).await.map_err(|error| error.to_string())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
