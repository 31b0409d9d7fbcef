//! Lists as long as a body holds: rules and warnings about them take a time that grows with the list, not with
//! its square, and no more memory than the list.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use allotment_machinery::json::Value;
use http_body_util::BodyExt as _;

use crate::world::World;

/// How long a list is, in bytes: what a body holds. Less of it in builds that are not optimised, which still is some
/// ten thousand elements, of which each two would be looked at for far longer than an answer may take.
const BYTES: usize = if cfg!(debug_assertions) { 192 << 10 } else { 3 << 20 };
/// How long one answer may take; far beyond what it takes, for slow machines.
const LONGEST: Duration = Duration::from_secs(10);

/// As many elements as there is room for; `#` is the place of each.
fn elements(pattern: &str, bytes: usize) -> String {
    let mut text = String::new();
    for index in 0.. {
        if text.len() + pattern.len() > bytes {
            break;
        }
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(text, "{comma}{}", pattern.replace('#', &index.to_string()));
    }
    text
}

/// Lists of a pod's spec, with what else they need.
const LISTS: &[(&str, &str)] = &[
    (r#""containers":[C],"topologySpreadConstraints":[@]"#, r#"{"topologyKey":"a1"}"#),
    (r#""containers":[C],"topologySpreadConstraints":[@]"#, r#"{"topologyKey":"a#"}"#),
    (r#""containers":[C],"tolerations":[@]"#, r#"{"operator":"Exists"}"#),
    (r#""containers":[C],"tolerations":[@]"#, r#"{"key":"a#"}"#),
    (r#""containers":[C],"hostAliases":[@]"#, r#"{"ip":"::1"}"#),
    (r#""containers":[C],"imagePullSecrets":[@]"#, "{}"),
    (r#""containers":[C],"schedulingGates":[@]"#, r#"{"name":"a"}"#),
    (r#""containers":[C],"readinessGates":[@]"#, r#"{"conditionType":"a#"}"#),
    (r#""containers":[C],"resourceClaims":[@]"#, r#"{"name":"a#","resourceClaimName":"b"}"#),
    (r#""containers":[C],"securityContext":{"sysctls":[@]}"#, r#"{"name":"kernel.shm_rmid_forced","value":"1"}"#),
    (r#""containers":[C],"dnsConfig":{"nameservers":[@]}"#, r#""::1""#),
    (r#""containers":[C],"dnsConfig":{"options":[@]}"#, r#"{"name":"a"}"#),
    (r#""containers":[@]"#, r#"{"name":"a","image":"b"}"#),
    (r#""containers":[@]"#, r#"{"name":"a#","image":"b"}"#),
    (r#""containers":[C],"initContainers":[@]"#, r#"{"name":"a#","image":"b"}"#),
    (r#""containers":[{"name":"c","image":"i","ports":[@]}]"#, r#"{"containerPort":1}"#),
    (r#""containers":[{"name":"c","image":"i","ports":[@]}]"#, r#"{"containerPort":1,"hostPort":1}"#),
    (r#""containers":[{"name":"c","image":"i","ports":[@]}]"#, r#"{"containerPort":1,"hostIP":"1.1.1.1"}"#),
    (r#""containers":[{"name":"c","image":"i","ports":[@]}]"#, r#"{"containerPort":1,"name":"p"}"#),
    (r#""containers":[{"name":"c","image":"i","env":[@]}]"#, r#"{"name":"a"}"#),
    (r#""containers":[{"name":"c","image":"i","envFrom":[@]}]"#, r#"{"configMapRef":{"name":"a"}}"#),
    (r#""containers":[{"name":"c","image":"i","volumeMounts":[@]}]"#, r#"{"name":"a","mountPath":"/b"}"#),
    (r#""containers":[{"name":"c","image":"i","volumeDevices":[@]}]"#, r#"{"name":"a#","devicePath":"/b#"}"#),
    (r#""containers":[{"name":"c","image":"i","resizePolicy":[@]}]"#, r#"{"resourceName":"cpu"}"#),
    (r#""containers":[C],"volumes":[@]"#, r#"{"name":"a"}"#),
    (r#""containers":[C],"volumes":[@]"#, r#"{"name":"a#","emptyDir":{}}"#),
    (r#""containers":[C],"volumes":[{"name":"v","configMap":{"name":"m","items":[@]}}]"#, r#"{"key":"k","path":"a"}"#),
    (r#""containers":[C],"volumes":[{"name":"v","configMap":{"name":"m","items":[@]}}]"#, r#"{"key":"k","path":"a#"}"#),
    (
        r#""containers":[C],"volumes":[{"name":"v","secret":{"secretName":"m","items":[@]}}]"#,
        r#"{"key":"k","path":"a"}"#,
    ),
    (r#""containers":[C],"volumes":[{"name":"v","downwardAPI":{"items":[@]}}]"#, r#"{"path":"a"}"#),
    (
        r#""containers":[C],"volumes":[{"name":"v","projected":{"sources":[@]}}]"#,
        r#"{"configMap":{"items":[{"key":"k","path":"a"}]}}"#,
    ),
    (r#""containers":[C],"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[@]}}"#, "{}"),
    (
        r#""containers":[C],"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"a","labelSelector":{"matchExpressions":[{"key":"a","operator":"Exists"}]},"matchLabelKeys":[@],"mismatchLabelKeys":["a"]}]}}"#,
        r#""a""#,
    ),
    (
        r#""containers":[C],"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[@]}}"#,
        r#"{"weight":1,"preference":{"matchExpressions":[{"key":"beta.kubernetes.io/arch","operator":"In","values":["!"]}]}}"#,
    ),
];

/// Lists of other kinds: path, body, element.
const OTHERS: &[(&str, &str, &str)] = &[
    (
        "/api/v1/namespaces/default/services",
        r#"{"metadata":{"name":"s"},"spec":{"type":"NodePort","ports":[@,{"port":1},{"port":1}]}}"#,
        r#"{"port":1,"nodePort":30000,"protocol":"P#"}"#,
    ),
    (
        "/api/v1/namespaces/default/resourcequotas",
        r#"{"metadata":{"name":"q"},"spec":{"hard":{"pods":"1","secrets":"1","services":"1"},"scopeSelector":{"matchExpressions":[@]}}}"#,
        r#"{"scopeName":"BestEffort","operator":"Exists"}"#,
    ),
    (
        "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
        r#"{"metadata":{"name":"n"},"spec":{"podSelector":{},"ingress":[{"from":[@]}]}}"#,
        r#"{"ipBlock":{"cidr":"1.2.3.4/8"}}"#,
    ),
];

async fn judge(world: &World, path: &str, body: String, about: &str) {
    let mut request = world.request("POST", &format!("{path}?dryRun=All"), &Value::Null);
    *request.body_mut() = http_body_util::Full::new(body.into());
    #[expect(clippy::disallowed_methods, reason = "a test of how long something takes")]
    let started = Instant::now();
    let response = world.raw(request).await;
    let code = response.status().as_u16();
    let warnings: usize = response.headers().get_all("warning").iter().map(http::HeaderValue::len).sum();
    let answer = response.into_body().collect().await.expect("infallible").to_bytes();
    let took = started.elapsed();
    assert!(took < LONGEST, "{took:?} for {about}");
    assert!(
        matches!(code, 201 | 413 | 422),
        "{code} {}: {about}",
        String::from_utf8_lossy(&answer[..answer.len().min(400)])
    );
    assert!(warnings < 8192, "{warnings} bytes of warnings for {about}");
}

#[tokio::test]
async fn the_longest_list_of_a_pod_is_judged_in_time() {
    let world = World::new().await;
    for (spec, element) in LISTS {
        let spec = spec.replace("[C]", r#"[{"name":"c","image":"i"}]"#).replace('@', &elements(element, BYTES));
        let pod = format!(r#"{{"metadata":{{"name":"p"}},"spec":{{{spec}}}}}"#);
        judge(&world, "/api/v1/namespaces/default/pods", pod, element).await;
    }
}

#[tokio::test]
async fn the_longest_lists_of_other_kinds_are_judged_in_time() {
    let world = World::new().await;
    for (path, body, element) in OTHERS {
        judge(&world, path, body.replace('@', &elements(element, BYTES)), element).await;
    }
    let (spec, element) = LISTS[15];
    let spec = spec.replace('@', &elements(element, BYTES));
    let template = format!(r#"{{"metadata":{{"labels":{{"a":"b"}}}},"spec":{{{spec}}}}}"#);
    let body = format!(
        r#"{{"metadata":{{"name":"d"}},"spec":{{"selector":{{"matchLabels":{{"a":"b"}}}},"template":{template}}}}}"#
    );
    judge(&world, "/apis/apps/v1/namespaces/default/deployments", body, element).await;
}
