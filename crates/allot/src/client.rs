//! Clients of the platform's API, from the kubeconfig that the user means. Never a proxy: the platform is
//! on loopback, or where the kubeconfig says.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tower::util::MapResponseLayer;

use crate::cli::Target;
use crate::{folder, output};

/// A client, and what it was made from.
#[derive(Clone)]
pub(crate) struct Platform {
    /// The client.
    pub(crate) client: kube::Client,
    /// The namespace of the context; `default` where it names none.
    pub(crate) namespace: String,
    /// The file that was read, for hints and exec plugins.
    pub(crate) kubeconfig: PathBuf,
    /// The context of it that counts.
    pub(crate) context: String,
    /// The URL of the API server.
    pub(crate) server: String,
}

impl Platform {
    /// Reads the kubeconfig, makes a client, and asks for the server's version: an API that cannot be
    /// reached is told once, here, with its address.
    pub(crate) async fn connect(target: &Target) -> anyhow::Result<Self> {
        Platform::listening(target, |text| output::note(&format!("warning: {text}"))).await
    }

    /// The same, with what becomes of the server's warnings.
    pub(crate) async fn listening(
        target: &Target,
        hear: impl Fn(&str) + Clone + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        let path = locate(target)?;
        let (mut config, context) = read(&path, target.context.as_deref()).await?;
        config.proxy_url = None;
        let namespace = config.default_namespace.clone();
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let builder = kube::client::ClientBuilder::try_from(config).context("cannot make a client")?;
        let hearing = MapResponseLayer::new(move |response| hear_warnings(response, &hear));
        let client = builder.with_layer(&hearing).build();
        match client.apiserver_version().await {
            // It answers; what it thinks of the credentials is told by what is asked next.
            Ok(_) | Err(kube::Error::Api(_)) => Ok(Platform { client, namespace, kubeconfig: path, context, server }),
            Err(error) => Err(unreachable(&server, Some(&path), &innermost(&error), "start it with `allot up`")),
        }
    }
}

/// A client of the API server that the platform is to stand beside: that of the flag or the variable, else
/// the one around this pod. A kubeconfig that lies about is not taken: this installs things.
pub(crate) async fn of_server(target: &Target) -> anyhow::Result<kube::Client> {
    let named = target.kubeconfig.is_some() || std::env::var_os("KUBECONFIG").is_some_and(|list| !list.is_empty());
    let (mut config, path) = if named {
        let path = locate(target)?;
        (read(&path, target.context.as_deref()).await?.0, Some(path))
    } else {
        let around = kube::Config::incluster().map_err(|error| {
            anyhow!(
                "no API server to stand beside: name a kubeconfig with --kubeconfig; this is no pod either: {error}"
            )
        })?;
        (around, None)
    };
    if config.cluster_url.host().is_some_and(|host| ["localhost", "127.0.0.1", "[::1]"].contains(&host)) {
        config.proxy_url = None;
    }
    let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let client = kube::Client::try_from(config).context("cannot make a client")?;
    match client.apiserver_version().await {
        Ok(_) | Err(kube::Error::Api(_)) => Ok(client),
        Err(error) => Err(unreachable(&server, path.as_deref(), &innermost(&error), "see whether the API server runs")),
    }
}

/// An API server that cannot be reached: where it was looked for, why, and what to do.
fn unreachable(server: &str, kubeconfig: Option<&Path>, why: &str, next: &str) -> anyhow::Error {
    let of = kubeconfig.map(|path| format!(" of the kubeconfig {}", path.display())).unwrap_or_default();
    // Somebody answers there, so nothing is to be started.
    let next = match why.contains("certificate") {
        true => "who answers there has no certificate of the authority that the kubeconfig names",
        false => next,
    };
    let another = if kubeconfig.is_some() { ", or name another kubeconfig with --kubeconfig" } else { "" };
    anyhow!("cannot reach {server}{of}: {why}; {next}{another}")
}

/// Reads a kubeconfig, of which one context counts: the one named, or the current one. Gives its name too.
async fn read(path: &Path, context: Option<&str>) -> anyhow::Result<(kube::Config, String)> {
    let shown = path.display();
    // Of a file that cannot be read the system says why, once.
    std::fs::read(path)
        .map_err(|error| anyhow!("cannot read the kubeconfig {shown}: {error}; name another with --kubeconfig"))?;
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| {
        // A parser shows the place on further lines; the first says it all.
        let text = chain(&error);
        anyhow!("cannot read the kubeconfig {shown}: {}", text.lines().next().unwrap_or_default())
    })?;
    let names: Vec<&str> = kubeconfig.contexts.iter().map(|context| context.name.as_str()).collect();
    let current = kubeconfig.current_context.as_deref().filter(|name| !name.is_empty());
    let Some(name) = context.or(current).map(str::to_owned) else {
        let next = match names.is_empty() {
            true => "it names no context at all; name another with --kubeconfig".to_owned(),
            false => format!("it has no current context; name one with --context: {}", names.join(", ")),
        };
        return Err(anyhow!("the kubeconfig {shown} cannot be used: {next}"));
    };
    if !names.contains(&name.as_str()) {
        let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(anyhow!("the kubeconfig {shown} cannot be used: it has no context {name:?}; there are: {there}"));
    }
    let options = KubeConfigOptions { context: Some(name.clone()), ..KubeConfigOptions::default() };
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let config = config
        .map_err(|error| anyhow!("context {name:?} of the kubeconfig {shown} cannot be used: {}", chain(&error)))?;
    Ok((config, name))
}

/// Hands on what the server warns of.
fn hear_warnings<B>(response: http::Response<B>, hear: &impl Fn(&str)) -> http::Response<B> {
    for header in response.headers().get_all(http::header::WARNING) {
        if let Some(text) = std::str::from_utf8(header.as_bytes()).ok().and_then(warning) {
            hear(&text);
        }
    }
    response
}

/// The text of a header `Warning: 299 - "text"` (RFC 7234, section 5.5).
fn warning(header: &str) -> Option<String> {
    let quoted = header.strip_prefix("299 ")?.split_once('"')?.1;
    let mut text = String::new();
    let mut characters = quoted.chars();
    loop {
        match characters.next()? {
            '"' => return Some(text),
            '\\' => text.push(characters.next()?),
            plain => text.push(plain),
        }
    }
}

/// The file that is meant: the flag, the variable, that of `allot up`, kubectl's own.
fn locate(target: &Target) -> anyhow::Result<PathBuf> {
    if let Some(path) = &target.kubeconfig {
        return Ok(path.clone());
    }
    if let Some(list) = std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty()) {
        let mut paths = std::env::split_paths(&list);
        return paths.find(|path| path.exists()).ok_or_else(|| {
            anyhow!("no file of KUBECONFIG={} exists; set it to a kubeconfig or unset it", list.to_string_lossy())
        });
    }
    let own = folder::default_data_dir().map(|dir| folder::kubeconfig(&dir));
    let kubectls = std::env::home_dir().map(|home| home.join(".kube/config"));
    [own, kubectls].into_iter().flatten().find(|path| path.exists()).ok_or_else(|| {
        anyhow!("no platform to talk to: start one with `allot up`, or name a kubeconfig with --kubeconfig")
    })
}

/// What to tell a user of an error of the API: the server's own words, or what could not be reached.
pub(crate) fn explain(error: &kube::Error) -> String {
    match error {
        // The path itself is not there, rather than an object.
        kube::Error::Api(status) if status.code == 404 && is_of_no_object(&status.message) => {
            format!(
                "{}: no kinds of the platform are served there; name the platform's kubeconfig with --kubeconfig, or its \
                 context with --context",
                status.message.trim()
            )
        }
        kube::Error::Api(status) if status.code == 401 => {
            format!(
                "{}: the server does not know the credentials of the kubeconfig, or not any more; name another with \
                 --kubeconfig",
                status.message.trim()
            )
        }
        kube::Error::Api(status) if status.code == 404 && is_about(status, "namespaces") => {
            format!("{}; make it first, or name another namespace with -n", status.message)
        }
        kube::Error::Api(status) => status.message.clone(),
        kube::Error::Service(_) | kube::Error::HyperError(_) => {
            format!("the server cannot be reached any more: {}", innermost(error))
        }
        other => chain(other),
    }
}

/// Whether an answer is about an object of that kind.
fn is_about(status: &kube::core::Status, kind: &str) -> bool {
    status.details.as_ref().is_some_and(|details| details.kind == kind)
}

/// Whether what is not found is a kind, not an object of it.
fn is_of_no_object(message: &str) -> bool {
    message.contains("page not found") || message.contains("could not find the requested resource")
}

/// An error with its causes, each told once: some tell theirs themselves.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let told = cause.to_string();
        if !text.contains(&told) {
            text = format!("{text}: {told}");
        }
        source = cause.source();
    }
    text
}

/// The cause that has none itself: of an error of the connection, the only one that tells anything.
fn innermost(error: &kube::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::{unreachable, warning};

    #[test]
    fn what_cannot_be_reached_is_told_with_its_kubeconfig_and_what_to_do() {
        let check = |path: Option<&str>, why: &str, expect: &str| {
            let told = unreachable("https://s", path.map(std::path::Path::new), why, "start it").to_string();
            assert_eq!(told, expect);
        };
        let (at, another) =
            ("cannot reach https://s of the kubeconfig f: ", ", or name another kubeconfig with --kubeconfig");
        check(Some("f"), "Connection refused", &format!("{at}Connection refused; start it{another}"));
        let wrong = "invalid peer certificate: UnknownIssuer";
        let next = "who answers there has no certificate of the authority that the kubeconfig names";
        check(Some("f"), wrong, &format!("{at}{wrong}; {next}{another}"));
        check(None, "gone", "cannot reach https://s: gone; start it");
    }

    #[test]
    fn warnings_are_read_from_their_header() {
        let check = |header: &str, expect: Option<&str>| assert_eq!(warning(header).as_deref(), expect, "{header}");
        check(r#"299 - "plain""#, Some("plain"));
        check(r#"299 - "no profile publishes \"a\\b\"""#, Some(r#"no profile publishes "a\b""#));
        check(r#"299 - "not ended"#, None);
        check(r#"199 - "of a proxy""#, None);
    }
}
