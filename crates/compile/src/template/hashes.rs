//! Digests that templates ask for, in hexadecimal.

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The digest of a text by the name of its algorithm.
pub fn digest(algorithm: &str, text: &str) -> Option<String> {
    digest_bytes(algorithm, text.as_bytes())
}

/// The same of bytes.
pub fn digest_bytes(algorithm: &str, bytes: &[u8]) -> Option<String> {
    Some(match algorithm {
        // Formulas fingerprint configuration with it; nothing of ours trusts it.
        "md5" => hexadecimal(&Md5::digest(bytes)),
        "sha1" => hexadecimal(&Sha1::digest(bytes)),
        "sha256" => hexadecimal(&Sha256::digest(bytes)),
        "sha512" => hexadecimal(&Sha512::digest(bytes)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("S-10")]
    fn s10_digests_are_those_of_the_standards() {
        for (text, wanted) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("a", "0cc175b9c0f1b6a831c399e269772661"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
        ] {
            assert_eq!(digest("md5", text).as_deref(), Some(wanted), "{text}");
        }
        assert_eq!(digest("md5", &"a".repeat(64)).as_deref(), Some("014842d480b571495a4a0363793f7367"));
        let short = digest("sha256", "abc").unwrap_or_default();
        assert!(short.starts_with("ba7816bf"), "{short}");
        assert!(digest("sha512", "abc").is_some_and(|it| it.starts_with("ddaf35a1")));
        assert_eq!(digest("crc", "abc"), None);
    }
}
