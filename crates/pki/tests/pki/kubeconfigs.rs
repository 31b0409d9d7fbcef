//! Kubeconfigs as they are written.

use allotment_pki::{Kubeconfig, KubeconfigUser, Leaf, LeafUsage, Zeroizing};

use crate::{DAY, NOW, authority, key};

fn kubeconfig(user: KubeconfigUser) -> Kubeconfig {
    Kubeconfig {
        name: "allotment".to_owned(),
        server: "https://127.0.0.1:6443/clusters/3f0c".to_owned(),
        ca_pem: Some("CA\n".to_owned()),
        tls_server_name: None,
        namespace: None,
        user,
    }
}

#[test]
fn a_token_kubeconfig_reads_as_kubectl_writes_it() {
    let token = KubeconfigUser::Token(Zeroizing::new("abc.def-_".to_owned()));
    assert_eq!(
        *kubeconfig(token).to_yaml(),
        "apiVersion: v1
kind: Config
clusters:
- cluster:
    server: https://127.0.0.1:6443/clusters/3f0c
    certificate-authority-data: Q0EK
  name: allotment
contexts:
- context:
    cluster: allotment
    user: allotment
  name: allotment
current-context: allotment
preferences: {}
users:
- name: allotment
  user:
    token: abc.def-_
"
    );
}

#[test]
fn server_name_namespace_and_plugin_are_written_where_given() {
    let exec = KubeconfigUser::Exec {
        command: "allot".to_owned(),
        args: vec!["credential".to_owned(), "with \"quotes\"".to_owned()],
        interactive: false,
        install_hint: Some("install allot: see the README".to_owned()),
    };
    let yaml = Kubeconfig {
        tls_server_name: Some("3f0c.clusters.allotment.internal".to_owned()),
        namespace: Some("true".to_owned()),
        name: "007".to_owned(),
        ..kubeconfig(exec)
    }
    .to_yaml();
    for line in [
        "    tls-server-name: \"3f0c.clusters.allotment.internal\"",
        "    namespace: \"true\"",
        "current-context: \"007\"",
        "      command: allot",
        "      args: [credential, \"with \\\"quotes\\\"\"]",
        "      installHint: \"install allot: see the README\"",
        "      apiVersion: client.authentication.k8s.io/v1",
        "      interactiveMode: Never",
    ] {
        assert!(yaml.lines().any(|have| have == line), "no line {line:?} in:\n{}", *yaml);
    }
}

#[test]
fn a_client_certificate_comes_with_its_key_and_neither_is_shown() {
    let leaf = Leaf {
        common_name: "admin".to_owned(),
        organization: None,
        usage: LeafUsage::Client,
        names: Vec::new(),
        lifetime_secs: DAY,
    };
    let pair = authority("ca").issue(&leaf, key(), NOW).expect("a leaf");
    let config = kubeconfig(KubeconfigUser::ClientCertificate(pair));
    let yaml = config.to_yaml();
    let data = yaml.lines().find_map(|line| line.strip_prefix("    client-key-data: ")).expect("a key");
    assert!(data.len() > 100);
    assert!(!format!("{config:?}").contains(&data[..60]));
    let token = kubeconfig(KubeconfigUser::Token(Zeroizing::new("topsecret".to_owned())));
    assert!(!format!("{token:?}").contains("topsecret"));
}
