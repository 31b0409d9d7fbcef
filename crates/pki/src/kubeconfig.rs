//! Kubeconfig files as they are written: one cluster, one user, one context.

use std::fmt;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::CertificatePair;

/// A kubeconfig with one context.
#[derive(Clone, Debug)]
pub struct Kubeconfig {
    /// What cluster, user and context are called.
    pub name: String,
    /// The URL, with path prefix if there is one.
    pub server: String,
    /// The CAs of the server's certificate as PEM; `None` leaves it to the system's.
    pub ca_pem: Option<String>,
    /// The name to ask for and expect in TLS, where it is not the URL's host.
    pub tls_server_name: Option<String>,
    /// The namespace of the context.
    pub namespace: Option<String>,
    /// How to prove who one is.
    pub user: KubeconfigUser,
}

/// The user of a kubeconfig.
#[derive(Clone)]
pub enum KubeconfigUser {
    /// A bearer token.
    Token(Zeroizing<String>),
    /// A client certificate.
    ClientCertificate(CertificatePair),
    /// A program that prints an ExecCredential (`client.authentication.k8s.io/v1`).
    Exec {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Whether it may ask the user for something, where there is one to be asked.
        interactive: bool,
        /// What to tell a user who lacks the program.
        install_hint: Option<String>,
    },
}

impl fmt::Debug for KubeconfigUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KubeconfigUser::Token(_) => f.write_str("Token(…)"),
            KubeconfigUser::ClientCertificate(pair) => pair.certificate().fmt(f),
            KubeconfigUser::Exec { command, args, .. } => {
                f.debug_struct("Exec").field("command", command).field("args", args).finish_non_exhaustive()
            }
        }
    }
}

impl KubeconfigUser {
    /// A user of an OpenID Connect issuer: kubectl's plugin `oidc-login` (github.com/int128/kubelogin) has them
    /// log in there and keeps what it is given.
    pub fn oidc(issuer: &str, client_id: &str, extra_scopes: &[String]) -> Self {
        let mut args = vec!["oidc-login".to_owned(), "get-token".to_owned()];
        args.push(format!("--oidc-issuer-url={issuer}"));
        args.push(format!("--oidc-client-id={client_id}"));
        args.extend(extra_scopes.iter().map(|scope| format!("--oidc-extra-scope={scope}")));
        KubeconfigUser::Exec {
            command: "kubectl".to_owned(),
            args,
            interactive: true,
            install_hint: Some(
                "kubectl's plugin oidc-login is needed: https://github.com/int128/kubelogin#setup".to_owned(),
            ),
        }
    }
}

impl Kubeconfig {
    /// The file, as YAML.
    pub fn to_yaml(&self) -> Zeroizing<String> {
        let mut out = Zeroizing::new(String::with_capacity(4096));
        let name = quote(&self.name);
        out.push_str("apiVersion: v1\nkind: Config\nclusters:\n- cluster:\n");
        member(&mut out, "server", &self.server);
        if let Some(ca) = &self.ca_pem {
            member(&mut out, "certificate-authority-data", &STANDARD.encode(ca));
        }
        if let Some(server_name) = &self.tls_server_name {
            member(&mut out, "tls-server-name", server_name);
        }
        out.extend(["  name: ", &name, "\ncontexts:\n- context:\n"]);
        member(&mut out, "cluster", &self.name);
        if let Some(namespace) = &self.namespace {
            member(&mut out, "namespace", namespace);
        }
        member(&mut out, "user", &self.name);
        out.extend(["  name: ", &name, "\ncurrent-context: ", &name]);
        out.push_str("\npreferences: {}\nusers:\n- name: ");
        out.extend([&name, "\n  user:\n"]);
        self.user.write(&mut out);
        out
    }
}

impl KubeconfigUser {
    fn write(&self, out: &mut Zeroizing<String>) {
        match self {
            KubeconfigUser::Token(token) => member(out, "token", token),
            KubeconfigUser::ClientCertificate(pair) => {
                member(out, "client-certificate-data", &STANDARD.encode(pair.certificate_pem()));
                let key = Zeroizing::new(STANDARD.encode(pair.key_pem().as_bytes()));
                member(out, "client-key-data", &key);
            }
            KubeconfigUser::Exec { command, args, interactive, install_hint } => {
                out.push_str("    exec:\n      apiVersion: client.authentication.k8s.io/v1\n");
                let mode = if *interactive { "IfAvailable" } else { "Never" };
                out.extend(["      interactiveMode: ", mode, "\n      provideClusterInfo: false\n"]);
                out.extend(["      command: ", &quote(command), "\n"]);
                if !args.is_empty() {
                    let args: Vec<String> = args.iter().map(|arg| quote(arg)).collect();
                    out.extend(["      args: [", &args.join(", "), "]\n"]);
                }
                if let Some(hint) = install_hint {
                    out.extend(["      installHint: ", &quote(hint), "\n"]);
                }
            }
        }
    }
}

fn member(out: &mut Zeroizing<String>, key: &str, value: &str) {
    out.extend(["    ", key, ": "]);
    let quoted = Zeroizing::new(quote(value));
    out.extend([quoted.as_str(), "\n"]);
}

/// A scalar that every YAML reader takes for text: plain where nothing in it has a meaning, else quoted as
/// in JSON, which YAML contains.
fn quote(text: &str) -> String {
    let harmless = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=+:".contains(&byte);
    let begins_well = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'/');
    let reserved = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    let plain = begins_well
        && text.bytes().all(harmless)
        && !text.ends_with(':')
        && !reserved.contains(&text.to_ascii_lowercase().as_str());
    if plain {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            other if other.is_control() || matches!(other, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                let written = write!(out, "\\u{:04x}", u32::from(other));
                debug_assert!(written.is_ok(), "writing to a string does not fail");
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}
