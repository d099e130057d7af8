//! Paths in journal records: text where they are text, numbers of bytes where they are not.
//!
//! A file name on Linux may be any bytes. What is removed must be restorable under exactly its name.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Bytes(Vec<u8>),
}

pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    let written = match path.to_str() {
        Some(text) => Written::Text(text.to_string()),
        None => Written::Bytes(path.as_os_str().as_bytes().to_vec()),
    };
    written.serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    Ok(match Written::deserialize(deserializer)? {
        Written::Text(text) => PathBuf::from(text),
        Written::Bytes(bytes) => PathBuf::from(std::ffi::OsString::from_vec(bytes)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("S-31")]
    fn s31_a_name_that_is_no_text_survives_the_journal() {
        #[derive(Serialize, Deserialize, PartialEq, Debug)]
        struct Record(#[serde(with = "super")] PathBuf);
        for bytes in [&b"/etc/hosts"[..], b"/tmp/\xff\xfe"] {
            let record = Record(PathBuf::from(std::ffi::OsStr::from_bytes(bytes)));
            let text = serde_json::to_string(&record).unwrap();
            assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
        }
    }
}
