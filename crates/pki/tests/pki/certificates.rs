//! CAs, leaves, chains.

use std::io::Write as _;
use std::process::Command;

use allotment_pki::{
    CaBundle, Certificate, CertificateAuthority, CertificatePair, ChainError, Leaf, LeafUsage, PkiError, PrivateKey,
    SubjectName,
};
use rustls_pki_types::CertificateDer;

use crate::{DAY, NOW, authority, key};

fn leaf(usage: LeafUsage, lifetime_secs: i64) -> Leaf {
    Leaf {
        common_name: "alice".to_owned(),
        organization: Some("system:masters".to_owned()),
        usage,
        names: Vec::new(),
        lifetime_secs,
    }
}

fn chain(pair: &CertificatePair) -> Vec<CertificateDer<'_>> {
    pair.chain().iter().map(|certificate| CertificateDer::from(certificate.der())).collect()
}

fn verify(bundle: &CaBundle, pair: &CertificatePair, now: i64) -> Result<(), ChainError> {
    bundle.verify_client(&chain(pair), now)
}

#[test]
fn a_client_certificate_says_who_it_is_and_is_believed_only_by_its_own_ca() {
    let (ours, theirs) = (authority("ours"), authority("theirs"));
    let pair = ours.issue(&leaf(LeafUsage::Client, DAY), key(), NOW).expect("a leaf");
    assert_eq!(pair.certificate().common_name(), "alice");
    assert_eq!(pair.certificate().organizations(), ["system:masters"]);
    assert_eq!(verify(&ours.bundle(), &pair, NOW), Ok(()));
    assert_eq!(verify(&theirs.bundle(), &pair, NOW), Err(ChainError::UnknownIssuer));
    let both = CaBundle::new(vec![theirs.certificate().clone(), ours.certificate().clone()]);
    assert_eq!(verify(&both, &pair, NOW), Ok(()), "while one CA replaces another, both count");
}

#[test]
fn a_ca_of_the_same_name_with_another_key_is_not_believed() {
    let (real, forged) = (authority("cluster-ca"), authority("cluster-ca"));
    let pair = forged.issue(&leaf(LeafUsage::Client, DAY), key(), NOW).expect("a leaf");
    assert!(verify(&real.bundle(), &pair, NOW).is_err());
}

#[test]
fn certificates_hold_only_within_their_time_and_never_beyond_their_ca() {
    let ca = CertificateAuthority::new("short", key(), NOW, DAY).expect("a CA");
    let pair = ca.issue(&leaf(LeafUsage::Client, 10 * DAY), key(), NOW).expect("a leaf");
    assert_eq!(pair.certificate().not_after(), NOW + DAY);
    let brief = ca.issue(&leaf(LeafUsage::Client, 60), key(), NOW).expect("a leaf");
    for (now, expect) in [
        (NOW, Ok(())),
        (NOW + 60, Ok(())),
        (NOW + 61, Err(ChainError::OutsideValidity)),
        (NOW - 301, Err(ChainError::NoAuthority)),
        (NOW + DAY + 1, Err(ChainError::NoAuthority)),
    ] {
        assert_eq!(verify(&ca.bundle(), &brief, now), expect, "{}", now - NOW);
    }
}

#[test]
fn a_server_certificate_is_no_client_certificate() {
    let ca = authority("ca");
    let server = ca.issue(&leaf(LeafUsage::Server, DAY), key(), NOW).expect("a leaf");
    assert_eq!(verify(&ca.bundle(), &server, NOW), Err(ChainError::WrongUsage));
    assert_eq!(ca.bundle().verify_server(&chain(&server), NOW), Ok(()));
    let peer = ca.issue(&leaf(LeafUsage::Peer, DAY), key(), NOW).expect("a leaf");
    assert_eq!(verify(&ca.bundle(), &peer, NOW), Ok(()));
    assert_eq!(ca.bundle().verify_server(&chain(&peer), NOW), Ok(()));
}

#[test]
fn a_leaf_issues_nothing() {
    let ca = authority("ca");
    let leaf_pair = ca.issue(&leaf(LeafUsage::Client, DAY), key(), NOW).expect("a leaf");
    let refused = CertificateAuthority::from_pair(leaf_pair.clone()).expect_err("a leaf is no CA");
    assert!(matches!(refused, PkiError::NotAnAuthority { .. }));
    let bundle = CaBundle::new(vec![leaf_pair.certificate().clone()]);
    assert_eq!(verify(&bundle, &leaf_pair, NOW), Err(ChainError::NoAuthority));
}

#[test]
fn nobody_is_believed_without_a_ca_or_without_a_certificate() {
    let ca = authority("ca");
    let pair = ca.issue(&leaf(LeafUsage::Client, DAY), key(), NOW).expect("a leaf");
    assert_eq!(verify(&CaBundle::default(), &pair, NOW), Err(ChainError::NoAuthority));
    assert_eq!(ca.bundle().verify_client(&[], NOW), Err(ChainError::NoCertificate));
    let garbage = [CertificateDer::from(b"no certificate".as_slice())];
    assert!(matches!(ca.bundle().verify_client(&garbage, NOW), Err(ChainError::Invalid { .. })));
}

#[test]
fn pem_brings_back_what_was_written() {
    let ca = authority("ca");
    let again = CertificateAuthority::from_pem(&ca.pair().certificate_pem(), &ca.pair().key_pem()).expect("reads");
    assert_eq!(again.certificate(), ca.certificate());
    let pair = again.issue(&leaf(LeafUsage::Client, DAY), key(), NOW).expect("a leaf");
    assert_eq!(verify(&ca.bundle(), &pair, NOW), Ok(()));
    let bundle = CaBundle::from_pem(&ca.bundle().to_pem()).expect("reads");
    assert_eq!(bundle, ca.bundle());
    let wrong = CertificatePair::from_pem(&ca.pair().certificate_pem(), &key().to_pem());
    assert_eq!(wrong.expect_err("another key"), PkiError::KeyMismatch);
}

#[test]
fn server_names_are_kept_and_what_can_be_none_is_refused() {
    let ca = authority("ca");
    let names = ["localhost", "127.0.0.1", "::1", "kubernetes.default.svc", "*.example.com"];
    let server = Leaf { names: names.map(SubjectName::from).to_vec(), ..leaf(LeafUsage::Server, DAY) };
    let pair = ca.issue(&server, key(), NOW).expect("a leaf");
    assert_eq!(pair.certificate().dns_names(), ["localhost", "kubernetes.default.svc", "*.example.com"]);
    let addresses: Vec<String> = pair.certificate().ip_addresses().iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["127.0.0.1", "::1"]);
    for bad in ["", "two words", "ümlaut", "a..b", "*", "x_\n"] {
        let server = Leaf { names: vec![SubjectName::Dns(bad.to_owned())], ..server.clone() };
        let refused = ca.issue(&server, key(), NOW).expect_err(bad);
        assert!(matches!(refused, PkiError::BadSubjectName { .. }), "{bad:?}: {refused}");
    }
}

#[test]
fn serial_numbers_differ_unless_everything_is_the_same() {
    let ca = authority("ca");
    let (one, other) = (key(), key());
    let serial = |key: &PrivateKey, now, lifetime| {
        let pair = ca.issue(&leaf(LeafUsage::Client, lifetime), key.clone(), now).expect("a leaf");
        pair.certificate().serial().to_vec()
    };
    let first = serial(&one, NOW, DAY);
    assert_eq!(first, serial(&one, NOW, DAY));
    assert_eq!(first.len(), 20);
    for differs in [serial(&other, NOW, DAY), serial(&one, NOW + 1, DAY), serial(&one, NOW, DAY + 1)] {
        assert_ne!(first, differs);
    }
}

#[test]
fn times_that_certificates_cannot_express_are_refused() {
    let far = CertificateAuthority::new("far", key(), NOW, i64::MAX).expect_err("beyond the year 9999");
    assert_eq!(far, PkiError::TimeOutOfRange);
    let past = CertificateAuthority::new("past", key(), 0, DAY).expect_err("before 1970");
    assert_eq!(past, PkiError::TimeOutOfRange);
}

#[test]
fn no_private_key_is_ever_shown() {
    let pair = authority("ca").pair().clone();
    let pem = pair.key_pem();
    let secret: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let shown = format!("{pair:?} {:?}", pair.key());
    assert!(!shown.contains(&secret[..40]), "{shown}");
    assert!(!shown.contains(&format!("{:?}", &pair.key().pkcs8()[..8]).replace(['[', ']'], "")), "{shown}");
}

/// Runs openssl on files with these contents; `None` where it is not installed.
fn openssl(args: &[&str], files: &[(&str, &str)]) -> Option<(bool, String)> {
    let folder = std::env::temp_dir().join(format!("allotment-pki-{}-{:p}", std::process::id(), &files));
    std::fs::create_dir_all(&folder).expect("a folder");
    for (name, content) in files {
        let mut file = std::fs::File::create(folder.join(name)).expect("a file");
        file.write_all(content.as_bytes()).expect("written");
    }
    let ran = Command::new("openssl").args(args).current_dir(&folder).output();
    std::fs::remove_dir_all(&folder).expect("removed");
    let output = ran.ok()?;
    let text = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

#[expect(clippy::print_stderr, reason = "a test that could not run says so")]
fn skipped() {
    eprintln!("skipped: openssl is not installed");
}

#[test]
fn openssl_verifies_leaves_and_finds_them_as_we_say() {
    let (ca, other) = (authority("ca"), authority("other"));
    let server = Leaf { names: vec!["localhost".into(), "127.0.0.1".into()], ..leaf(LeafUsage::Server, 3650 * DAY) };
    let pair = ca.issue(&server, key(), NOW).expect("a leaf");
    let (ca_pem, other_pem, pem) =
        (ca.certificate().to_pem(), other.certificate().to_pem(), pair.certificate().to_pem());
    let files = [("ca.pem", ca_pem.as_str()), ("other.pem", other_pem.as_str()), ("leaf.pem", pem.as_str())];
    let at = NOW.to_string();
    let verify = |ca| {
        openssl(&["verify", "-attime", &at, "-x509_strict", "-purpose", "sslserver", "-CAfile", ca, "leaf.pem"], &files)
    };
    let Some((verified, text)) = verify("ca.pem") else {
        skipped();
        return;
    };
    assert!(verified, "{text}");
    let (verified, text) = verify("other.pem").expect("installed");
    assert!(!verified, "{text}");
    let (_, text) = openssl(&["x509", "-in", "leaf.pem", "-noout", "-text"], &files).expect("installed");
    for expect in [
        "prime256v1",
        "CA:FALSE",
        "TLS Web Server Authentication",
        "DNS:localhost, IP Address:127.0.0.1",
        "X509v3 Authority Key Identifier",
    ] {
        assert!(text.contains(expect), "no {expect} in {text}");
    }
}

#[test]
fn keys_that_openssl_made_are_read_and_issue() {
    for args in [
        &["ecparam", "-name", "prime256v1", "-genkey"][..],
        &["ecparam", "-name", "prime256v1", "-genkey", "-noout"],
        &["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"],
        &["genrsa", "2048"],
        &["genrsa", "-traditional", "2048"],
    ] {
        let Some((made, text)) = openssl(args, &[]) else {
            skipped();
            return;
        };
        assert!(made, "{args:?}: {text}");
        let key_pem = &text[text.find("-----BEGIN").expect("PEM")..];
        let supplied = PrivateKey::from_pem(key_pem).expect("read");
        let again = PrivateKey::from_pem(&supplied.to_pem()).expect("read again");
        assert_eq!(again.public_key(), supplied.public_key());
        let ca = CertificateAuthority::new("supplied", supplied, NOW, DAY).expect("a CA");
        let pair = ca.issue(&leaf(LeafUsage::Client, 60), key(), NOW).expect("a leaf");
        assert_eq!(verify(&ca.bundle(), &pair, NOW), Ok(()), "{args:?}");
    }
    if let Some((_, weak)) = openssl(&["genrsa", "1024"], &[]) {
        let weak = &weak[weak.find("-----BEGIN").expect("PEM")..];
        assert_eq!(PrivateKey::from_pem(weak).expect_err("too short"), PkiError::UnsupportedKey);
    }
}

#[test]
fn malformed_input_is_refused_without_quoting_it() {
    for text in ["", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "secret"] {
        let error = PrivateKey::from_pem(text).expect_err(text).to_string();
        assert!(!error.contains("secret") && !error.contains("AAAA"), "{error}");
        assert!(Certificate::from_pem(text).is_err(), "{text}");
    }
}
