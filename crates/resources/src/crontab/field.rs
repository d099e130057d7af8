//! One of the five fields that say when a job runs, as Debian's cron reads them.

/// What a field counts, with the names that stand for some of its numbers, from the first on.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    first: u32,
    last: u32,
    names: &'static [&'static str],
}

pub(crate) const FIELDS: [Field; 5] = [
    Field { name: "minute", first: 0, last: 59, names: &[] },
    Field { name: "hour", first: 0, last: 23, names: &[] },
    Field { name: "daymonth", first: 1, last: 31, names: &[] },
    Field {
        name: "month",
        first: 1,
        last: 12,
        names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    // Sunday is 0, and 7 too.
    Field { name: "dayweek", first: 0, last: 7, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

impl Field {
    /// What is wrong with a text; cron would refuse the whole crontab for it, or run the job never.
    pub(crate) fn wrong(&self, text: &str) -> Option<String> {
        text.split(',').find_map(|item| self.wrong_item(item))
    }

    fn wrong_item(&self, item: &str) -> Option<String> {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (item, None),
        };
        if step.is_some_and(|step| !step.parse::<u32>().is_ok_and(|step| (1..=self.last).contains(&step))) {
            return Some(format!("`{item}` has no step from 1 to {}", self.last));
        }
        let (from, to) = match range.split_once('-') {
            Some((from, to)) => (from, to),
            None if range == "*" => return None,
            None if step.is_some() => {
                return Some(format!("`{item}` steps through no range; write `*/N` or `A-B/N`"));
            }
            None => (range, range),
        };
        let (Some(from), Some(to)) = (self.number(from), self.number(to)) else {
            return Some(format!("`{item}` is not {} to {}", self.first, self.last));
        };
        (from > to).then(|| format!("`{item}` ends before it begins"))
    }

    fn number(&self, text: &str) -> Option<u32> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let number = match named {
            Some(place) => self.first + u32::try_from(place).ok()?,
            None if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok()?,
            None => return None,
        };
        (self.first..=self.last).contains(&number).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("S-3")]
    fn s3_a_field_that_cron_would_refuse_is_told() {
        for (field, well) in [
            (0, "0,15-30/5,*/10,59"),
            (1, "*/2"),
            (2, "1,31"),
            (3, "jan,Mar-dec/2,12"),
            (4, "0-7"),
            (4, "mon-fri"),
        ] {
            assert_eq!(FIELDS[field].wrong(well), None, "{well}");
        }
        for (field, wrong, why) in [
            (0, "99", "`99` is not 0 to 59"),
            (0, "60", "`60` is not 0 to 59"),
            (1, "24", "`24` is not 0 to 23"),
            (2, "0", "`0` is not 1 to 31"),
            (2, "5,32", "`32` is not 1 to 31"),
            (3, "13", "`13` is not 1 to 12"),
            (3, "foo", "`foo` is not 1 to 12"),
            (4, "8", "`8` is not 0 to 7"),
            (0, "30-10", "`30-10` ends before it begins"),
            (0, "*/0", "`*/0` has no step from 1 to 59"),
            (0, "*/x", "`*/x` has no step from 1 to 59"),
            (0, "5/10", "`5/10` steps through no range; write `*/N` or `A-B/N`"),
            (0, "1,,2", "`` is not 0 to 59"),
            (0, "-5", "`-5` is not 0 to 59"),
            (0, "+5", "`+5` is not 0 to 59"),
            (0, "", "`` is not 0 to 59"),
        ] {
            assert_eq!(FIELDS[field].wrong(wrong).as_deref(), Some(why));
        }
    }
}
