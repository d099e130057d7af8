//! The table of what is mounted when the machine starts.

use super::options::shown_options;
use super::unescaped;
use crate::config_text::ConfigText;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FstabEntry {
    pub(crate) device: String,
    pub(crate) place: String,
    pub(crate) fstype: String,
    pub(crate) options: String,
    pub(crate) dump: u32,
    pub(crate) pass_num: u32,
}

fn escaped(field: &str) -> String {
    field.replace('\\', "\\134").replace(' ', "\\040").replace('\t', "\\011")
}

impl FstabEntry {
    fn read(line: &str) -> Option<FstabEntry> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse().ok()).unwrap_or(0);
        match fields.as_slice() {
            [first, ..] if first.starts_with('#') => None,
            [device, place, fstype, rest @ ..] => Some(FstabEntry {
                device: unescaped(device),
                place: unescaped(place),
                fstype: (*fstype).to_string(),
                options: rest.first().map_or("defaults", |options| options).to_string(),
                dump: number(4),
                pass_num: number(5),
            }),
            _ => None,
        }
    }

    fn written(&self) -> String {
        let FstabEntry { device, place, fstype, options, dump, pass_num } = self;
        format!("{}\t{}\t{fstype}\t{options}\t{dump} {pass_num}", escaped(device), escaped(place))
    }

    /// Whether both are about one thing: a place, or a device that has none.
    fn is_about(&self, other: &FstabEntry) -> bool {
        match self.place.starts_with('/') || other.place.starts_with('/') {
            true => self.place.trim_end_matches('/') == other.place.trim_end_matches('/'),
            false => self.device == other.device,
        }
    }
}

fn lines(text: &ConfigText) -> Vec<String> {
    text.iter().flat_map(|text| text.lines()).map(str::to_string).collect()
}

fn joined(lines: &[String]) -> ConfigText {
    Some(lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect())
}

/// With this entry, in place of the one about the same place.
pub(crate) fn with_entry(text: &ConfigText, entry: &FstabEntry) -> ConfigText {
    let mut lines = lines(text);
    let own = |line: &String| FstabEntry::read(line).filter(|own| own.is_about(entry));
    match lines.iter_mut().find(|line| own(line).is_some()) {
        Some(line) if own(line).as_ref() == Some(entry) => return text.clone(),
        Some(line) => *line = entry.written(),
        None => lines.push(entry.written()),
    }
    joined(&lines)
}

/// As it may be shown: without what options are to hide.
pub(crate) fn shown_table(text: &ConfigText, hidden: &[String]) -> ConfigText {
    let shown = |line: &str| match FstabEntry::read(line) {
        Some(entry) => line.replace(&entry.options, &shown_options(&entry.options, hidden)),
        None => line.to_string(),
    };
    text.as_ref().map(|text| text.split('\n').map(shown).collect::<Vec<_>>().join("\n"))
}

/// Without the entries that are meant.
pub(crate) fn without_entry(text: &ConfigText, is_meant: impl Fn(&FstabEntry) -> bool) -> ConfigText {
    let mut left = lines(text);
    let before = left.len();
    left.retain(|line| !FstabEntry::read(line).is_some_and(|entry| is_meant(&entry)));
    if left.len() == before { text.clone() } else { joined(&left) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# <device> …\nUUID=1234 / ext4 errors=remount-ro 0 1\n/dev/sdb1\t/srv/a\\040b\text4\tdefaults\t0 2\n/dev/sdc none swap sw 0 0\n";

    #[test]
    fn an_entry_is_replaced_where_it_stands_and_left_alone_where_it_is_so() {
        let table = Some(TABLE.to_string());
        let entry = |device: &str, place: &str, options: &str| FstabEntry {
            device: device.into(),
            place: place.into(),
            fstype: "ext4".into(),
            options: options.into(),
            dump: 0,
            pass_num: 2,
        };
        assert_eq!(with_entry(&table, &entry("/dev/sdb1", "/srv/a b", "defaults")), table);
        let other = with_entry(&table, &entry("/dev/sdb1", "/srv/a b", "ro"));
        assert_eq!(other.unwrap(), TABLE.replace("defaults\t0 2", "ro\t0 2"));
        let more = with_entry(&table, &entry("/dev/sdd1", "/new", "ro")).unwrap();
        assert_eq!(more, format!("{TABLE}/dev/sdd1\t/new\text4\tro\t0 2\n"));
        assert_eq!(without_entry(&table, |entry| entry.place == "/none"), table);
        let gone = without_entry(&table, |entry| entry.place == "/srv/a b").unwrap();
        assert!(!gone.contains("sdb1") && gone.contains("sdc"), "{gone}");
    }
}
