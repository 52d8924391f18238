//! Who a server is: its certificate, by whose fingerprint its clients know it.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

/// SHA-256 of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    fn of(certificate: &CertificateDer<'_>) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
        let mut octets = [0; 32];
        octets.copy_from_slice(digest.as_ref());
        Self(octets)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl FromStr for Fingerprint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected 64 hexadecimal digits";
        let digits: Vec<u8> = text
            .chars()
            .filter(|c| *c != ':')
            .map(|c| c.to_digit(16).map(|digit| digit as u8))
            .collect::<Option<_>>()
            .ok_or(expected)?;
        let (pairs, rest) = digits.as_chunks::<2>();
        let octets: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
        match octets.try_into() {
            Ok(octets) if rest.is_empty() => Ok(Self(octets)),
            _ => Err(expected.to_owned()),
        }
    }
}

/// A key, and the certificate that it has signed itself. One key always gives one certificate.
#[derive(Debug)]
pub struct Identity {
    pub(super) key: PrivatePkcs8KeyDer<'static>,
    pub(super) certificate: CertificateDer<'static>,
}

impl Identity {
    /// One that nobody has had.
    ///
    /// # Errors
    /// There are no random numbers.
    pub fn fresh() -> io::Result<Self> {
        let key = KeyPair::generate_for(&PKCS_ED25519).map_err(io::Error::other)?;
        Self::of(&key)
    }

    /// The one whose key is in this file, which is made if it is not there.
    ///
    /// # Errors
    /// The file cannot be read or made, or has no key.
    pub fn kept(path: &Path) -> io::Result<Self> {
        let key = match fs::read(path) {
            Ok(octets) => {
                let octets = PrivatePkcs8KeyDer::from(octets);
                KeyPair::from_pkcs8_der_and_sign_algo(&octets, &PKCS_ED25519)
                    .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let key = KeyPair::generate_for(&PKCS_ED25519).map_err(io::Error::other)?;
                let mut options = OpenOptions::new();
                let file = options.write(true).create_new(true).mode(0o600);
                file.open(path)?.write_all(key.serialized_der())?;
                key
            }
            Err(error) => return Err(error),
        };
        Self::of(&key)
    }

    fn of(key: &KeyPair) -> io::Result<Self> {
        let parameters = CertificateParams::new([super::NAME.to_owned()]);
        let certificate = parameters.and_then(|parameters| parameters.self_signed(key));
        Ok(Self {
            key: PrivatePkcs8KeyDer::from(key.serialize_der()),
            certificate: certificate.map_err(io::Error::other)?.into(),
        })
    }

    /// By what clients know it.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }
}

/// Takes the server with one certificate, and no other.
#[derive(Debug)]
pub(super) struct Pinned {
    pub(super) fingerprint: Fingerprint,
    pub(super) provider: Arc<CryptoProvider>,
    /// Whom a server was instead.
    pub(super) other: Mutex<Option<Fingerprint>>,
}

impl Pinned {
    /// The fingerprint of the server that was refused.
    pub(super) fn other(&self) -> Option<Fingerprint> {
        *self.other.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = Fingerprint::of(end_entity);
        if found == self.fingerprint {
            return Ok(ServerCertVerified::assertion());
        }
        *self.other.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        Err(Error::InvalidCertificate(
            rustls::CertificateError::ApplicationVerificationFailure,
        ))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_fingerprint_and_comes_back_from_its_file() {
        let name = format!("cellgate-identity-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_file(&path);
        let first = Identity::kept(&path).unwrap().fingerprint();
        assert_eq!(Identity::kept(&path).unwrap().fingerprint(), first);
        assert_eq!(first.to_string().parse(), Ok(first));
        assert_ne!(Identity::fresh().unwrap().fingerprint(), first);
        fs::write(&path, b"no key").unwrap();
        assert!(Identity::kept(&path).is_err());
        fs::remove_file(&path).unwrap();
        for text in ["", "0", &"0".repeat(63), &"0".repeat(66), &"g".repeat(64)] {
            assert!(text.parse::<Fingerprint>().is_err(), "{text}");
        }
    }
}
