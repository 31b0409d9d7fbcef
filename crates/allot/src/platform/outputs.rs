//! The files that are written outside the data folder because somebody named them: looked at before
//! anything is started, so that a mistake costs nothing. What is written there is left to the caller.

use std::fs;
use std::io;
use std::path::Path;

use allotment_pki::Certificate;
use kube::config::Kubeconfig;

use super::CLUSTER_NAME;
use crate::exit::{Code, Failure};

/// Refuses a place that cannot be written to: a folder, or one in a folder that is not there.
pub(crate) fn check_place(flag: &str, path: &Path) -> Result<(), Failure> {
    let refuse = |why: String| Err(Failure::new(Code::Failed, format!("{flag} {}: {why}", path.display())));
    if path.is_dir() {
        return refuse("is a folder; name a file in it".to_owned());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match fs::metadata(parent) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => refuse(format!("{} is no folder", parent.display())),
        Err(error) => refuse(format!("the folder {} cannot be used: {error}", parent.display())),
    }
}

/// Refuses to replace a file that is anything but a kubeconfig of a platform: whoever names their
/// `~/.kube/config` here would lose every other cluster in it.
pub(crate) fn check_kubeconfig(path: &Path) -> Result<(), Failure> {
    check_place("--kubeconfig", path)?;
    let text = match fs::read_to_string(path) {
        Ok(text) if text.trim().is_empty() => return Ok(()),
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            let message = format!("--kubeconfig {}: it cannot be read before it is replaced: {error}", path.display());
            return Err(Failure::new(Code::Failed, message));
        }
    };
    let holds = match Kubeconfig::from_yaml(&text) {
        Err(_) => Some("something that is no kubeconfig".to_owned()),
        Ok(there) if there.clusters.is_empty() => Some("a kubeconfig without clusters".to_owned()),
        Ok(there) => {
            let foreign = there.clusters.into_iter().find(|cluster| cluster.name != CLUSTER_NAME);
            foreign.map(|cluster| format!("cluster {:?}", cluster.name))
        }
    };
    match holds {
        None => Ok(()),
        Some(holds) => {
            let message = format!(
                "--kubeconfig {}: it holds {holds} and would be replaced; name another file, or remove this one",
                path.display()
            );
            Err(Failure::new(Code::Failed, message))
        }
    }
}

/// Whether the text is a kubeconfig of a platform and of nothing else, which is written anew at each start.
pub(crate) fn is_written_by_up(text: &str) -> bool {
    Kubeconfig::from_yaml(text).is_ok_and(|there| {
        !there.clusters.is_empty() && there.clusters.iter().all(|cluster| cluster.name == CLUSTER_NAME)
    })
}

/// How much longer an old kubeconfig has to hold to be kept: until somebody has made room.
const SPARE_SECS: i64 = 24 * 3600;

/// Whether the kubeconfig that is there does for one that could not be written because there is no room: it leads to
/// this platform, and its certificate holds on.
pub(crate) fn keeps_working(path: &Path, error: &io::Error, url: &str, root_ca_pem: &str, now: i64) -> bool {
    if !matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        return false;
    }
    let Ok(there) = Kubeconfig::read_from(path) else { return false };
    let cluster = there.clusters.first().and_then(|cluster| cluster.cluster.as_ref());
    let user = there.auth_infos.first().and_then(|user| user.auth_info.as_ref());
    let (Some(cluster), Some(user)) = (cluster, user) else { return false };
    let decoded = |data: &Option<String>| {
        let data: Option<k8s_openapi::ByteString> = serde_json::from_value(data.clone()?.into()).ok();
        String::from_utf8(data?.0).ok()
    };
    let holds = decoded(&user.client_certificate_data)
        .and_then(|pem| Certificate::from_pem(&pem).ok())
        .is_some_and(|certificate| certificate.not_after() > now + SPARE_SECS);
    let leads_here = cluster.server.as_deref() == Some(url);
    leads_here && holds && decoded(&cluster.certificate_authority_data).as_deref() == Some(root_ca_pem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use allotment_pki::{
        CertificateAuthority, KeySource as _, Kubeconfig as Written, KubeconfigUser, Leaf, LeafUsage, RandomKeys,
    };

    #[test]
    fn a_kubeconfig_of_before_is_kept_only_where_there_is_no_room_and_it_still_leads_here() {
        let begin = 1_800_000_000;
        let authority = || {
            let key = RandomKeys.generate().unwrap();
            CertificateAuthority::new("allotment", key, begin, 10 * 365 * 24 * 3600).unwrap()
        };
        let (own, other) = (authority(), authority());
        let leaf = Leaf {
            common_name: "admin".to_owned(),
            organization: None,
            usage: LeafUsage::Client,
            names: Vec::new(),
            lifetime_secs: 365 * 24 * 3600,
        };
        let written = Written {
            name: CLUSTER_NAME.to_owned(),
            server: "https://127.0.0.1:7443".to_owned(),
            ca_pem: Some(own.certificate().to_pem()),
            tls_server_name: None,
            namespace: None,
            user: KubeconfigUser::ClientCertificate(own.issue(&leaf, RandomKeys.generate().unwrap(), begin).unwrap()),
        };
        let path = std::env::temp_dir().join(format!("allot-kept-{}", std::process::id()));
        fs::write(&path, written.to_yaml().as_bytes()).unwrap();
        let check = |kind: io::ErrorKind, url: &str, authority: &CertificateAuthority, now: i64, expect: bool| {
            let pem = authority.certificate().to_pem();
            assert_eq!(keeps_working(&path, &kind.into(), url, &pem, now), expect, "{kind:?} {url} {now}");
        };
        let (full, url) = (io::ErrorKind::StorageFull, "https://127.0.0.1:7443");
        check(full, url, &own, begin + 60, true);
        check(io::ErrorKind::PermissionDenied, url, &own, begin + 60, false);
        check(full, "https://127.0.0.1:7444", &own, begin + 60, false);
        check(full, url, &other, begin + 60, false);
        check(full, url, &own, begin + 365 * 24 * 3600 - 60, false);
        fs::remove_file(&path).unwrap();
        check(full, url, &own, begin + 60, false);
    }

    #[test]
    fn only_a_platforms_own_kubeconfig_is_replaced() {
        let dir = std::env::temp_dir().join(format!("allot-outputs-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("config");
        let check = |text: &str, expect: Option<&str>| {
            fs::write(&path, text).unwrap();
            match (check_kubeconfig(&path), expect) {
                (Ok(()), None) => {}
                (Err(failure), Some(part)) => assert!(failure.error.to_string().contains(part), "{}", failure.error),
                (result, _) => panic!("{text}: {result:?}"),
            }
        };
        let clusters = |names: &[&str]| {
            let list: Vec<_> = names.iter().map(|name| format!("{{name: {name}, cluster: {{server: x}}}}")).collect();
            format!("apiVersion: v1\nkind: Config\nclusters: [{}]\n", list.join(", "))
        };
        check("", None);
        check(&clusters(&["allotment"]), None);
        check(&clusters(&["allotment", "prod"]), Some("\"prod\""));
        check(&clusters(&[]), Some("without clusters"));
        check("my diary", Some("no kubeconfig"));
        fs::remove_file(&path).unwrap();
        assert!(check_kubeconfig(&path).is_ok(), "an absent file is made");
        assert!(check_kubeconfig(&dir).is_err(), "a folder is no file");
        assert!(check_kubeconfig(&dir.join("absent/config")).is_err(), "a folder is not made");
        fs::remove_dir_all(&dir).unwrap();
    }
}
