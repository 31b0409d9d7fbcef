//! Issues a client certificate, as whoever has a cluster's certificate authority can: for tests by real
//! clients. `client_certificate DIR USER GROUP` reads `ca.crt` and `ca.key` in DIR, and writes `client.crt` and
//! `client.key` there, valid for a day.

use std::path::PathBuf;

use allotment_pki::{CertificateAuthority, KeySource as _, Leaf, LeafUsage, RandomKeys};

const DAY_SECS: i64 = 24 * 60 * 60;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = || arguments.next().ok_or("usage: client_certificate DIR USER GROUP");
    let (dir, user, group) = (PathBuf::from(argument()?), argument()?, argument()?);
    let read = |name: &str| std::fs::read_to_string(dir.join(name));
    let authority = CertificateAuthority::from_pem(&read("ca.crt")?, &read("ca.key")?)?;
    #[expect(clippy::disallowed_methods, reason = "an example lives in real time")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    let leaf = Leaf {
        common_name: user,
        organization: Some(group),
        names: Vec::new(),
        usage: LeafUsage::Client,
        lifetime_secs: DAY_SECS,
    };
    let pair = authority.issue(&leaf, RandomKeys.generate()?, i64::try_from(now)?)?;
    std::fs::write(dir.join("client.crt"), pair.certificate_pem())?;
    std::fs::write(dir.join("client.key"), pair.key_pem().as_bytes())?;
    Ok(())
}
