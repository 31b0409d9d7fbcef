//! The files that are written outside the data folder because somebody named them: looked at before
//! anything is started, so that a mistake costs nothing. What is written there is left to the caller.

use std::fs;
use std::io;
use std::path::Path;

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

#[cfg(test)]
mod tests {
    use super::*;

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
