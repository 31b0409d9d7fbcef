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
        let mut config = read(&path, target.context.clone()).await?;
        config.proxy_url = None;
        let namespace = config.default_namespace.clone();
        let server = config.cluster_url.to_string();
        let builder = kube::client::ClientBuilder::try_from(config).context("cannot make a client")?;
        let hearing = MapResponseLayer::new(move |response| hear_warnings(response, &hear));
        let client = builder.with_layer(&hearing).build();
        match client.apiserver_version().await {
            // It answers; what it thinks of the credentials is told by what is asked next.
            Ok(_) | Err(kube::Error::Api(_)) => Ok(Platform { client, namespace, kubeconfig: path }),
            Err(error) => Err(anyhow!(
                "cannot reach {} of the kubeconfig {}: {}; start it with `allot up`, or name another kubeconfig with \
                 --kubeconfig",
                server.trim_end_matches('/'),
                path.display(),
                innermost(&error)
            )),
        }
    }
}

/// A client of the API server that the platform is to stand beside: that of the flag or the variable, else
/// the one around this pod. A kubeconfig that lies about is not taken: this installs things.
pub(crate) async fn of_server(target: &Target) -> anyhow::Result<kube::Client> {
    let named = target.kubeconfig.is_some() || std::env::var_os("KUBECONFIG").is_some_and(|list| !list.is_empty());
    let mut config = if named {
        let path = locate(target)?;
        read(&path, target.context.clone()).await?
    } else {
        kube::Config::incluster().map_err(|error| {
            anyhow!(
                "no API server to stand beside: name a kubeconfig with --kubeconfig; this is no pod either: {error}"
            )
        })?
    };
    if config.cluster_url.host().is_some_and(|host| ["localhost", "127.0.0.1", "[::1]"].contains(&host)) {
        config.proxy_url = None;
    }
    let server = config.cluster_url.to_string();
    let client = kube::Client::try_from(config).context("cannot make a client")?;
    match client.apiserver_version().await {
        Ok(_) | Err(kube::Error::Api(_)) => Ok(client),
        Err(error) => {
            Err(anyhow!("cannot reach the API server {}: {}", server.trim_end_matches('/'), innermost(&error)))
        }
    }
}

/// Reads a kubeconfig, of which one context counts.
async fn read(path: &Path, context: Option<String>) -> anyhow::Result<kube::Config> {
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| {
        // A parser shows the place on further lines; the first says it all.
        let text = format!("{:#}", anyhow::Error::from(error));
        anyhow!("cannot read the kubeconfig {}: {}", path.display(), text.lines().next().unwrap_or_default())
    })?;
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    config.with_context(|| format!("the kubeconfig {} cannot be used", path.display()))
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
        kube::Error::Api(status) => status.message.clone(),
        kube::Error::Service(_) | kube::Error::HyperError(_) => {
            format!("the server cannot be reached any more: {}", innermost(error))
        }
        other => {
            let mut text = other.to_string();
            let mut source = std::error::Error::source(other);
            while let Some(cause) = source {
                let cause_text = cause.to_string();
                if !text.contains(&cause_text) {
                    text = format!("{text}: {cause_text}");
                }
                source = cause.source();
            }
            text
        }
    }
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
    use super::warning;

    #[test]
    fn warnings_are_read_from_their_header() {
        let check = |header: &str, expect: Option<&str>| assert_eq!(warning(header).as_deref(), expect, "{header}");
        check(r#"299 - "plain""#, Some("plain"));
        check(r#"299 - "no profile publishes \"a\\b\"""#, Some(r#"no profile publishes "a\b""#));
        check(r#"299 - "not ended"#, None);
        check(r#"199 - "of a proxy""#, None);
    }
}
