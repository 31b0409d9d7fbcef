//! Access of type OIDC: a cluster that trusts an issuer, whose users get the rights that they asked for, and log in there
//! themselves. Needs kube-apiserver and etcd (`cargo xtask beside`).

use std::time::Duration;

use allotment_api::requests::{AccessRequest, ClusterRequest, ExistingConfig};
use allotment_testkit::issuer::Issuer;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::config::Kubeconfig;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::access::is_granted;
use crate::existing::{apply_example, kubernetes_with, labelled};
use crate::harness::{
    Folder, LIMIT, Up, by_token, client, client_of, code, create, make_namespace, run, until, until_gone,
};
use crate::requests::is_ready;

/// What the platform's API server, and the cluster's, put before names of the issuer's users.
const ON_PLATFORM: &str = "sso:";
const IN_CLUSTER: &str = "oidc:";
const CLIENT_ID: &str = "clusters";

/// A client of the platform that is somebody else, by an administrator's word.
async fn as_user(folder: &Folder, user: &str) -> Client {
    let text = std::fs::read_to_string(folder.kubeconfig()).expect("the kubeconfig is there");
    let mut kubeconfig = Kubeconfig::from_yaml(&text).expect("a kubeconfig");
    for named in &mut kubeconfig.auth_infos {
        named.auth_info.as_mut().expect("a user").impersonate = Some(user.to_owned());
    }
    client_of(&serde_json::to_string(&kubeconfig).expect("JSON")).await
}

/// Waits until a user of the issuer is answered like that.
async fn until_code(maps: &Api<ConfigMap>, wanted: u16) {
    let begin = tokio::time::Instant::now();
    loop {
        let found = code(maps.list(&ListParams::default()).await);
        if found == wanted {
            return;
        }
        assert!(begin.elapsed() < LIMIT, "still {found}, not {wanted}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Lets users of the issuer make AccessRequests in namespace `team`.
async fn let_ask(admin: &Client) {
    let group = "rbac.authorization.k8s.io";
    let role = json!({"metadata": {"name": "asks"}, "rules": [{"apiGroups": ["cluster.openmcp.cloud"],
        "resources": ["accessrequests"], "verbs": ["*"]}]});
    create(&Api::<Role>::namespaced(admin.clone(), "team"), role).await;
    let users: Vec<Value> = ["sso:alice", "bob", "sso:system:admin"]
        .map(|name| json!({"kind": "User", "apiGroup": group, "name": name}))
        .to_vec();
    let binding = json!({"metadata": {"name": "asks"}, "subjects": users,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "asks"}});
    create(&Api::<RoleBinding>::namespaced(admin.clone(), "team"), binding).await;
}

fn asked(name: &str) -> Value {
    let rule = |kind: &str, verbs: &[&str]| json!({"apiGroups": [""], "resources": [kind], "verbs": verbs});
    json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "AccessRequest", "metadata": {"name": name},
        "spec": {"requestRef": {"name": "r"}, "type": "OIDC", "permissions": [
            {"rules": [rule("namespaces", &["get"])]},
            {"namespace": "default", "rules": [rule("configmaps", &["get", "list"])]}]}})
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn a_user_of_the_issuer_gets_the_rights_that_were_asked_for_until_they_are_taken_back() {
    let folder = Folder::new();
    let issuer = Issuer::start(CLIENT_ID).await.expect("an issuer");
    let flags = issuer.apiserver_flags(&folder.0.join("issuer.crt"), IN_CLUSTER).expect("its authority");
    let (_up, kubernetes) = tokio::join!(Up::start(&folder), kubernetes_with(&folder, flags));
    let admin = client(&folder.kubeconfig()).await;
    make_namespace(&admin, "team").await;
    let_ask(&admin).await;
    let own = std::fs::read_to_string(kubernetes.kubeconfig()).expect("a kubeconfig");
    apply_example(&admin, &own).await;
    let oidc = json!({"issuer": issuer.url(), "clientID": CLIENT_ID, "usernamePrefix": IN_CLUSTER,
        "requesterPrefix": ON_PLATFORM, "extraScopes": ["email"]});
    let trusts = Patch::Merge(json!({"spec": {"oidc": oidc}}));
    let configs = Api::<ExistingConfig>::all(admin.clone());
    configs.patch("production", &PatchParams::default(), &trusts).await.expect("it can be changed");
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "team");
    let object = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterRequest",
        "metadata": {"name": "r"}, "spec": {"purposes": ["team-workload"], "dedicated": true}});
    create(&requests, object).await;
    until(&requests, "r", is_ready).await;

    // Known to the cluster, and with no right there.
    let alice = by_token(&own, &issuer.token("alice").expect("a token")).await;
    let maps = Api::<ConfigMap>::namespaced(alice.clone(), "default");
    until_code(&maps, 403).await;

    let access = Api::<AccessRequest>::namespaced(as_user(&folder, "sso:alice").await, "team");
    create(&access, asked("a")).await;
    let granted = until(&access, "a", is_granted).await;
    let given = granted.status.and_then(|status| status.access).expect("access");
    assert_eq!((given.type_.as_str(), given.renew_after), ("OIDC", None), "there is nothing to renew");
    let secret =
        Api::<Secret>::namespaced(admin.clone(), "team").get(&given.secret_ref.name).await.expect("the Secret");
    let data = secret.data.clone().expect("data");
    let keys: Vec<&str> = data.keys().map(String::as_str).collect();
    assert_eq!(keys, ["ca.crt", "clientID", "host", "issuer", "kubeconfig"], "no token, and nothing that ends");
    let text = |key: &str| String::from_utf8(data[key].0.clone()).expect("text");
    assert_eq!((text("issuer"), text("clientID")), (issuer.url(), CLIENT_ID.to_owned()));
    assert_eq!(secret.owner_references()[0].name, "a");

    // What is printed has its user log in at that issuer.
    let printed = run(&folder, &["access", "a", "-n", "team"]);
    assert!(printed.status.success(), "{printed:?}");
    let kubeconfig = String::from_utf8(printed.stdout).expect("text");
    let file = Kubeconfig::from_yaml(&kubeconfig).expect("a kubeconfig");
    let login = file.auth_infos[0].auth_info.clone().expect("a user").exec.expect("a plugin");
    let url = format!("--oidc-issuer-url={}", issuer.url());
    let words = ["oidc-login", "get-token", &url, "--oidc-client-id=clusters", "--oidc-extra-scope=email"];
    assert_eq!(
        (login.command.as_deref(), login.args.unwrap_or_default()),
        (Some("kubectl"), words.map(str::to_owned).to_vec())
    );

    // Logged in, one has what was asked for, and nothing else.
    let alice = by_token(&kubeconfig, &issuer.token("alice").expect("a token")).await;
    let maps = Api::<ConfigMap>::namespaced(alice.clone(), "default");
    assert_eq!(code(maps.list(&ListParams::default()).await), 200);
    assert_eq!(code(Api::<Namespace>::all(alice.clone()).get("kube-system").await), 200);
    let refused = [
        code(maps.delete("kube-root-ca.crt", &DeleteParams::default()).await),
        code(Api::<ConfigMap>::namespaced(alice.clone(), "kube-system").list(&ListParams::default()).await),
        code(Api::<Secret>::namespaced(alice.clone(), "default").list(&ListParams::default()).await),
        code(Api::<Namespace>::all(alice.clone()).list(&ListParams::default()).await),
    ];
    assert_eq!(refused, [403; 4]);
    // Nobody else has it: who is of the same issuer and the same group; and nobody is alice by what another one signed, in
    // its own name or in that of this issuer.
    let bob = by_token(&kubeconfig, &issuer.token("bob").expect("a token")).await;
    assert_eq!(code(Api::<Namespace>::all(bob.clone()).get("kube-system").await), 403);
    assert_eq!(code(Api::<ConfigMap>::namespaced(bob, "default").list(&ListParams::default()).await), 403);
    let other = Issuer::start(CLIENT_ID).await.expect("an issuer");
    for token in [other.token("alice"), issuer.forged("alice")] {
        let nobody = by_token(&kubeconfig, &token.expect("a token")).await;
        assert_eq!(code(Api::<ConfigMap>::namespaced(nobody, "default").list(&ListParams::default()).await), 401);
    }

    // Who is no user of the issuer gets nothing by it.
    for (user, name) in [("bob", "b"), ("sso:system:admin", "s")] {
        let access = Api::<AccessRequest>::namespaced(as_user(&folder, user).await, "team");
        create(&access, asked(name)).await;
        let denied = |found: &AccessRequest| {
            found.status.as_ref().is_some_and(|status| status.reason == "AccessTypeNotSupported")
        };
        until(&access, name, denied).await;
    }

    // Taken back: the issuer's user is known as before, and has no right.
    access.delete("a", &DeleteParams::default()).await.expect("it may be deleted");
    until_gone(&access, "a").await;
    until_code(&maps, 403).await;
    assert_eq!(code(Api::<Namespace>::all(alice).get("kube-system").await), 403);
    assert_eq!(labelled(&client_of(&own).await).await, 0, "something of it is left");
    let secrets = Api::<Secret>::namespaced(admin.clone(), "team");
    assert!(secrets.get_opt(&given.secret_ref.name).await.expect("an answer").is_none(), "its Secret goes with it");
}
