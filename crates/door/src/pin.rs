//! The digest of a CA: what a machine is told beforehand, so that nobody in between can be the door.

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

const PREFIX: &str = "sha256:";

/// SHA-256 of a certificate, as `openssl x509 -in ca.pem -outform der | sha256sum` says it.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct Pin([u8; 32]);

/// A text that is no pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPin(&'static str);

impl fmt::Display for BadPin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "not a pin: {}", self.0)
    }
}

impl std::error::Error for BadPin {}

impl Pin {
    fn of(certificate: &CertificateDer<'_>) -> Pin {
        Pin(Sha256::digest(certificate).into())
    }

    /// The pin of the first certificate of a PEM text.
    pub fn of_pem(text: &str) -> Result<Pin, BadPin> {
        let certificate = CertificateDer::from_pem_slice(text.as_bytes());
        certificate.map(|one| Pin::of(&one)).map_err(|_| BadPin("the text holds no certificate"))
    }
}

impl FromStr for Pin {
    type Err = BadPin;

    fn from_str(text: &str) -> Result<Pin, BadPin> {
        const SHAPE: BadPin = BadPin("write sha256: and 64 hex digits, as `zester auth init` printed it");
        let digits = text.trim().strip_prefix(PREFIX).ok_or(SHAPE)?.as_bytes();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return Err(SHAPE);
        }
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else { return Err(SHAPE) };
            *byte = high << 4 | low;
        }
        Ok(Pin(bytes))
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// Believes a server whose certificate is signed by the CA of a pin, and for the name that it was called by.
#[derive(Debug)]
pub(crate) struct PinnedCa {
    pub pin: Pin,
    pub provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedCa {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // The door shows its CA along; that it is the right one, the pin says.
        let ca = intermediates.iter().find(|one| Pin::of(one) == self.pin);
        let Some(ca) = ca else { return Err(CertificateError::UnknownIssuer.into()) };
        let mut roots = RootCertStore::empty();
        roots.add(ca.clone().into_owned())?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), self.provider.clone()).build();
        let verifier = verifier.map_err(|error| rustls::Error::General(error.to_string()))?;
        verifier.verify_server_cert(end_entity, &[], server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("only TLS 1.3 is spoken here".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Whether whoever believes a CA believes a certificate, both as PEM, for whatever name that is.
pub fn is_signed_by(certificate: &str, ca: &str) -> bool {
    let read = |text: &str| CertificateDer::from_pem_slice(text.as_bytes());
    let (Ok(certificate), Ok(ca)) = (read(certificate), read(ca)) else { return false };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let believer = PinnedCa { pin: Pin::of(&ca), provider };
    let Ok(name) = ServerName::try_from("localhost") else { return false };
    match believer.verify_server_cert(&certificate, &[ca], &name, &[], UnixTime::now()) {
        Ok(_) => true,
        // The name is looked at last.
        Err(rustls::Error::InvalidCertificate(why)) => {
            matches!(why, CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. })
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_reads_as_it_is_written() {
        let text = format!("sha256:{}", "0aF9".repeat(16));
        let pin: Pin = text.parse().unwrap();
        assert_eq!(pin.to_string(), text.to_lowercase());
        assert_eq!(pin.to_string().parse(), Ok(pin));
        let short = format!("sha256:{}", "a".repeat(63));
        for bad in ["", "sha256:", "sha1:00", &"0".repeat(64), &short, &format!("sha256:{}", "g".repeat(64))]
        {
            assert!(bad.parse::<Pin>().is_err(), "{bad}");
        }
    }
}
