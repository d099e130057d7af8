//! Certificates of the server: a CA of the fleet's own, and what it signs.

use crate::answer::Failure;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Both as PEM.
pub struct Signed {
    pub certificate: String,
    pub key: String,
}

/// A CA and a server certificate for these names and addresses.
pub fn authority(hosts: &[String]) -> Result<(Signed, Signed), Failure> {
    let made = || -> Result<(Signed, Signed), rcgen::Error> {
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        params.distinguished_name.push(DnType::CommonName, "Zester fleet CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        let ca = Signed { certificate: certificate.pem(), key: key.serialize_pem() };
        let issuer = Issuer::new(params, key);
        let mut params = CertificateParams::new(hosts.to_vec())?;
        let name = hosts.first().map_or("nats", String::as_str);
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;
        Ok((ca, Signed { certificate: certificate.pem(), key: key.serialize_pem() }))
    };
    made().map_err(|error| {
        Failure::usage(format!("no certificate can be made for {}: {error}", hosts.join(", ")))
    })
}
