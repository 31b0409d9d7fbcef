//! What `ClusterProvider.spec.package` names: a provider of this process, an image, or an executable. And
//! which API group is its own.

use allotment_api::names::GROUP;
use allotment_api::reasons::ProviderReason;

/// The longest name of a ClusterProvider whose package runs elsewhere: its finalizer ends with it, and the name
/// of a finalizer has no more after the slash (Kubernetes' qualified names).
const LONGEST_NAME: usize = 63;
/// What names of packages say beside the name of the provider.
const COMMON_PARTS: [&str; 5] =
    ["-cluster-provider", "-provider", "cluster-provider-", "clusterprovider-", "provider-"];

/// What a package names, by its text alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackageRef<'a> {
    /// `builtin:NAME`: a provider of this process.
    BuiltIn(&'a str),
    /// An OCI image, as it is written.
    Image(&'a str),
    /// A path of an executable: absolute, or relative to the folder of providers.
    Executable(&'a str),
}

impl<'a> PackageRef<'a> {
    /// Reads a package. An image is known by its registry (a first component with a dot or a port, or
    /// `localhost`, as image references have it), its tag or its digest; a path that looks the same is written with
    /// `./` in front.
    pub fn parse(package: &'a str) -> Self {
        if let Some(name) = package.strip_prefix("builtin:") {
            return PackageRef::BuiltIn(name);
        }
        if package.starts_with(['/', '.']) {
            return PackageRef::Executable(package);
        }
        let (first, rest) = package.split_once('/').unwrap_or(("", package));
        let registry = first.contains(['.', ':']) || first == "localhost";
        let tagged = rest.rsplit('/').next().is_some_and(|last| last.contains([':', '@']));
        if registry || tagged { PackageRef::Image(package) } else { PackageRef::Executable(package) }
    }

    /// What the provider is called, whoever runs it: the last part of the path, without tag, digest, file extension and what
    /// says that it is a provider. `registry.example.com/gardener-cluster-provider:v1` is `gardener`.
    ///
    /// Absent where that is no DNS label, which a group needs.
    pub fn provider(&self) -> Option<String> {
        let (PackageRef::BuiltIn(path) | PackageRef::Image(path) | PackageRef::Executable(path)) = self;
        let last = path.rsplit('/').next().unwrap_or_default();
        let stem = match self {
            PackageRef::BuiltIn(_) => last,
            PackageRef::Image(_) => last.split(['@', ':']).next().unwrap_or_default(),
            PackageRef::Executable(_) => last.split_once('.').map_or(last, |(stem, _)| stem),
        };
        let lower = stem.to_ascii_lowercase().replace('_', "-");
        let shorter = COMMON_PARTS.iter().find_map(|part| {
            let cut = if part.starts_with('-') { lower.strip_suffix(part) } else { lower.strip_prefix(part) };
            cut.filter(|rest| !rest.is_empty())
        });
        let name = shorter.unwrap_or(&lower).to_owned();
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let edges = !name.starts_with('-') && !name.ends_with('-');
        (!name.is_empty() && name.len() <= LONGEST_NAME && edges && name.chars().all(plain)).then_some(name)
    }

    /// The group of its ProviderConfigs and whatever else it brings: `NAME.cluster.openmcp.cloud`.
    pub fn group(&self) -> Option<String> {
        self.provider().map(|name| format!("{name}.{GROUP}"))
    }
}

/// Why a package may not run here, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For machines.
    pub reason: ProviderReason,
    /// For people.
    pub message: String,
    /// Whether it may pass though nobody touches the ClusterProvider: it is about a file, and nothing tells of those.
    pub may_pass: bool,
}

impl Refusal {
    /// A package that is not one that may run here; `why` names what to do.
    pub fn not_allowed(why: impl Into<String>) -> Self {
        let message = format!("spec.package: {}", why.into());
        Refusal { reason: ProviderReason::PackageNotAllowed, message, may_pass: false }
    }

    /// An executable that may not run as it lies there now; `why` names what to do.
    pub fn not_as_it_lies(why: impl Into<String>) -> Self {
        Refusal { may_pass: true, ..Refusal::not_allowed(why) }
    }

    /// Whether what the provider has stays: its identity and what it published. It may run again as soon as the owner of the
    /// machine mends what is wrong, and its Clusters are there meanwhile.
    pub fn keeps(&self) -> bool {
        self.reason == ProviderReason::PackageNotAllowed
    }

    /// An image, where there is nothing to run it.
    pub fn needs_kubernetes(image: &str) -> Self {
        let message = format!(
            "spec.package: \"{image}\" is an image, which needs a platform on Kubernetes (`allot controllers`); here \
             run builtin:local, or an executable below --provider-dir"
        );
        Refusal { reason: ProviderReason::PackageNeedsKubernetes, message, may_pass: false }
    }

    /// An executable, where no folder of providers is named.
    pub fn no_folder(path: &str) -> Self {
        Refusal::not_allowed(format!(
            "\"{path}\" would be an executable, and none may run: start the server with --provider-dir DIR, the folder \
             that it lies in"
        ))
    }
}

/// Whether the ClusterProvider of that name may run that package outside this process, as far as names tell;
/// gives its API group. `built_in` are the packages of this process, `builtin:NAME` each.
pub fn outside_group(provider: &str, package: PackageRef<'_>, built_in: &[&str]) -> Result<String, Refusal> {
    if let PackageRef::BuiltIn(name) = package {
        let there = built_in.join(", ");
        return Err(Refusal::not_allowed(format!(
            "there is no built-in provider \"builtin:{name}\"; there is {there}"
        )));
    }
    if provider.len() > LONGEST_NAME {
        let long = provider.len();
        return Err(Refusal::not_allowed(format!(
            "metadata.name has {long} characters, and a provider in another process at most {LONGEST_NAME}"
        )));
    }
    let (PackageRef::BuiltIn(text) | PackageRef::Image(text) | PackageRef::Executable(text)) = package;
    let Some(name) = package.provider() else {
        return Err(Refusal::not_allowed(format!(
            "the last part of \"{text}\" names its API group, and is no DNS label: use lower-case letters, digits and -"
        )));
    };
    if built_in.iter().any(|package| package.strip_prefix("builtin:") == Some(name.as_str())) {
        return Err(Refusal::not_allowed(format!(
            "\"{text}\" would own the API group {name}.{GROUP}, which is that of builtin:{name}; give it another name"
        )));
    }
    Ok(format!("{name}.{GROUP}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_built_in_an_image_or_a_path() {
        for (package, expect, provider) in [
            ("builtin:local", PackageRef::BuiltIn("local"), Some("local")),
            (
                "registry.example.com/gardener-cluster-provider:v1.0.0",
                image_of("registry.example.com/gardener-cluster-provider:v1.0.0"),
                Some("gardener"),
            ),
            ("localhost/p", image_of("localhost/p"), Some("p")),
            ("registry:5000/a/b@sha256:00", image_of("registry:5000/a/b@sha256:00"), Some("b")),
            ("team/kind:v1", image_of("team/kind:v1"), Some("kind")),
            ("kind:v1", image_of("kind:v1"), Some("kind")),
            ("planes.py", PackageRef::Executable("planes.py"), Some("planes")),
            ("cluster-provider-kind", PackageRef::Executable("cluster-provider-kind"), Some("kind")),
            ("sub/planes", PackageRef::Executable("sub/planes"), Some("planes")),
            ("./sub.d/planes", PackageRef::Executable("./sub.d/planes"), Some("planes")),
            ("../up", PackageRef::Executable("../up"), Some("up")),
            ("/opt/providers/a_b.py", PackageRef::Executable("/opt/providers/a_b.py"), Some("a-b")),
            ("/opt/.hidden", PackageRef::Executable("/opt/.hidden"), None),
            ("./provider-", PackageRef::Executable("./provider-"), None),
            ("Ünicode", PackageRef::Executable("Ünicode"), None),
        ] {
            let read = PackageRef::parse(package);
            assert_eq!(read, expect, "{package}");
            assert_eq!(read.provider().as_deref(), provider, "{package}");
        }
    }

    fn image_of(text: &str) -> PackageRef<'_> {
        PackageRef::Image(text)
    }

    #[test]
    fn a_package_elsewhere_owns_a_group_that_is_nobody_elses() {
        let built_in = ["builtin:local", "builtin:existing"];
        let group = |name: &str, package: &str| outside_group(name, PackageRef::parse(package), &built_in);
        assert_eq!(group("p", "planes.py"), Ok("planes.cluster.openmcp.cloud".to_owned()));
        for (name, package, says) in [
            ("p", "builtin:moon", "there is builtin:local, builtin:existing"),
            ("p", "local", "that of builtin:local"),
            ("p", "registry.example.com/existing-provider:v2", "that of builtin:existing"),
            ("p", "a b", "no DNS label"),
            (&"p".repeat(64), "planes.py", "at most 63"),
        ] {
            let refusal = group(name, package).expect_err(package);
            assert_eq!(refusal.reason, ProviderReason::PackageNotAllowed, "{package}");
            assert!(refusal.message.contains(says), "{package}: {}", refusal.message);
        }
    }
}
