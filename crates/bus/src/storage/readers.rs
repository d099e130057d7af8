//! The durable readers of a fleet, made at the start of every master.

use super::{Drift, EVENTS, JOB_EVENTS, Report};
use crate::Bus;
use crate::durable::{DurableReader, Start};
use crate::error::Error;
use crate::limits::{LATE_RETURNS_ACK_WAIT, LATE_RETURNS_UNACKED_MAX, REACTOR_ACK_WAIT, REACTOR_UNACKED_MAX};
use crate::storage::Found;
use zester_wire::subject;

/// What the reactors of all masters share.
pub fn reactor() -> DurableReader {
    DurableReader {
        stream: EVENTS.into(),
        name: "reactor".into(),
        pattern: subject::EVENTS.into(),
        start: Start::New,
        ack_wait: REACTOR_ACK_WAIT,
        unacked_max: REACTOR_UNACKED_MAX,
        // An event is given until it is acknowledged: a master may die on any delivery, and none vanishes by a count. How often
        // it is handed back is for the reactor to say.
        max_deliver: None,
    }
}

/// Goes through the returns of all jobs, for those that came when nobody watched (J-9).
pub fn late_returns() -> DurableReader {
    DurableReader {
        stream: JOB_EVENTS.into(),
        name: "late-returns".into(),
        pattern: subject::ALL_RETURNS.into(),
        start: Start::Oldest,
        ack_wait: LATE_RETURNS_ACK_WAIT,
        unacked_max: LATE_RETURNS_UNACKED_MAX,
        max_deliver: None,
    }
}

/// All of them.
pub fn readers() -> Vec<DurableReader> {
    vec![reactor(), late_returns()]
}

/// Makes those that are missing; tells how others differ. Their streams must be there.
pub async fn ensure_readers(bus: &dyn Bus, readers: &[DurableReader]) -> Result<Report, Error> {
    let mut report = Report::default();
    for reader in readers {
        match bus.ensure_reader(reader).await? {
            Found::Created => report.created.push(reader.title()),
            Found::Existing(drift) => report.drift.extend(drift),
        }
    }
    Ok(report)
}

/// Brings how existing readers give to what the table says, and tells what was different. Once at a start: where two masters
/// are configured differently, the one that started last counts.
pub async fn adjust_readers(bus: &dyn Bus, readers: &[DurableReader]) -> Result<Vec<Drift>, Error> {
    let mut adjusted = Vec::new();
    for reader in readers {
        adjusted.extend(bus.adjust_reader(reader).await?);
    }
    Ok(adjusted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::intersect;
    use crate::storage::table;
    use std::time::Duration;
    use zester_rule::rule;

    #[test]
    fn every_reader_has_limits_and_reads_a_stream_of_the_table() {
        for reader in readers() {
            assert!(reader.check().is_ok(), "{}", reader.name);
            let table = table();
            let store = table.iter().find(|store| store.stream_name() == reader.stream);
            let subjects = store.map(|store| store.subjects.clone()).unwrap_or_default();
            let kept = subjects.iter().any(|subject| intersect(subject, &reader.pattern).is_some());
            assert!(kept, "{} of {}", reader.pattern, reader.stream);
        }
    }

    #[test]
    #[rule("R-1")]
    fn r1_all_masters_share_one_reader_of_events() {
        let expected = DurableReader {
            stream: "events".into(),
            name: "reactor".into(),
            pattern: "zester.event.>".into(),
            start: Start::New,
            ack_wait: Duration::from_secs(60),
            unacked_max: 64,
            max_deliver: None,
        };
        assert_eq!(reactor(), expected);
        assert_eq!(readers().into_iter().filter(|reader| reader.stream == "events").count(), 1);
    }
}
