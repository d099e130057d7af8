//! `host.present`, `host.absent`, `host.only`: names and addresses in `/etc/hosts`.

use crate::claims::{Claim, Claims, ManagedItem};
use crate::context::Checking;
use crate::file_edit::{Edited, EditedFile, FileEdit};
use crate::params::{Invalid, params};
use std::net::IpAddr;
use std::path::Path;
use zester_host::Fault;

const HOSTS: &str = "/etc/hosts";

/// One line of the file. What is no entry is kept as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Line {
    Other(String),
    Entry { text: String, address: String, names: Vec<String>, comment: Option<String>, changed: bool },
}

impl Line {
    fn read(text: &str) -> Line {
        let (entry, comment) = match text.split_once('#') {
            Some((entry, comment)) => (entry, Some(comment.to_string())),
            None => (text, None),
        };
        let mut words = entry.split_whitespace().map(str::to_string);
        match words.next() {
            Some(address) => Line::Entry {
                text: text.to_string(),
                address,
                names: words.collect(),
                comment,
                changed: false,
            },
            None => Line::Other(text.to_string()),
        }
    }

    fn new(address: &str, names: Vec<String>, comment: Option<&str>) -> Line {
        let comment = comment.map(|comment| format!(" {comment}"));
        Line::Entry { text: String::new(), address: address.to_string(), names, comment, changed: true }
    }

    /// None where nothing is left of it.
    fn written(&self) -> Option<String> {
        match self {
            Line::Other(text) => Some(text.clone()),
            Line::Entry { text, changed: false, .. } => Some(text.clone()),
            Line::Entry { names, .. } if names.is_empty() => None,
            Line::Entry { address, names, comment, .. } => {
                let comment = comment.as_ref().map(|comment| format!("\t#{comment}")).unwrap_or_default();
                Some(format!("{address}\t{}{comment}", names.join(" ")))
            }
        }
    }

    fn is_of(&self, wanted: &str) -> bool {
        matches!(self, Line::Entry { address, .. } if same_address(address, wanted))
    }

    fn has(&self, name: &str) -> bool {
        matches!(self, Line::Entry { names, .. } if names.iter().any(|own| own.eq_ignore_ascii_case(name)))
    }

    /// Other names, where they are others.
    fn set_names(&mut self, wanted: Vec<String>) {
        if let Line::Entry { names, changed, .. } = self
            && *names != wanted
        {
            *names = wanted;
            *changed = true;
        }
    }

    fn set_comment(&mut self, wanted: Option<&str>) {
        if let (Line::Entry { comment, changed, .. }, Some(wanted)) = (self, wanted)
            && comment.as_deref().map(str::trim) != Some(wanted)
        {
            *comment = Some(format!(" {wanted}"));
            *changed = true;
        }
    }

    fn without(&mut self, name: &str) {
        if let Line::Entry { names, .. } = self {
            let left = names.iter().filter(|own| !own.eq_ignore_ascii_case(name)).cloned().collect();
            self.set_names(left);
        }
    }
}

fn same_address(one: &str, other: &str) -> bool {
    one == other
        || matches!((one.parse::<IpAddr>(), other.parse::<IpAddr>()), (Ok(one), Ok(other)) if one == other)
}

fn read(text: Option<&str>) -> Vec<Line> {
    text.unwrap_or_default().lines().map(Line::read).collect()
}

fn written(lines: &[Line]) -> Edited {
    Edited::To(lines.iter().filter_map(Line::written).map(|line| line + "\n").collect())
}

fn hosts() -> EditedFile<'static> {
    EditedFile::new(Path::new(HOSTS))
}

fn odd_addresses<'a>(
    parameter: &'static str,
    addresses: impl IntoIterator<Item = &'a String>,
) -> Vec<Invalid> {
    let odd = addresses.into_iter().filter(|address| address.parse::<IpAddr>().is_err());
    odd.map(|address| Invalid::new(parameter, format!("`{address}` is no address"))).collect()
}

fn odd_hosts<'a>(parameter: &'static str, names: impl IntoIterator<Item = &'a String>) -> Vec<Invalid> {
    let odd = |name: &&String| {
        name.is_empty() || name.contains(|letter: char| letter.is_whitespace() || letter == '#')
    };
    let names = names.into_iter().filter(odd);
    names.map(|name| Invalid::new(parameter, format!("`{name}` cannot name a host"))).collect()
}

fn item(name: &str) -> ManagedItem {
    ManagedItem::Named("host", name.to_string())
}

/// A host in `/etc/hosts`.
#[params(kind = "host.present", primary = "name", manual = "host_present.md")]
pub struct Present {
    /// The name of the host.
    name: String,
    /// Its addresses.
    #[param(list)]
    ip: Vec<String>,
    /// Takes the name off all other addresses.
    #[param(default)]
    clean: bool,
    /// What is to stand behind it on its line.
    comment: Option<String>,
}

impl FileEdit for Present {
    fn file(&self) -> EditedFile<'_> {
        hosts()
    }

    fn edit(&self, old: Option<&str>, _: &Checking<'_>) -> Result<Edited, Fault> {
        let mut lines = read(old);
        if self.clean {
            for line in &mut lines {
                if !self.ip.iter().any(|ip| line.is_of(ip)) {
                    line.without(&self.name);
                }
            }
        }
        for ip in &self.ip {
            if let Some(line) = lines.iter_mut().find(|line| line.is_of(ip) && line.has(&self.name)) {
                line.set_comment(self.comment.as_deref());
                continue;
            }
            // A comment is about its own line.
            let beside = lines.iter_mut().find(|line| line.is_of(ip)).filter(|_| self.comment.is_none());
            match beside {
                Some(Line::Entry { names, changed, .. }) => {
                    names.push(self.name.clone());
                    *changed = true;
                }
                _ => lines.push(Line::new(ip, vec![self.name.clone()], self.comment.as_deref())),
            }
        }
        Ok(written(&lines))
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = odd_hosts("name", [&self.name]);
        invalid.extend(odd_addresses("ip", &self.ip));
        if self.comment.as_ref().is_some_and(|comment| comment.contains('\n')) {
            invalid.push(Invalid::new("comment", "a comment there is one line"));
        }
        invalid
    }

    fn needs(&self) -> Claims {
        let addresses = self.clean.then(|| self.ip.clone());
        Claims::of(Claim::new(item(&self.name), "present").with("ip", addresses))
    }
}

/// A host that is not in `/etc/hosts`.
#[params(kind = "host.absent", primary = "name", manual = "host_absent.md")]
pub struct Absent {
    /// The name of the host.
    name: String,
    /// The addresses that it is taken off. Unset: all.
    #[param(list)]
    ip: Option<Vec<String>>,
}

impl FileEdit for Absent {
    fn file(&self) -> EditedFile<'_> {
        hosts()
    }

    fn edit(&self, old: Option<&str>, _: &Checking<'_>) -> Result<Edited, Fault> {
        let mut lines = read(old);
        if !lines.iter().any(|line| line.has(&self.name)) {
            return Ok(Edited::Same);
        }
        let meant = |line: &Line| self.ip.as_ref().is_none_or(|ips| ips.iter().any(|ip| line.is_of(ip)));
        lines.iter_mut().filter(|line| meant(line)).for_each(|line| line.without(&self.name));
        Ok(written(&lines))
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = odd_hosts("name", [&self.name]);
        invalid.extend(odd_addresses("ip", self.ip.iter().flatten()));
        invalid
    }

    fn needs(&self) -> Claims {
        match self.ip {
            Some(_) => Claims::default(),
            None => Claims::of(Claim::new(item(&self.name), "absent")),
        }
    }
}

/// All names of an address in `/etc/hosts`.
#[params(kind = "host.only", primary = "name", manual = "host_only.md")]
pub struct Only {
    /// The address.
    name: String,
    /// Its names, and no others.
    #[param(list)]
    hostnames: Vec<String>,
}

impl FileEdit for Only {
    fn file(&self) -> EditedFile<'_> {
        hosts()
    }

    fn edit(&self, old: Option<&str>, _: &Checking<'_>) -> Result<Edited, Fault> {
        let mut lines = read(old);
        let mut left = Some(self.hostnames.clone());
        for line in lines.iter_mut().filter(|line| line.is_of(&self.name)) {
            line.set_names(left.take().unwrap_or_default());
        }
        if let Some(names) = left {
            lines.push(Line::new(&self.name, names, None));
        }
        Ok(written(&lines))
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = odd_addresses("name", [&self.name]);
        invalid.extend(odd_hosts("hostnames", &self.hostnames));
        invalid
    }

    fn needs(&self) -> Claims {
        let item = ManagedItem::Named("address", self.name.clone());
        Claims::of(Claim::new(item, "only").with("hostnames", Some(&self.hostnames)))
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish};
    use serde_json::json;
    let case = |kind, params, promise, hosts: &'static str| {
        Case::new(kind, params, promise, move |host| {
            let processes = furnish(host, "d /etc 0755");
            if !hosts.is_empty() {
                crate::laws::put_text(host, HOSTS, hosts);
            }
            processes
        })
    };
    const TWO: &str = "127.0.0.1 localhost\n# mine\n10.0.0.1\tdb db.example  # main\n10.0.0.2 db\n";
    vec![
        case("host.present", json!({ "name": "db", "ip": "10.0.0.1" }), Promise::Converges, ""),
        case("host.present", json!({ "name": "db", "ip": "10.0.0.1" }), Promise::Clean, TWO),
        case("host.present", json!({ "name": "web", "ip": ["10.0.0.1", "::1"] }), Promise::Converges, TWO),
        case(
            "host.present",
            json!({ "name": "db", "ip": "10.0.0.2", "clean": true }),
            Promise::Converges,
            TWO,
        ),
        case(
            "host.present",
            json!({ "name": "web", "ip": "10.0.0.1", "comment": "own" }),
            Promise::Converges,
            TWO,
        ),
        case("host.absent", json!({ "name": "db" }), Promise::Converges, TWO),
        case("host.absent", json!({ "name": "db", "ip": "10.0.0.2" }), Promise::Converges, TWO),
        case("host.absent", json!({ "name": "web" }), Promise::Clean, TWO),
        case(
            "host.only",
            json!({ "name": "10.0.0.1", "hostnames": ["db", "db.example"] }),
            Promise::Clean,
            TWO,
        ),
        case("host.only", json!({ "name": "10.0.0.1", "hostnames": "web" }), Promise::Converges, TWO),
        case("host.only", json!({ "name": "10.0.0.9", "hostnames": "web" }), Promise::Converges, TWO),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(lines: &[Line]) -> String {
        match written(lines) {
            Edited::To(text) => text,
            Edited::Same => String::new(),
        }
    }

    #[test]
    fn lines_that_nothing_is_said_about_stay_letter_for_letter() {
        let text = "# head\n\n127.0.0.1   localhost   # here\n  ::1 localhost ip6-localhost\n";
        assert_eq!(edited(&read(Some(text))), text);
    }

    #[test]
    fn an_address_is_the_same_however_it_is_spelt() {
        assert!(same_address("::1", "0:0:0:0:0:0:0:1"));
        assert!(!same_address("10.0.0.1", "10.0.0.10"));
    }

    #[test]
    fn a_line_without_names_is_gone_and_its_comment_with_it() {
        let mut lines = read(Some("10.0.0.1 a b # x\n10.0.0.2 a\n"));
        lines.iter_mut().for_each(|line| line.without("A"));
        assert_eq!(edited(&lines), "10.0.0.1\tb\t# x\n");
    }
}
