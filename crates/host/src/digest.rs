//! The name of a content: its SHA-256 in hexadecimal.

use sha2::Digest;
use std::fmt::Write;

pub fn sha256_hex(content: &[u8]) -> String {
    let mut digest = Sha256::default();
    digest.add(content);
    digest.hex()
}

/// The same of a content that comes piece by piece.
#[derive(Default)]
pub(crate) struct Sha256(sha2::Sha256);

impl Sha256 {
    pub(crate) fn add(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    pub(crate) fn hex(self) -> String {
        let mut text = String::with_capacity(64);
        for byte in self.0.finalize() {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_digest_is_the_one_that_sha256sum_prints() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(super::sha256_hex(b""), empty);
    }
}
