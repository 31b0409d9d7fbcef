//! The kubeconfig in a Secret of access, as far as whoever uses it can trust it: it says what the other entries of
//! the Secret say, and does nothing else. A provider may have written it, and its users have rights and files that a
//! provider does not have.
//!
//! # Guarantees
//! - One cluster, one user, one context; members that are not known are refused, whatever a client would make of them, and so
//!   are control characters: it is printed at terminals.
//! - No program is run but the plugin by which a user logs in at the issuer that the Secret names, with the arguments
//!   that the platform itself would give it. No file is read.

use allotment_api::names::access_secret;
use allotment_machinery::yaml;
use allotment_pki::KubeconfigUser;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;

/// The longest kubeconfig that is read.
const LONGEST: usize = 256 * 1024;
/// What begins the arguments that a provider may choose: what a user is to let the issuer tell of them.
const SCOPE: &str = "--oidc-extra-scope=";

/// What is wrong with the kubeconfig of a Secret that answers an AccessRequest, and what it has to be instead. It says
/// nothing of what stands in it. Absent where there is none, or nothing is wrong.
pub fn kubeconfig_fault(secret: &Secret) -> Option<String> {
    let text = |key: &str| {
        let bytes = secret.data.as_ref()?.get(key)?;
        std::str::from_utf8(&bytes.0).ok().filter(|text| !text.is_empty())
    };
    let kubeconfig = text(access_secret::KUBECONFIG)?;
    judge(kubeconfig, &text).err()
}

fn judge<'a>(kubeconfig: &str, text: &dyn Fn(&str) -> Option<&'a str>) -> Result<(), String> {
    let stream = Some(kubeconfig).filter(|text| text.len() <= LONGEST).and_then(|text| yaml::parse_stream(text).ok());
    let document = stream.as_deref().and_then(|stream| match stream {
        [document] if document.duplicates.is_empty() => serde_json::from_slice::<Value>(&document.value.to_vec()).ok(),
        _ => None,
    });
    let document = document.ok_or("it is not one YAML document with each member once")?;
    only(&document, "", &["apiVersion", "kind", "current-context", "clusters", "users", "contexts", "preferences"])?;
    if document["preferences"].as_object().is_some_and(|preferences| !preferences.is_empty()) {
        return Err("preferences are not empty".to_owned());
    }
    if has_controls(&document) {
        return Err("it has control characters in it".to_owned());
    }
    let (cluster_name, cluster) = sole(&document, "clusters", "cluster")?;
    let (user_name, user) = sole(&document, "users", "user")?;
    let (context_name, context) = sole(&document, "contexts", "context")?;
    only(context, "contexts[0].context", &["cluster", "user", "namespace"])?;
    if document["current-context"] != *context_name
        || context["cluster"] != *cluster_name
        || context["user"] != *user_name
    {
        return Err("current-context does not lead to its cluster and its user".to_owned());
    }
    only(cluster, "clusters[0].cluster", &["server", "certificate-authority-data", "tls-server-name"])?;
    let server = cluster["server"].as_str().unwrap_or_default();
    if !server.starts_with("https://") || Some(server) != text(access_secret::HOST) {
        return Err(format!(
            "clusters[0].cluster.server is not the https:// address that key {} has",
            access_secret::HOST
        ));
    }
    let authority = cluster["certificate-authority-data"].as_str().and_then(|data| STANDARD.decode(data.trim()).ok());
    if authority.as_deref() != text(access_secret::CA_CRT).map(str::as_bytes) {
        let key = access_secret::CA_CRT;
        return Err(format!("clusters[0].cluster.certificate-authority-data is not what key {key} has, in base64"));
    }
    judge_user(user, text)
}

fn judge_user<'a>(user: &Value, text: &dyn Fn(&str) -> Option<&'a str>) -> Result<(), String> {
    if let Some(token) = text(access_secret::TOKEN) {
        only(user, "users[0].user", &["token"])?;
        let same = user["token"].as_str().map(str::trim) == Some(token.trim());
        return if same { Ok(()) } else { Err("users[0].user.token is not what key token has".to_owned()) };
    }
    only(user, "users[0].user", &["exec"])?;
    let exec = &user["exec"];
    only(
        exec,
        "users[0].user.exec",
        &["apiVersion", "interactiveMode", "provideClusterInfo", "command", "args", "installHint"],
    )?;
    let args = exec["args"].as_array().into_iter().flatten();
    let scopes: Vec<String> = args.filter_map(|arg| arg.as_str()?.strip_prefix(SCOPE).map(str::to_owned)).collect();
    let issuer = text(access_secret::ISSUER).filter(|issuer| issuer.starts_with("https://"));
    let issuer = issuer.ok_or_else(|| format!("key {} is no https:// address", access_secret::ISSUER))?;
    let client_id = text(access_secret::CLIENT_ID).unwrap_or_default();
    let KubeconfigUser::Exec { command, args, .. } = KubeconfigUser::oidc(issuer, client_id, &scopes) else {
        return Err("users[0].user.exec runs a program, and none is needed".to_owned());
    };
    if exec["command"] != command || exec["args"] != Value::from(args.clone()) {
        return Err(format!(
            "users[0].user.exec is not what logs in at the issuer that the Secret names: command {command}, args {}, and \
             {SCOPE}… for each further scope",
            args.join(" ")
        ));
    }
    Ok(())
}

/// The one entry of a list: its name and its member of that name.
fn sole<'a>(document: &'a Value, list: &str, member: &str) -> Result<(&'a Value, &'a Value), String> {
    let entries = document[list].as_array().map(Vec::as_slice).unwrap_or_default();
    let [entry] = entries else { return Err(format!("{list} has {} entries, and one is needed", entries.len())) };
    only(entry, &format!("{list}[0]"), &["name", member])?;
    if !entry["name"].is_string() || !entry[member].is_object() {
        return Err(format!("{list}[0] has no name or no {member}"));
    }
    Ok((&entry["name"], &entry[member]))
}

/// Whether any text in it has control characters but line breaks. Members are known ones where it is looked at.
fn has_controls(value: &Value) -> bool {
    match value {
        Value::String(text) => text.chars().any(|letter| letter.is_control() && letter != '\n'),
        Value::Array(items) => items.iter().any(has_controls),
        Value::Object(members) => members.values().any(has_controls),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Refuses members beside these.
fn only(value: &Value, place: &str, members: &[&str]) -> Result<(), String> {
    let object = value.as_object().ok_or_else(|| format!("{place} is no object"))?;
    match object.keys().find(|key| !members.contains(&key.as_str())) {
        // What it is called may be anything, but it is bounded.
        Some(key) => Err(format!("it uses {place}.{}, which is not allowed", key.chars().take(64).collect::<String>())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use allotment_pki::Kubeconfig;
    use k8s_openapi::ByteString;
    use serde_json::json;

    use super::*;

    const CA: &str = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n";

    fn secret(kubeconfig: &str, rest: &[(&str, &str)]) -> Secret {
        let common = [("kubeconfig", kubeconfig), ("host", "https://far.example.com"), ("ca.crt", CA)];
        let data = common.iter().chain(rest);
        let data = data.map(|(key, text)| ((*key).to_owned(), ByteString(text.as_bytes().to_vec())));
        Secret { data: Some(data.collect()), ..Secret::default() }
    }

    const TOKEN: [(&str, &str); 1] = [("token", "a.b.c")];
    const OIDC: [(&str, &str); 2] = [("issuer", "https://issuer.example.com"), ("clientID", "far")];

    fn whole(user: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c", "namespace": "n"}}],
            "clusters": [{"name": "c", "cluster": {"server": "https://far.example.com",
                "certificate-authority-data": STANDARD.encode(CA)}}],
            "users": [{"name": "c", "user": user}]})
    }

    fn login(args: &[&str]) -> Value {
        json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "kubectl", "args": args}})
    }

    #[test]
    fn what_the_platform_renders_is_what_is_trusted() {
        for (user, rest) in [
            (KubeconfigUser::Token("a.b.c".to_owned().into()), &TOKEN[..]),
            (KubeconfigUser::oidc("https://issuer.example.com", "far", &[]), &OIDC[..]),
            (KubeconfigUser::oidc("https://issuer.example.com", "far", &["email".to_owned()]), &OIDC[..]),
        ] {
            let kubeconfig = Kubeconfig {
                name: "team-a".to_owned(),
                server: "https://far.example.com".to_owned(),
                ca_pem: Some(CA.to_owned()),
                tls_server_name: Some("kubernetes".to_owned()),
                namespace: Some("n".to_owned()),
                user,
            };
            assert_eq!(kubeconfig_fault(&secret(&kubeconfig.to_yaml(), rest)), None);
        }
        assert_eq!(kubeconfig_fault(&Secret::default()), None, "none is there, which another rule tells of");
    }

    #[test]
    fn a_kubeconfig_that_does_more_than_log_in_is_refused() {
        let token = || whole(json!({"token": "a.b.c"}));
        let with = |path: &str, value: Value| {
            let mut changed = token();
            let (parent, member) = path.rsplit_once('/').expect("a path");
            match changed.pointer_mut(parent).expect("a place") {
                Value::Array(entries) => entries.push(value),
                place => place[member] = value,
            }
            changed
        };
        let good = ["oidc-login", "get-token", "--oidc-issuer-url=https://issuer.example.com", "--oidc-client-id=far"];
        let and = |more: &str| login(&[&good[..], &[more]].concat());
        for (kubeconfig, rest, says) in [
            (token(), &TOKEN[..], ""),
            (whole(login(&good)), &OIDC[..], ""),
            (whole(and("--oidc-extra-scope=groups")), &OIDC[..], ""),
            (whole(login(&["x"])), &TOKEN[..], "users[0].user.exec"),
            (with("/users/0/user/exec", json!({"command": "touch"})), &TOKEN[..], "users[0].user.exec"),
            (with("/users/0/user/Exec", json!({"command": "touch"})), &TOKEN[..], "users[0].user.Exec"),
            (with("/users/0/user/auth-provider", json!({"name": "gcp"})), &TOKEN[..], "auth-provider"),
            (whole(json!({"tokenFile": "/home/jane/.kube/token"})), &TOKEN[..], "tokenFile"),
            (whole(json!({"token": "other"})), &TOKEN[..], "users[0].user.token is not"),
            (with("/users/1", json!({"name": "d", "user": {"exec": {}}})), &TOKEN[..], "users has 2 entries"),
            (with("/clusters/0/cluster/proxy-url", json!("http://x")), &TOKEN[..], "proxy-url"),
            (with("/clusters/0/cluster/insecure-skip-tls-verify", json!(true)), &TOKEN[..], "insecure"),
            (with("/clusters/0/cluster/certificate-authority", json!("/etc/x")), &TOKEN[..], "certificate-authority"),
            (with("/clusters/0/cluster/server", json!("https://other.example.com")), &TOKEN[..], "server is not"),
            (with("/clusters/0/cluster/certificate-authority-data", json!("eA==")), &TOKEN[..], "ca.crt"),
            (with("/contexts/0/context/cluster", json!("d")), &TOKEN[..], "current-context"),
            (with("/contexts/0/context/namespace", json!("\u{1b}[31m")), &TOKEN[..], "control characters"),
            (with("/clusters/0/cluster/tls-server-name", json!("a\r")), &TOKEN[..], "control characters"),
            (whole(and("--oidc-extra-scope=\u{9b}31m")), &OIDC[..], "control characters"),
            (with("/preferences", json!({"colors": true})), &TOKEN[..], "preferences"),
            (with("/extensions", json!([])), &TOKEN[..], "extensions"),
            (whole(json!({"token": "a.b.c"})), &OIDC[..], "users[0].user.token"),
            (whole(login(&["oidc-login", "get-token"])), &OIDC[..], "--oidc-client-id=far"),
            (whole(and("--token-cache-dir=/tmp")), &OIDC[..], "users[0].user.exec is not"),
            (whole(login(&[&["-c"][..], &good[..]].concat())), &OIDC[..], "users[0].user.exec is not"),
        ] {
            let fault = kubeconfig_fault(&secret(&kubeconfig.to_string(), rest));
            assert_eq!(fault.is_some(), !says.is_empty(), "{kubeconfig}: {fault:?}");
            assert!(fault.unwrap_or_default().contains(says), "{kubeconfig}");
        }
        let mut exec = whole(login(&good));
        exec["users"][0]["user"]["exec"]["command"] = json!("./kubectl");
        assert!(kubeconfig_fault(&secret(&exec.to_string(), &OIDC)).is_some());
        exec = whole(login(&good));
        exec["users"][0]["user"]["exec"]["env"] = json!([{"name": "PATH", "value": "/tmp"}]);
        assert!(kubeconfig_fault(&secret(&exec.to_string(), &OIDC)).expect("refused").contains("exec.env"));
        let twice = format!("{}\nkind: Config\n", "users: []\nkind: Config");
        for text in [twice.as_str(), "[]", "text", ": :", "{"] {
            assert!(kubeconfig_fault(&secret(text, &TOKEN)).is_some(), "{text}");
        }
        let plain = [("issuer", "http://issuer.example.com"), ("clientID", "far")];
        assert!(kubeconfig_fault(&secret(&whole(login(&good)).to_string(), &plain)).is_some());
    }
}
