//! `strftime`: a moment in the words of a format.

use super::python;
use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// A day and a time of day, without a zone.
struct Moment {
    year: i64,
    month: u32,
    day: u32,
    seconds: u32,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Days since 1970-01-01 of a day of the calendar that is in use today.
fn days(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let shifted = i64::from((month + 9) % 12);
    let of_year = (153 * shifted + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn calendar(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = (of_year - (153 * shifted + 2) / 5 + 1) as u32;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 } as u32;
    (year + era * 400 + i64::from(month <= 2), month, day)
}

fn moment(value: &Value) -> Option<Moment> {
    let number = match value.kind() {
        ValueKind::Number => f64::try_from(value.clone()).ok(),
        _ => value.as_str().and_then(|text| text.trim().parse::<f64>().ok()),
    };
    if let Some(number) = number.filter(|number| number.abs() < 1e14) {
        let seconds = number.floor() as i64;
        let (year, month, day) = calendar(seconds.div_euclid(86_400));
        return Some(Moment { year, month, day, seconds: seconds.rem_euclid(86_400) as u32 });
    }
    written(value.as_str()?)
}

/// `2002-12-25`, `2002/12/25 14:30:01`, `2002-12-25T14:30`.
fn written(text: &str) -> Option<Moment> {
    let text = text.trim().trim_end_matches('Z');
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, ""));
    let parts: Vec<u32> = date.split(['-', '/']).map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [year, month, day] = parts[..] else { return None };
    let clock: Vec<u32> = match time.is_empty() {
        true => Vec::new(),
        false => time.split(':').map(|part| part.split('.').next()?.parse().ok()).collect::<Option<_>>()?,
    };
    let at = |index: usize| clock.get(index).copied().unwrap_or(0);
    let sound =
        (1..=12).contains(&month) && (1..=31).contains(&day) && at(0) < 24 && at(1) < 60 && at(2) < 61;
    let seconds = at(0) * 3600 + at(1) * 60 + at(2);
    sound.then_some(Moment { year: i64::from(year), month, day, seconds })
}

/// Writes a moment (seconds since 1970, or a date) as a format says.
pub fn strftime(value: &Value, format: &str) -> Result<String, Error> {
    let no = |message: String| Error::new(ErrorKind::InvalidOperation, message);
    let moment = moment(value).ok_or_else(|| no(format!("`{}` is no date", python::text(value))))?;
    let since = days(moment.year, moment.month, moment.day);
    let weekday = (since + 3).rem_euclid(7) as usize;
    let of_year = since - days(moment.year, 1, 1) + 1;
    let (hour, minute, second) = (moment.seconds / 3600, moment.seconds / 60 % 60, moment.seconds % 60);
    let mut out = String::with_capacity(format.len() + 16);
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        let month = MONTHS.get(moment.month as usize - 1).copied().unwrap_or_default();
        let day = DAYS.get(weekday).copied().unwrap_or_default();
        out.push_str(&match letters.next() {
            Some('Y') => moment.year.to_string(),
            Some('y') => format!("{:02}", moment.year.rem_euclid(100)),
            Some('m') => format!("{:02}", moment.month),
            Some('d') => format!("{:02}", moment.day),
            Some('e') => format!("{:2}", moment.day),
            Some('H') => format!("{hour:02}"),
            Some('I') => format!("{:02}", (hour + 11) % 12 + 1),
            Some('M') => format!("{minute:02}"),
            Some('S') => format!("{second:02}"),
            Some('p') => (if hour < 12 { "AM" } else { "PM" }).to_string(),
            Some('j') => format!("{of_year:03}"),
            Some('F') => format!("{}-{:02}-{:02}", moment.year, moment.month, moment.day),
            Some('T') => format!("{hour:02}:{minute:02}:{second:02}"),
            Some('B') => month.to_string(),
            Some('b' | 'h') => month.chars().take(3).collect(),
            Some('A') => day.to_string(),
            Some('a') => day.chars().take(3).collect(),
            Some('u') => (weekday + 1).to_string(),
            Some('w') => ((weekday + 1) % 7).to_string(),
            Some('s') => (since * 86_400 + i64::from(moment.seconds)).to_string(),
            Some('Z') => "UTC".to_string(),
            Some('z') => "+0000".to_string(),
            Some('%') => "%".to_string(),
            Some(other) => return Err(no(format!("strftime has no `%{other}`"))),
            None => "%".to_string(),
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("S-49")]
    fn s49_dates_are_written_as_the_format_says() {
        for (value, format, wanted) in [
            (Value::from(1_457_456_400), "%Y-%m-%d", "2016-03-08"),
            (Value::from("2002/12/25"), "%j", "359"),
            (Value::from("2002-12-25T14:05:06"), "%A %I:%M %p", "Wednesday 02:05 PM"),
            (Value::from(0), "%a %b %d %H:%M:%S %Y", "Thu Jan 01 00:00:00 1970"),
            (Value::from("2024-02-29"), "%F %u", "2024-02-29 4"),
        ] {
            assert_eq!(strftime(&value, format).unwrap(), wanted);
        }
        assert!(strftime(&Value::from("soon"), "%Y").is_err());
        assert_eq!(calendar(days(1900, 3, 1)), (1900, 3, 1));
    }
}
