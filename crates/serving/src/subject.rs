//! The subject of a client certificate, and the user that it stands for.

use std::collections::BTreeMap;

use ring::digest::{SHA256, digest};
use tokio_rustls::rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::asn1::{Ia5StringRef, PrintableStringRef, TeletexStringRef, Utf8StringRef};
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::der::{Decode, Tag, Tagged};

use crate::user::User;

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");
/// Kubernetes' attribute for the uid of a user.
const USER_ID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.57683.2");

/// Returns the user of a certificate that has been verified: its common name, and its organizations
/// as groups. Upstream's counterpart is `CommonNameUserConversion`. Without a common name there is
/// no user.
///
/// # Errors
/// The reason, if the certificate is malformed or has an invalid uid.
pub(crate) fn user_of(certificate: &CertificateDer<'_>) -> Result<Option<User>, String> {
    let decoded =
        Certificate::from_der(certificate).map_err(|error| format!("cannot be decoded: {error}"))?;
    let mut user = User::default();
    let mut uids = Vec::new();
    for attribute in decoded.tbs_certificate().subject().iter() {
        if ![COMMON_NAME, ORGANIZATION, USER_ID].contains(&attribute.oid) {
            continue;
        }
        let value = &attribute.value;
        let text = match value.tag() {
            Tag::Utf8String => value.decode_as::<Utf8StringRef<'_>>().map(|text| text.as_str().to_owned()),
            Tag::PrintableString => {
                value.decode_as::<PrintableStringRef<'_>>().map(|text| text.as_str().to_owned())
            }
            Tag::Ia5String => value.decode_as::<Ia5StringRef<'_>>().map(|text| text.as_str().to_owned()),
            Tag::TeletexString => {
                value.decode_as::<TeletexStringRef<'_>>().map(|text| text.as_str().to_owned())
            }
            tag => return Err(format!("has a subject with an attribute of the unsupported type {tag}")),
        };
        let text = text.map_err(|error| format!("has a subject that cannot be decoded: {error}"))?;
        match attribute.oid {
            // As in Go, the last one counts.
            COMMON_NAME => user.name = text,
            ORGANIZATION => user.groups.push(text),
            _ => uids.push(text),
        }
    }
    match &*uids {
        [] => {}
        [uid] if !uid.is_empty() => user.uid.clone_from(uid),
        _ => return Err("must have at most one uid in its subject, which is not empty".to_owned()),
    }
    if user.name.is_empty() {
        return Ok(None);
    }
    let fingerprint: String =
        digest(&SHA256, certificate).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let id = vec![format!("X509SHA256={fingerprint}")];
    user.extra = BTreeMap::from([("authentication.kubernetes.io/credential-id".to_owned(), id)]);
    Ok(Some(user))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair};

    use super::*;

    fn certificate(attributes: Vec<(DnType, DnValue)>) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in attributes {
            params.distinguished_name.push(kind, value);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    fn text(value: &str) -> DnValue {
        DnValue::Utf8String(value.to_owned())
    }

    #[test]
    fn the_common_name_is_the_user_and_organizations_are_groups() {
        let printable = DnValue::PrintableString("viewers".try_into().unwrap());
        let user = user_of(&certificate(vec![
            (DnType::CommonName, text("älice")),
            (DnType::OrganizationName, printable),
            (DnType::CountryName, text("DE")),
            (DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]), text("42")),
        ]));
        let user = user.unwrap().unwrap();
        assert_eq!((&*user.name, &*user.uid, &*user.groups), ("älice", "42", &["viewers".to_owned()][..]));
        let id = &user.extra["authentication.kubernetes.io/credential-id"][0];
        assert!(id.starts_with("X509SHA256=") && id.len() == 11 + 64, "{id}");
    }

    #[test]
    fn a_certificate_without_a_common_name_has_no_user() {
        assert_eq!(user_of(&certificate(vec![(DnType::OrganizationName, text("system:masters"))])), Ok(None));
        assert_eq!(user_of(&certificate(vec![(DnType::CommonName, text(""))])), Ok(None));
        assert_eq!(user_of(&certificate(Vec::new())), Ok(None));
    }

    #[test]
    fn invalid_subjects_are_errors() {
        let uid = || DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]);
        let check = |attributes, expected: &str| {
            let error = user_of(&certificate(attributes)).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check(vec![(DnType::CommonName, text("a")), (uid(), text(""))], "uid");
        check(vec![(DnType::CommonName, DnValue::BmpString("a".try_into().unwrap()))], "unsupported type");
        assert!(user_of(&CertificateDer::from(vec![1, 2, 3])).unwrap_err().contains("cannot be decoded"));
    }
}
