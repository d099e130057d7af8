//! `certificate`: certificates that expire.

use crate::level::{Condition, LevelKind, Levels, When};
use crate::limits::FILE_BYTES_MAX;
use crate::params::Names;
use crate::{Data, Eyes, Kind, Moment, Seen, blocking, plain, shown};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use x509_parser::certificate::X509Certificate;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;

const DAY: i64 = 86_400;
/// How many days before its end a certificate is told of where nobody says.
const DAYS_DEFAULT: u32 = 30;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The files to watch, PEM or DER. Of a chain the certificate that ends first counts.
    files: Names,
    /// How many days before its end it is told.
    #[serde(default = "days_default", alias = "notify_days")]
    days: u32,
}

fn days_default() -> u32 {
    DAYS_DEFAULT
}

/// The certificate of a file that ends first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct End {
    subject: String,
    /// Seconds since 1970.
    not_after: i64,
}

pub(crate) struct Certificate {
    files: Vec<PathBuf>,
    days: u32,
    levels: Levels,
}

impl Kind for Certificate {
    const NAME: &'static str = "certificate";
    const ALIASES: &'static [&'static str] = &["cert_info"];
    const INTERVAL: Duration = Duration::from_secs(3_600);
    type Config = Config;
    type Sample = BTreeMap<String, End>;

    fn new(config: Config, when: When) -> Result<Certificate, String> {
        let levels = Levels::new("expiring", LevelKind::Alarm, when);
        Ok(Certificate { files: config.files.paths()?, days: config.days, levels })
    }

    async fn look(&mut self, _: &Eyes) -> Result<Seen<Self::Sample>, String> {
        let files = self.files.clone();
        blocking(move || {
            let mut seen = Seen::all(BTreeMap::new());
            for path in files {
                match read(&path).and_then(|bytes| first_end(&bytes)) {
                    Ok(end) => drop(seen.sample.insert(shown(&path), end)),
                    Err(why) => seen.problems.push(format!("{}: {why}", path.display())),
                }
            }
            Ok(seen)
        })
        .await
    }

    fn decide(&mut self, sample: &Self::Sample, now: Moment) -> Vec<Data> {
        let wall = i64::try_from(now.wall).unwrap_or(i64::MAX);
        let conditions = sample.iter().map(|(path, end)| {
            let days_left = end.not_after.saturating_sub(wall).div_euclid(DAY);
            let data = Data::from_iter([
                ("file".to_string(), json!(path)),
                ("subject".to_string(), json!(end.subject)),
                ("not_after".to_string(), json!(end.not_after)),
                ("days_left".to_string(), json!(days_left)),
                ("threshold".to_string(), json!(self.days)),
            ]);
            Condition { key: path.clone(), on: days_left < i64::from(self.days), data }
        });
        self.levels.observe(conditions.collect(), now.run)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
    read.map_err(|error| format!("cannot be read: {}", plain(&error)))?;
    Ok(bytes)
}

fn first_end(bytes: &[u8]) -> Result<End, String> {
    if !bytes.windows(11).any(|window| window == b"-----BEGIN ") {
        return end_of(bytes);
    }
    let mut first: Option<End> = None;
    for block in Pem::iter_from_buffer(bytes) {
        let block = block.map_err(|error| format!("it is no PEM: {error}"))?;
        if block.label != "CERTIFICATE" && block.label != "TRUSTED CERTIFICATE" {
            continue;
        }
        let end = end_of(&block.contents)?;
        if first.as_ref().is_none_or(|first| end.not_after < first.not_after) {
            first = Some(end);
        }
    }
    first.ok_or_else(|| "it holds no certificate".into())
}

fn end_of(der: &[u8]) -> Result<End, String> {
    let (_, certificate) = X509Certificate::from_der(der)
        .map_err(|_| "it is no certificate, neither PEM nor DER".to_string())?;
    let not_after = certificate.validity().not_after.timestamp();
    Ok(End { subject: certificate.subject().to_string(), not_after })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    /// CN=zester.example, from 2026-11-01 to 2027-01-30 00:00:00 UTC.
    const PEM: &str = include_str!("../tests/certificate.pem");
    const NOT_AFTER: i64 = 1_801_267_200;

    #[test]
    fn a_certificate_is_read_from_pem_and_from_der() {
        let end = End { subject: "CN=zester.example".into(), not_after: NOT_AFTER };
        assert_eq!(first_end(PEM.as_bytes()).unwrap(), end);
        let der = Pem::iter_from_buffer(PEM.as_bytes()).next().unwrap().unwrap().contents;
        assert_eq!(first_end(&der).unwrap(), end);
        assert!(first_end(b"").is_err());
        assert!(first_end(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n").is_err());
        assert!(first_end(&der[..der.len() / 2]).is_err(), "half of one is none");
    }

    #[test]
    #[rule("R-21")]
    fn r21_a_certificate_is_told_once_when_its_days_are_few_and_again_when_it_is_new() {
        let config = Config { files: Names(vec!["/c".into()]), days: 14 };
        let mut certificate = Certificate::new(config, When::default()).ok().unwrap();
        let mut told = Vec::new();
        for (day, not_after) in
            [(40, NOT_AFTER), (15, NOT_AFTER), (13, NOT_AFTER), (12, NOT_AFTER), (11, NOT_AFTER + 90 * DAY)]
        {
            let sample = BTreeMap::from([("/c".to_string(), End { subject: "CN=x".into(), not_after })]);
            let wall = u64::try_from(NOT_AFTER - day * DAY).unwrap();
            for event in certificate.decide(&sample, Moment { run: Duration::ZERO, wall }) {
                told.push(format!("{day}: {} {}", event["expiring"], event["days_left"]));
            }
        }
        assert_eq!(told, ["13: true 13", "11: false 101"]);
    }

    #[test]
    fn one_that_has_ended_has_less_than_no_days_left() {
        let config = Config { files: Names(vec!["/c".into()]), days: 14 };
        let mut certificate = Certificate::new(config, When::default()).ok().unwrap();
        let sample = BTreeMap::from([("/c".to_string(), End { subject: "CN=x".into(), not_after: 0 })]);
        let told = certificate.decide(&sample, Moment { run: Duration::ZERO, wall: 1 });
        assert_eq!(told[0]["days_left"], json!(-1));
    }
}
