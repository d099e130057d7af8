//! Events for people.

use super::control::one_line;
use super::paint::Paint;
use super::shell::cut;
use zester_client::SeenEvent;
use zester_wire::UnixMillis;

/// Letters of the data of an event that a line shows; JSON has all of it.
const DATA_SHOWN: usize = 400;

/// `09:41:07`, of the day in UTC, as the masters' logs have it.
pub fn clock(moment: UnixMillis) -> String {
    let seconds = moment.0 / 1_000 % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

pub fn sent(key: &str, id: &str, paint: Paint) -> String {
    let more = format!("what came of it: zester reactor show {id}");
    format!("sent {key}  {id}\n{}\n", paint.dim(&more))
}

/// `09:41:07  web-01/beacon/web-01/service  {"running":false}`
pub fn line(seen: &SeenEvent, paint: Paint) -> String {
    let key = paint.cyan(&one_line(&seen.subject.match_key()));
    let data = match seen.event.data.is_empty() {
        true => String::new(),
        false => {
            let data = serde_json::to_string(&seen.event.data).unwrap_or_default();
            format!("  {}", cut(&one_line(&data), DATA_SHOWN))
        }
    };
    let depth = match seen.event.depth {
        0 => String::new(),
        depth => paint.dim(&format!("  depth {depth}")),
    };
    format!("{}  {key}{depth}{data}\n", paint.dim(&clock(seen.at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_line_is_that_of_the_day() {
        assert_eq!(clock(UnixMillis(1_800_000_067_123)), "08:01:07");
    }
}
