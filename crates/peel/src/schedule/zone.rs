//! Which time zone this machine is in.

use std::path::Path;
use zester_schedule::known_zone;

/// By `TZ`, `/etc/timezone` and where `/etc/localtime` leads; UTC where none of them names a zone.
pub fn local_zone() -> String {
    let variable = std::env::var("TZ").ok().map(|zone| zone.trim_start_matches(':').to_string());
    let file = std::fs::read_to_string("/etc/timezone").ok().map(|zone| zone.trim().to_string());
    let link = std::fs::read_link("/etc/localtime").ok().and_then(|target| zone_of(&target));
    let mut named = variable.into_iter().chain(file).chain(link);
    named.find(|zone| !zone.is_empty() && known_zone(zone).is_ok()).unwrap_or_else(|| "UTC".into())
}

/// `/usr/share/zoneinfo/Europe/Berlin`
fn zone_of(target: &Path) -> Option<String> {
    let target = target.to_str()?;
    target.split_once("zoneinfo/").map(|(_, zone)| zone.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_names_its_zone() {
        let zone = zone_of(Path::new("../usr/share/zoneinfo/Europe/Berlin"));
        assert_eq!(zone.as_deref(), Some("Europe/Berlin"));
        assert_eq!(zone_of(Path::new("/etc/other")), None);
        assert!(known_zone(&local_zone()).is_ok());
    }
}
