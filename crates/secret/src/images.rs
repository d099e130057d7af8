//! What a machine keeps for itself: before-images of files, under its own key.
//!
//! The same content gives the same bytes, so that a before-image that is kept twice takes its room once.

use crate::key::PrivateKey;
use crypto_secretbox::aead::{Aead, KeyInit};
use crypto_secretbox::{Nonce, XSalsa20Poly1305};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

const MAGIC: &[u8] = b"zester-image-1\n";
const NONCE_BYTES: usize = 24;

impl PrivateKey {
    fn image_key(&self) -> Zeroizing<[u8; 32]> {
        let own = Zeroizing::new(self.0.to_bytes());
        let digest = Sha256::new().chain_update(b"zester before-images\n").chain_update(*own);
        Zeroizing::new(digest.finalize().into())
    }

    /// Encrypts content for this machine alone.
    pub fn seal_image(&self, content: &[u8]) -> Option<Vec<u8>> {
        let key = self.image_key();
        let digest =
            Sha256::new().chain_update(b"nonce\n").chain_update(*key).chain_update(content).finalize();
        let nonce = digest.get(..NONCE_BYTES)?;
        let encrypted =
            XSalsa20Poly1305::new((&*key).into()).encrypt(Nonce::from_slice(nonce), content).ok()?;
        Some([MAGIC, nonce, &encrypted].concat())
    }

    /// The content again; `None` for what another key sealed, or somebody changed.
    pub fn open_image(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, encrypted) = sealed.strip_prefix(MAGIC)?.split_at_checked(NONCE_BYTES)?;
        XSalsa20Poly1305::new((&*self.image_key()).into()).decrypt(Nonce::from_slice(nonce), encrypted).ok()
    }

    /// Whether it needs a key to be read.
    pub fn is_image(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sealed::tests::chance;

    #[test]
    fn an_image_comes_back_with_its_own_key_only_and_is_the_same_each_time() {
        let (ours, other) = (PrivateKey::make(&mut chance(1)), PrivateKey::make(&mut chance(2)));
        let sealed = ours.seal_image(b"password = hunter2\n").unwrap();
        assert!(!sealed.windows(7).any(|window| window == b"hunter2"));
        assert_eq!(ours.open_image(&sealed).unwrap(), b"password = hunter2\n");
        assert_eq!(ours.seal_image(b"password = hunter2\n").unwrap(), sealed);
        assert_eq!(other.open_image(&sealed), None);
        assert!(PrivateKey::is_image(&sealed) && !PrivateKey::is_image(b"password"));
    }
}
