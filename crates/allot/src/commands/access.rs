//! `allot access`: prints a kubeconfig for an AccessRequest. The one with the exec plugin outlives the
//! renewal of tokens; the static one is the Secret's.

use allotment_api::names::access_secret;
use allotment_api::reasons::Verdict;
use allotment_api::requests::AccessRequest;
use allotment_controllers::kubeconfig_fault;
use allotment_pki::{Kubeconfig, KubeconfigUser};
use anyhow::{Context as _, anyhow};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};
use zeroize::Zeroizing;

use super::merge;
use super::waiting::{self, Look};
use crate::cli::{Access, Target};
use crate::client::{self, Platform};
use crate::exit::{Code, Failure, Outcome};
use crate::output;

/// Prints the kubeconfig.
pub(crate) async fn run(target: &Target, arguments: Access) -> Outcome {
    if arguments.merge && !arguments.yes && !merge::can_ask() {
        let message =
            "--merge asks before it changes kubectl's kubeconfig, and there is no terminal to ask at; add --yes";
        return Err(Failure::new(Code::Failed, message));
    }
    let platform = Platform::connect(target).await?;
    let namespace = arguments.object.namespace.clone().unwrap_or_else(|| platform.namespace.clone());
    let name = arguments.object.name.as_str();
    let requests = Api::<AccessRequest>::namespaced(platform.client.clone(), &namespace);
    let request = if arguments.waiting.wait {
        let waited = waiting::until(requests, name, arguments.waiting.timeout, look).await;
        waited.map_err(|failure| Failure {
            error: failure.error.context(format!("AccessRequest {namespace}/{name}")),
            ..failure
        })?
    } else {
        let read = requests.get(name).await;
        read.map_err(|error| anyhow!("AccessRequest {namespace}/{name}: {}", client::explain(&error)))?
    };
    let denied = request.status.as_ref().is_some_and(|status| status.status == Some(Verdict::Denied));
    let code = if denied && arguments.waiting.wait { Code::Denied } else { Code::Failed };
    let secret = secret_of(&platform, &request, &namespace).await.map_err(|error| Failure { code, error })?;
    // It is printed to be used, and whoever wrote it may have changed it since the platform looked.
    let fault = kubeconfig_fault(&secret).filter(|_| arguments.fixed || holds_issuer(&secret));
    if let Some(fault) = fault {
        let at = format!("key {} of Secret {namespace}/{}", access_secret::KUBECONFIG, secret.name_any());
        let error = anyhow!("{at} is not printed, since it cannot be trusted: {fault}; tell who operates the platform");
        return Err(Failure { code: Code::Failed, error });
    }
    let text = kubeconfig(&platform, &arguments, &namespace, &secret)?;
    if arguments.merge {
        let name = format!("{namespace}/{name}");
        let entry = merge::Entry { name: &name, platform: &platform.server, kubeconfig: &text };
        return merge::run(&entry, arguments.yes);
    }
    output::data(&text)
}

/// What is printed or merged.
fn kubeconfig(
    platform: &Platform,
    arguments: &Access,
    namespace: &str,
    secret: &Secret,
) -> anyhow::Result<Zeroizing<String>> {
    let oidc = holds_issuer(secret);
    if arguments.fixed && oidc {
        output::note("access of type OIDC has no token that could stand in it: its user logs in at the issuer");
    }
    if arguments.fixed || oidc {
        // Of OIDC nothing in it ends: what the Secret holds is the kubeconfig whose plugin has the user log in.
        return Ok(text(secret, access_secret::KUBECONFIG)?.into());
    }
    let name = arguments.object.name.as_str();
    let kubeconfig = Kubeconfig {
        name: format!("{namespace}-{name}"),
        server: text(secret, access_secret::HOST)?,
        ca_pem: Some(text(secret, access_secret::CA_CRT)?),
        tls_server_name: None,
        namespace: None,
        user: plugin(platform, namespace, name)?,
    };
    Ok(kubeconfig.to_yaml())
}

/// The user that fetches the current token each time.
fn plugin(platform: &Platform, namespace: &str, name: &str) -> anyhow::Result<KubeconfigUser> {
    let mut args = vec!["credential".to_owned(), name.to_owned(), "-n".to_owned(), namespace.to_owned()];
    let kubeconfig = std::path::absolute(&platform.kubeconfig).unwrap_or_else(|_| platform.kubeconfig.clone());
    args.extend(["--kubeconfig".to_owned(), kubeconfig.to_string_lossy().into_owned()]);
    // By name: the current one may be another by then, this very one even.
    args.extend(["--context".to_owned(), platform.context.clone()]);
    let program = std::env::current_exe().context("cannot tell where this program lies")?;
    let hint = "the kubeconfig was printed by `allot access`; print it again where allot lies";
    Ok(KubeconfigUser::Exec {
        command: program.to_string_lossy().into_owned(),
        args,
        interactive: false,
        install_hint: Some(hint.to_owned()),
    })
}

/// Whether the Secret names an issuer in place of a token.
pub(super) fn holds_issuer(secret: &Secret) -> bool {
    secret.data.as_ref().is_some_and(|data| data.contains_key(access_secret::ISSUER))
}

fn look(request: &AccessRequest) -> Look {
    let status = request.status.clone().unwrap_or_default();
    if status.observed_generation != request.metadata.generation {
        return Look::NotYet("waiting to be decided".to_owned());
    }
    match status.status {
        Some(Verdict::Granted | Verdict::Denied) => Look::Done,
        Some(Verdict::Pending) => Look::NotYet(format!("Pending: {}: {}", status.reason, status.message)),
        None => Look::NotYet("waiting to be decided".to_owned()),
    }
}

/// The Secret that answers the request, or an error that says why there is none.
pub(super) async fn secret_of(platform: &Platform, request: &AccessRequest, namespace: &str) -> anyhow::Result<Secret> {
    let name = request.name_any();
    let status = request.status.clone().unwrap_or_default();
    let Some(access) = status.access.filter(|_| status.status == Some(Verdict::Granted)) else {
        let verdict = status.status.map_or("not decided", Verdict::as_str);
        let why = match status.reason.as_str() {
            "" => String::new(),
            reason => format!(": {reason}: {}", status.message),
        };
        let next = match status.status {
            Some(Verdict::Denied) => {
                "ask for less, or have that changed which stands against it: it is decided again by itself"
            }
            Some(Verdict::Granted | Verdict::Pending) | None => "wait for it with --wait",
        };
        return Err(anyhow!(
            "AccessRequest {namespace}/{name} is {verdict}{why}; {next}; all of it: kubectl describe accessrequest \
             {name} -n {namespace}"
        ));
    };
    let secrets = Api::<Secret>::namespaced(platform.client.clone(), namespace);
    let secret = secrets.get(&access.secret_ref.name).await;
    secret.map_err(|error| anyhow!("Secret {namespace}/{}: {}", access.secret_ref.name, client::explain(&error)))
}

/// One entry of the Secret.
pub(super) fn text(secret: &Secret, key: &str) -> anyhow::Result<String> {
    let bytes = secret.data.as_ref().and_then(|data| data.get(key));
    let text = bytes.and_then(|bytes| String::from_utf8(bytes.0.clone()).ok());
    text.ok_or_else(|| anyhow!("Secret {} has no {key}", secret.name_any()))
}
