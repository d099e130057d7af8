//! Options of a mount: as they are written, and as the kernel tells them.

/// What means nothing to the kernel, or stands for what is so anyway.
const NEVER_SHOWN: [&str; 16] = [
    "defaults", "auto", "noauto", "nofail", "user", "nouser", "users", "_netdev", "suid", "dev", "exec",
    "async", "atime", "loop", "bind", "rbind",
];
/// How such options begin.
const NEVER_SHOWN_PREFIXES: [&str; 4] = ["x-", "comment=", "X-", "loop="];

pub(crate) fn split_options(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|option| !option.is_empty()).map(str::to_string).collect()
}

/// Options that hold a secret, whoever asks (mount.cifs).
pub(crate) const SECRET_OPTIONS: [&str; 3] = ["password", "pass", "password2"];

/// An option as it may be shown: the value of one that is hidden is not.
pub(crate) fn shown_option(option: &str, hidden: &[String]) -> String {
    let (name, value) = option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
    let is_it = |own: &String| own == option || own.split('=').next() == Some(name);
    match value {
        Some(_) if hidden.iter().any(is_it) => format!("{name}=***"),
        None if hidden.iter().any(|own| own == option) => "***".to_string(),
        _ => option.to_string(),
    }
}

/// Several, as they stand in a table.
pub(crate) fn shown_options(options: &str, hidden: &[String]) -> String {
    options.split(',').map(|option| shown_option(option, hidden)).collect::<Vec<_>>().join(",")
}

/// Those wanted options that the kernel does not tell of a mount. Of a key that it tells nothing of (credentials, a module's
/// own) nobody can say.
pub(crate) fn missing_options(wanted: &[String], live: &[String], invisible: &[String]) -> Vec<String> {
    let mut missing: Vec<String> = Vec::new();
    for option in wanted {
        let name = option.split('=').next();
        let known = NEVER_SHOWN.contains(&option.as_str())
            || NEVER_SHOWN_PREFIXES.iter().any(|prefix| option.starts_with(prefix))
            || invisible.iter().any(|own| own == option || Some(own.as_str()) == name)
            || live.iter().any(|own| same(own, option));
        let key = option.split_once('=').map(|(key, _)| key);
        let told = key
            .is_none_or(|key| live.iter().any(|own| own.split_once('=').is_some_and(|(own, _)| own == key)));
        if !known && told {
            missing.push(option.clone());
        }
    }
    if !wanted.iter().any(|option| option == "ro") && live.iter().any(|option| option == "ro") {
        missing.push("rw".into());
    }
    missing
}

fn same(live: &str, wanted: &str) -> bool {
    match (live.split_once('='), wanted.split_once('=')) {
        (Some((key, live)), Some((other, wanted))) if key == other => {
            live == wanted
                || matches!((amount(key, live), amount(key, wanted)), (Some(one), Some(two)) if one == two)
        }
        _ => live == wanted,
    }
}

/// Sizes in bytes, modes as numbers.
fn amount(key: &str, text: &str) -> Option<u64> {
    if key.ends_with("mode") || key.ends_with("mask") {
        return u64::from_str_radix(text, 8).ok();
    }
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(wanted: &str, live: &str) -> String {
        missing_options(&split_options(wanted), &split_options(live), &[]).join(",")
    }

    #[test]
    fn options_count_by_what_they_mean() {
        for (wanted, live, expected) in [
            ("defaults", "rw,relatime", ""),
            ("size=10m,mode=0755", "rw,size=10240k,mode=755", ""),
            ("size=20m", "rw,size=10240k", "size=20m"),
            ("noatime,nofail,x-systemd.automount", "rw,relatime", "noatime"),
            ("ro", "rw,relatime", "ro"),
            ("noatime", "ro,noatime", "rw"),
            ("credentials=/root/x,vers=3.0", "rw,vers=3.0", ""),
        ] {
            assert_eq!(missing(wanted, live), expected, "{wanted} of {live}");
        }
    }
}
