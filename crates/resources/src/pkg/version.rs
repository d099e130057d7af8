//! Versions of packages: which is newer, and which ones a state accepts.

use std::cmp::Ordering;

/// How a package manager orders versions.
pub(crate) type Order = fn(&str, &str) -> Ordering;

/// What a state says of a version: `1.2-3`, `1.2*`, `>=1.2`, `>1.0,<2`. All parts must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VersionSpec(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Exact(String),
    /// With `*`, which stands for anything.
    Glob(String),
    Compared(Comparison, String),
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
}

/// Longer ones first: `>=` begins with `>`.
const SIGNS: [(&str, Comparison); 8] = [
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<>", Comparison::NotEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
    ("=", Comparison::Equal),
];

impl VersionSpec {
    pub(crate) fn parse(text: &str) -> Result<VersionSpec, String> {
        let parts = text.split(',').map(str::trim).map(|part| {
            let signed = SIGNS.iter().find_map(|(sign, how)| Some((*how, part.strip_prefix(sign)?.trim())));
            let version = signed.map_or(part, |(_, version)| version);
            // It goes onto a command line.
            let plain = version.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '*')
                && version
                    .chars()
                    .all(|letter| letter.is_ascii_alphanumeric() || "+-.:_~^*".contains(letter));
            match signed {
                _ if !plain => Err(format!("`{part}` cannot be the version of a package")),
                Some((_, version)) if version.contains('*') => Err(format!(
                    "`{part}` compares with a pattern; write `{version}` alone, or a whole version"
                )),
                Some((how, version)) => Ok(Part::Compared(how, version.to_string())),
                None if part.contains('*') => Ok(Part::Glob(part.to_string())),
                None => Ok(Part::Exact(part.to_string())),
            }
        });
        parts.collect::<Result<_, _>>().map(VersionSpec)
    }

    /// Whether it can only be judged by comparing.
    pub(crate) fn compares(&self) -> bool {
        self.0.len() > 1 || self.0.iter().any(|part| matches!(part, Part::Compared(..)))
    }

    /// The one version that it names.
    pub(crate) fn exact(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Part::Exact(version) | Part::Compared(Comparison::Equal, version)] => Some(version),
            _ => None,
        }
    }

    /// Each part as a sign and a version, as rpm and apk take them.
    pub(crate) fn comparisons(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|part| match part {
            Part::Exact(version) | Part::Glob(version) => ("=", version.as_str()),
            Part::Compared(how, version) => {
                let sign = match how {
                    Comparison::Less => "<",
                    Comparison::LessOrEqual => "<=",
                    Comparison::Equal => "=",
                    Comparison::NotEqual => "!=",
                    Comparison::GreaterOrEqual => ">=",
                    Comparison::Greater => ">",
                };
                (sign, version.as_str())
            }
        })
    }

    pub(crate) fn accepts(&self, version: &str, how: &Acceptance) -> bool {
        let version = how.seen(version);
        self.0.iter().all(|part| match part {
            Part::Exact(wanted) if how.or_newer => (how.order)(version, how.seen(wanted)).is_ge(),
            // A release that is not named does not count, where the manager has it so.
            Part::Exact(wanted) => (how.order)(version, how.seen(wanted)).is_eq(),
            Part::Glob(pattern) => glob(how.seen(pattern), version),
            Part::Compared(comparison, wanted) => {
                let order = (how.order)(version, how.seen(wanted));
                match comparison {
                    Comparison::Less => order.is_lt(),
                    Comparison::LessOrEqual => order.is_le(),
                    Comparison::Equal => order.is_eq(),
                    Comparison::NotEqual => order.is_ne(),
                    Comparison::GreaterOrEqual => order.is_ge(),
                    Comparison::Greater => order.is_gt(),
                }
            }
        })
    }
}

/// How versions are held against a spec.
#[derive(Copy, Clone)]
pub(crate) struct Acceptance {
    pub(crate) order: Order,
    /// `1:2.0` counts as `2.0`.
    pub(crate) ignore_epoch: bool,
    /// A newer one than the one named will do.
    pub(crate) or_newer: bool,
}

impl Acceptance {
    fn seen<'a>(&self, version: &'a str) -> &'a str {
        match version.split_once(':') {
            Some((_, rest)) if self.ignore_epoch => rest,
            _ => version,
        }
    }
}

/// `*` stands for any letters, none included.
fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            let mut places = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
            places.any(|at| glob(after, &rest[at..]))
        }),
    }
}

/// As dpkg orders them: epoch, version, revision; letters before other signs, `~` before the end.
pub(crate) fn deb_order(left: &str, right: &str) -> Ordering {
    fn parts(version: &str) -> (u64, &str, &str) {
        let (epoch, rest) = version.split_once(':').unwrap_or(("0", version));
        let (version, revision) = rest.rsplit_once('-').unwrap_or((rest, ""));
        (epoch.parse().unwrap_or(0), version, revision)
    }
    let (left, right) = (parts(left), parts(right));
    left.0.cmp(&right.0).then_with(|| deb_part(left.1, right.1)).then_with(|| deb_part(left.2, right.2))
}

fn deb_part(mut left: &str, mut right: &str) -> Ordering {
    let weight = |letter: Option<char>| match letter {
        Some('~') => -1,
        None => 0,
        Some(digit) if digit.is_ascii_digit() => 0,
        Some(letter) if letter.is_ascii_alphabetic() => letter as i32,
        Some(other) => other as i32 + 256,
    };
    while !left.is_empty() || !right.is_empty() {
        loop {
            let (mine, theirs) = (left.chars().next(), right.chars().next());
            let more = |letter: Option<char>| letter.is_some_and(|letter| !letter.is_ascii_digit());
            if !more(mine) && !more(theirs) {
                break;
            }
            match weight(mine).cmp(&weight(theirs)) {
                Ordering::Equal => {}
                differs => return differs,
            }
            left = mine.map_or("", |letter| &left[letter.len_utf8()..]);
            right = theirs.map_or("", |letter| &right[letter.len_utf8()..]);
        }
        let (mine, theirs) = (take_digits(&mut left), take_digits(&mut right));
        match by_number(mine, theirs) {
            Ordering::Equal => {}
            differs => return differs,
        }
    }
    Ordering::Equal
}

fn take_digits<'a>(text: &mut &'a str) -> &'a str {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    *text = rest;
    digits
}

/// Of any length.
fn by_number(left: &str, right: &str) -> Ordering {
    let (left, right) = (left.trim_start_matches('0'), right.trim_start_matches('0'));
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

/// As rpm and pacman order them: epoch, version, release; a release that only one of them names does not count.
pub(crate) fn rpm_order(left: &str, right: &str) -> Ordering {
    fn parts(version: &str) -> (u64, &str, Option<&str>) {
        let (epoch, rest) = version.split_once(':').unwrap_or(("0", version));
        let (version, release) = rest.rsplit_once('-').map_or((rest, None), |(one, two)| (one, Some(two)));
        (epoch.parse().unwrap_or(0), version, release)
    }
    let (left, right) = (parts(left), parts(right));
    let releases = || match (left.2, right.2) {
        (Some(mine), Some(theirs)) => rpm_part(mine, theirs),
        _ => Ordering::Equal,
    };
    left.0.cmp(&right.0).then_with(|| rpm_part(left.1, right.1)).then_with(releases)
}

fn rpm_part(mut left: &str, mut right: &str) -> Ordering {
    let counts = |letter: char| letter.is_ascii_alphanumeric() || letter == '~' || letter == '^';
    loop {
        left = left.trim_start_matches(|letter| !counts(letter));
        right = right.trim_start_matches(|letter| !counts(letter));
        match (left.strip_prefix('~'), right.strip_prefix('~')) {
            (Some(mine), Some(theirs)) => {
                (left, right) = (mine, theirs);
                continue;
            }
            (Some(_), None) => return Ordering::Less,
            (None, Some(_)) => return Ordering::Greater,
            (None, None) => {}
        }
        match (left.strip_prefix('^'), right.strip_prefix('^')) {
            (Some(mine), Some(theirs)) => {
                (left, right) = (mine, theirs);
                continue;
            }
            // More than the end, less than anything else.
            (Some(_), None) if right.is_empty() => return Ordering::Greater,
            (Some(_), None) => return Ordering::Less,
            (None, Some(_)) if left.is_empty() => return Ordering::Less,
            (None, Some(_)) => return Ordering::Greater,
            (None, None) => {}
        }
        if left.is_empty() || right.is_empty() {
            return left.len().cmp(&right.len());
        }
        let number = left.starts_with(|first: char| first.is_ascii_digit());
        if number != right.starts_with(|first: char| first.is_ascii_digit()) {
            return if number { Ordering::Greater } else { Ordering::Less };
        }
        let order = match number {
            true => by_number(take_digits(&mut left), take_digits(&mut right)),
            false => take_letters(&mut left).cmp(take_letters(&mut right)),
        };
        if order.is_ne() {
            return order;
        }
    }
}

fn take_letters<'a>(text: &mut &'a str) -> &'a str {
    let end = text.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(text.len());
    let (letters, rest) = text.split_at(end);
    *text = rest;
    letters
}

/// As apk orders them: `1.2b_rc3-r4`, where `_alpha`, `_beta`, `_pre` and `_rc` come before the plain one.
pub(crate) fn apk_order(left: &str, right: &str) -> Ordering {
    let plain = |version: &str| {
        let mut text = version.replace("-r", "-");
        for (word, instead) in [("_alpha", "~a"), ("_beta", "~b"), ("_pre", "~p"), ("_rc", "~r")] {
            text = text.replace(word, instead);
        }
        text.replace("_p", "^p").replace("_git", "^g")
    };
    rpm_order(&plain(left), &plain(right))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const OLDER_TO_NEWER: [(&str, &str); 14] = [
        ("1.0~rc1-1", "1.0-1"),
        ("1.0", "1.0a"),
        ("1.9", "1.10"),
        ("1.0-1", "1.0-2"),
        ("9.9", "1:0.1"),
        ("1.0-1", "1.0-1+b1"),
        ("2.36-9+deb12u9", "2.36-9+deb12u10"),
        ("1.0~~", "1.0~"),
        ("1.0+a", "1.0+b"),
        ("0.9.8zg", "1.0"),
        ("1a", "1+"),
        ("3.0.2-0ubuntu1", "3.0.2-0ubuntu1.1"),
        ("20190110~deb9u1", "20190110"),
        ("1.002", "1.10"),
    ];

    #[test]
    fn versions_of_debian_are_ordered_as_dpkg_does() {
        for (older, newer) in OLDER_TO_NEWER {
            assert_eq!(deb_order(older, newer), Ordering::Less, "{older} {newer}");
            assert_eq!(deb_order(newer, older), Ordering::Greater, "{older} {newer}");
            assert_eq!(deb_order(older, older), Ordering::Equal);
        }
        assert_eq!(deb_order("1.0", "1.0-0"), Ordering::Equal);
        assert_eq!(deb_order("0:1.0", "1.0"), Ordering::Equal);
    }

    #[test]
    fn the_real_dpkg_agrees() {
        let Ok(found) = Command::new("dpkg").arg("--version").output() else {
            zester_testkit::skip!("needs dpkg");
        };
        assert!(found.status.success());
        for (older, newer) in OLDER_TO_NEWER {
            let said = Command::new("dpkg").args(["--compare-versions", older, "lt", newer]).status();
            assert!(said.unwrap().success(), "{older} {newer}");
        }
    }

    #[test]
    fn versions_of_rpm_are_ordered_as_rpm_does() {
        for (older, newer) in [
            ("1.0", "1.1"),
            ("1.9-1", "1.10-1"),
            ("1.0~rc1", "1.0"),
            ("1.0", "1.0^git1"),
            ("1.0^git1", "1.0.1"),
            ("1.0a", "1.0.1"),
            ("9-1", "1:1-1"),
            ("5.14.0-70.el9", "5.14.0-162.el9"),
        ] {
            assert_eq!(rpm_order(older, newer), Ordering::Less, "{older} {newer}");
            assert_eq!(rpm_order(newer, older), Ordering::Greater, "{older} {newer}");
        }
        assert_eq!(rpm_order("1.0", "1.0-5"), Ordering::Equal);
        assert_eq!(rpm_order("1.0", "1_0"), Ordering::Equal);
    }

    #[test]
    fn versions_of_apk_are_ordered_as_apk_does() {
        for (older, newer) in [
            ("1.2_alpha1-r0", "1.2_beta1-r0"),
            ("1.2_rc9-r3", "1.2-r0"),
            ("1.2-r0", "1.2_p1-r0"),
            ("1.2-r9", "1.2-r10"),
            ("1.2-r9", "1.2.1-r0"),
        ] {
            assert_eq!(apk_order(older, newer), Ordering::Less, "{older} {newer}");
        }
    }

    #[test]
    fn a_spec_accepts_what_it_says() {
        let accepts = |spec: &str, version: &str| {
            let how = Acceptance { order: deb_order, ignore_epoch: false, or_newer: false };
            VersionSpec::parse(spec).unwrap().accepts(version, &how)
        };
        for (spec, yes, no) in [
            ("1.2-3", "1.2-3", "1.2-4"),
            ("1.2*", "1.2.9-1", "1.3"),
            ("*+b1", "1.0-1+b1", "1.0-1"),
            (">=1.2", "1:0", "1.1"),
            ("> 1.0 , < 2", "1.9", "2"),
            ("<=1.0", "1.0", "1.0-1"),
            ("!=1.0", "1.1", "1.0"),
            ("==1.0", "1.0", "1.1"),
        ] {
            assert!(accepts(spec, yes), "{spec} {yes}");
            assert!(!accepts(spec, no), "{spec} {no}");
        }
        for bad in ["", ">=", ">=1.2*", "1 2", "-x", "1,", "$(x)"] {
            assert!(VersionSpec::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_epoch_may_not_count_and_newer_may_do() {
        let spec = VersionSpec::parse("2.0").unwrap();
        let how = Acceptance { order: deb_order, ignore_epoch: true, or_newer: false };
        assert!(spec.accepts("1:2.0", &how));
        assert!(!spec.accepts("1:2.1", &how));
        assert!(spec.accepts("1:2.1", &Acceptance { or_newer: true, ..how }));
        assert!(!spec.accepts("1.9", &Acceptance { or_newer: true, ..how }));
    }
}
