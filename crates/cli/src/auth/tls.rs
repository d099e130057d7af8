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

/// What a fleet is made with.
pub struct Made {
    pub ca: Signed,
    /// Of the bus.
    pub server: Signed,
    /// Of the masters, where peels enroll.
    pub door: Signed,
}

/// A CA, and certificates for these names and addresses.
pub fn authority(servers: &[String], doors: &[String]) -> Result<Made, Failure> {
    let made = || -> Result<Made, rcgen::Error> {
        let params = ca_params()?;
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        let ca = Signed { certificate: certificate.pem(), key: key.serialize_pem() };
        let issuer = Issuer::new(params, key);
        Ok(Made { ca, server: signed(servers, &issuer)?, door: signed(doors, &issuer)? })
    };
    made().map_err(|error| {
        let hosts = [servers, doors].concat().join(", ");
        Failure::usage(format!("no certificate can be made for {hosts}: {error}"))
    })
}

/// Another certificate of the CA that [`authority`] made, for these names and addresses. A CA that was brought from elsewhere has a name
/// of its own, or another key: nobody would believe what were signed here.
pub fn another(ca: &str, ca_key: &str, hosts: &[String]) -> Result<Signed, Failure> {
    let made = || -> Result<Signed, rcgen::Error> {
        let issuer = Issuer::new(ca_params()?, KeyPair::from_pem(ca_key)?);
        signed(hosts, &issuer)
    };
    let made = made().map_err(|error| {
        Failure::usage(format!("no certificate can be made for {}: {error}", hosts.join(", ")))
    })?;
    if !zester_door::is_signed_by(&made.certificate, ca) {
        let why = "tls/ca.key signs nothing that tls/ca.pem is believed for: that CA was not made by `zester auth init`, is another one or has ended; have it sign by its own means";
        return Err(Failure::usage(why));
    }
    Ok(made)
}

/// How the CA of a fleet calls itself, and what it may do.
fn ca_params() -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.distinguished_name.push(DnType::CommonName, "Zester fleet CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn signed(hosts: &[String], issuer: &Issuer<'_, KeyPair>) -> Result<Signed, rcgen::Error> {
    let mut params = CertificateParams::new(hosts.to_vec())?;
    let name = hosts.first().map_or("zester", String::as_str);
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?;
    Ok(Signed { certificate: certificate.pem(), key: key.serialize_pem() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("I-15")]
    fn i15_another_certificate_is_made_by_the_ca_that_stands_and_by_no_other() {
        let hosts = ["localhost".to_string(), "127.0.0.1".to_string()];
        let (ours, other) = (authority(&hosts, &hosts).unwrap().ca, authority(&hosts, &hosts).unwrap().ca);
        for hosts in [&hosts[..], &hosts[1..], &["*.example.org".to_string()]] {
            assert!(another(&ours.certificate, &ours.key, hosts).is_ok(), "{hosts:?}");
        }
        assert!(another(&other.certificate, &ours.key, &hosts).is_err(), "another key");
        // The same key under another name.
        let mut params = ca_params().unwrap();
        params.distinguished_name.push(DnType::CommonName, "Our own CA");
        let renamed = params.self_signed(&KeyPair::from_pem(&ours.key).unwrap()).unwrap().pem();
        assert!(another(&renamed, &ours.key, &hosts).is_err(), "another name");
        assert!(another("", &ours.key, &hosts).is_err());
    }
}
