//! Provider `kind`: what is asked of the kind command, and what is made of its answers. Running it is the controllers'
//! part. Source: `kind --help` of kind v0.20 and newer (<https://kind.sigs.k8s.io>), whose command line is stable.

use std::collections::BTreeSet;
use std::time::Duration;

use allotment_api::names::FORCE_DELETE;
use allotment_api::reasons::ClusterConditionReason;
use allotment_api::requests::{KindConfigSpec, KindVersion};
use serde_json::json;

use super::{Health, Sight};
use crate::requests::Version;

/// The node images that the release notes of kind v0.30.0 name, oldest first.
const IMAGES: [&str; 4] = ["1.31.12", "1.32.8", "1.33.4", "1.34.0"];
/// Traits of every cluster of this provider: it runs Pods, and where it runs.
const TRAITS: [&str; 2] = ["kubernetes.io/apis/compute", "infrastructure/vendor/kind"];
/// Most clusters at a time of a ProviderConfig that does not say: each is a container with half a gigabyte of memory.
const MOST_CLUSTERS: i32 = 8;
/// The first wait before a cluster is made again; it doubles up to the longest.
const FIRST_RETRY: Duration = Duration::from_secs(5);
const LONGEST_RETRY: Duration = Duration::from_secs(300);
/// How long a deletion may run, or wait for its turn, before a Cluster that is deleted by force goes without it.
pub const FORCED_WAIT: Duration = Duration::from_secs(30);
/// How much of what a command complains of is shown.
const MOST_COMPLAINT: usize = 300;

/// The versions that a ProviderConfig offers, with their node images, oldest first; and what is wrong with it.
pub fn kind_versions(spec: &KindConfigSpec) -> (Vec<KindVersion>, Option<String>) {
    let named = |version: &str| KindVersion { version: version.to_owned(), image: None, deprecated: false };
    let asked: Vec<KindVersion> =
        if spec.versions.is_empty() { IMAGES.map(named).to_vec() } else { spec.versions.clone() };
    let is_full = |offer: &&KindVersion| Version::parse(&offer.version).is_some_and(|version| version.is_full());
    let wrong = asked.iter().find(|offer| !is_full(offer));
    let trouble = wrong.map(|offer| format!("spec.versions: {:?} is no full version like \"1.34.0\"", offer.version));
    let mut versions: Vec<(Option<Version>, KindVersion)> =
        asked.iter().filter(is_full).map(|offer| (Version::parse(&offer.version), without_v(offer))).collect();
    versions.sort_by(|left, right| left.0.cmp(&right.0));
    versions.dedup_by(|left, right| left.0 == right.0);
    (versions.into_iter().map(|(_, offer)| offer).collect(), trouble)
}

fn without_v(offer: &KindVersion) -> KindVersion {
    let version = offer.version.strip_prefix('v').unwrap_or(&offer.version).to_owned();
    KindVersion { version, ..offer.clone() }
}

/// The traits of a ProviderConfig's clusters.
pub fn kind_traits(spec: &KindConfigSpec) -> Vec<String> {
    let all: BTreeSet<String> = TRAITS.map(str::to_owned).into_iter().chain(spec.traits.iter().cloned()).collect();
    all.into_iter().collect()
}

/// Most clusters at a time of a ProviderConfig.
pub fn most_kind_clusters(spec: &KindConfigSpec) -> i32 {
    spec.max_clusters.unwrap_or(MOST_CLUSTERS)
}

/// The node image that runs a version.
pub fn kind_image(offer: &KindVersion) -> String {
    offer.image.clone().unwrap_or_else(|| format!("kindest/node:v{}", offer.version))
}

/// `kind create cluster`: the cluster's definition comes by stdin, and its kubeconfig goes into the folder that the
/// command runs in, never into that of the user.
pub fn create_arguments(name: &str, image: &str) -> Vec<String> {
    words(&[
        "create",
        "cluster",
        "--name",
        name,
        "--image",
        image,
        "--kubeconfig",
        "kubeconfig",
        "--wait",
        "5m",
        "--config",
        "-",
    ])
}

/// `kind delete cluster`. One that is not there is no error.
pub fn delete_arguments(name: &str) -> Vec<String> {
    words(&["delete", "cluster", "--name", name, "--kubeconfig", "kubeconfig"])
}

/// `kind get kubeconfig`.
pub fn kubeconfig_arguments(name: &str) -> Vec<String> {
    words(&["get", "kubeconfig", "--name", name])
}

/// `kind get clusters`. It asks what runs the containers, so it tells as well whether that is there.
pub fn list_arguments() -> Vec<String> {
    words(&["get", "clusters"])
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The definition of a cluster with so many nodes beside its control plane's, as JSON, which is YAML.
pub fn kind_definition(workers: i32) -> String {
    let role = |role: &str| json!({ "role": role });
    let workers = (0..workers.max(0)).map(|_| role("worker"));
    let nodes: Vec<_> = std::iter::once(role("control-plane")).chain(workers).collect();
    json!({"kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4", "nodes": nodes}).to_string()
}

/// The names that `kind get clusters` printed. That there is none it says on stderr.
pub fn listed(stdout: &str) -> BTreeSet<String> {
    stdout.lines().map(str::trim).filter(|name| !name.is_empty() && !name.contains(' ')).map(str::to_owned).collect()
}

/// What a command complained of, on one line: what stands after the last `ERROR:`, else the last line.
pub fn complaint(stderr: &str) -> String {
    let plain = without_colours(stderr);
    let lines = plain.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>();
    let error = lines.iter().rev().find_map(|line| line.strip_prefix("ERROR:"));
    let text = error.or(lines.last().copied()).unwrap_or("it says nothing").trim();
    let mut end = text.len().min(MOST_COMPLAINT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// Text without the sequences by which terminals change colours.
fn without_colours(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            characters.by_ref().find(char::is_ascii_alphabetic);
        } else {
            out.push(character);
        }
    }
    out
}

/// How long to wait before a cluster is made again, after that many failures.
pub fn make_again(failures: u32) -> Duration {
    FIRST_RETRY.saturating_mul(1 << failures.saturating_sub(1).min(5)).min(LONGEST_RETRY)
}

/// What becomes of a command that makes or deletes a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Job {
    /// None runs, and none of this process has.
    #[default]
    None,
    /// It runs, or waits for its turn.
    Running {
        /// It makes the cluster, and does not delete it.
        makes: bool,
        /// Longer than is waited for where the Cluster is deleted by force ([`FORCED_WAIT`]).
        long: bool,
    },
    /// It failed.
    Failed {
        /// It was to make the cluster, and not to delete it.
        made: bool,
        /// What it complained of, for people.
        message: String,
        /// It is time to try again.
        due: bool,
    },
}

/// What is known when a Cluster of provider `kind` is served.
#[derive(Clone, Debug)]
pub struct KindObserved<'a> {
    /// The Cluster is being deleted.
    pub going: bool,
    /// Why its version cannot be made, where it cannot.
    pub not_offered: Option<&'a str>,
    /// Whether there is a record of it, and if so, whether its kubeconfig is in it.
    pub recorded: Option<bool>,
    /// The command that makes it.
    pub job: &'a Job,
    /// What was seen of it last.
    pub sight: &'a Sight,
    /// Whether kind knows it, if that is known.
    pub listed: Option<bool>,
}

/// The next step towards serving a Cluster of provider `kind`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindPlan {
    /// Nothing; so it does.
    Say(Health),
    /// Note that it is about to be made, so that it is found and taken away whatever happens.
    Record,
    /// Have kind make it, from nothing.
    Make,
}

/// The next step towards serving a Cluster of provider `kind`.
pub fn decide_kind(observed: &KindObserved<'_>) -> KindPlan {
    let progressing = |message: &str| KindPlan::Say(Health::Progressing { message: message.to_owned() });
    let unhealthy = |reason, message: &str| KindPlan::Say(Health::Unhealthy { reason, message: message.to_owned() });
    match (observed.recorded, observed.job) {
        (None, _) if observed.going => progressing("the cluster was never made, and the Cluster is being deleted"),
        (None, _) => match observed.not_offered {
            Some(message) => unhealthy(ClusterConditionReason::VersionNotOffered, message),
            None => KindPlan::Record,
        },
        (Some(false), Job::Running { .. }) => progressing("kind makes the cluster"),
        (Some(false), Job::Failed { message, due: false, .. }) => unhealthy(ClusterConditionReason::Failed, message),
        (Some(false), Job::None | Job::Failed { due: true, .. }) if observed.going => {
            progressing("the cluster was not made, and the Cluster is being deleted")
        }
        (Some(false), Job::None | Job::Failed { due: true, .. }) => KindPlan::Make,
        (Some(true), _) => match observed.sight {
            Sight::Seen(seen) => KindPlan::Say(Health::Healthy { version: seen.version.clone() }),
            Sight::NotLooked => progressing("the cluster is being looked at"),
            Sight::NotUsable { .. } | Sight::Unreachable { .. } | Sight::Refused { .. }
                if observed.listed == Some(false) =>
            {
                let message = "kind does not know the cluster any more: somebody deleted it; delete the Cluster";
                unhealthy(ClusterConditionReason::Failed, message)
            }
            other => {
                let (reason, message) = other.trouble().unwrap_or((ClusterConditionReason::NotHealthy, ""));
                unhealthy(reason, message)
            }
        },
    }
}

/// The next step towards taking the cluster of a Cluster away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindRemoval {
    /// Wait for the command that runs.
    Wait,
    /// End the command that runs, with all that it started; what it left is deleted next.
    EndJob,
    /// Have kind delete it.
    Delete,
    /// Tell that it may be left, and forget it.
    LeaveBehind {
        /// Why it could not be deleted, for people.
        why: String,
    },
    /// It waits to be tried again; say why it does not go.
    Say {
        /// For people.
        message: String,
    },
}

/// The next step towards taking the cluster of a Cluster away, of which there is a record.
pub fn decide_kind_removal(job: &Job, forced: bool) -> KindRemoval {
    match job {
        // What it has started would outlive it; by force nobody waits a quarter of an hour for that.
        Job::Running { makes: true, .. } if forced => KindRemoval::EndJob,
        Job::Running { makes: false, long: true } if forced => {
            let limit = FORCED_WAIT.as_secs();
            KindRemoval::LeaveBehind { why: format!("kind delete cluster did not end within {limit} s") }
        }
        Job::Running { .. } => KindRemoval::Wait,
        Job::None | Job::Failed { due: true, .. } | Job::Failed { made: true, .. } => KindRemoval::Delete,
        Job::Failed { message, .. } if forced => KindRemoval::LeaveBehind { why: message.clone() },
        Job::Failed { message, .. } => {
            KindRemoval::Say { message: format!("{message}. Annotation {FORCE_DELETE}: \"true\" leaves it there") }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::Seen;

    fn word(plan: &KindPlan) -> String {
        match plan {
            KindPlan::Say(Health::Healthy { version }) => format!("healthy {version}"),
            KindPlan::Say(Health::Progressing { .. }) => "progressing".to_owned(),
            KindPlan::Say(Health::Unhealthy { reason, .. }) => reason.to_string(),
            KindPlan::Record => "record".to_owned(),
            KindPlan::Make => "make".to_owned(),
        }
    }

    #[test]
    fn a_cluster_is_recorded_then_made_and_made_again_after_a_while_when_that_failed() {
        let failed = |due| Job::Failed { made: true, message: "no disk".to_owned(), due };
        let seen = Sight::Seen(Seen { version: "1.34.0".to_owned(), identity: "a".to_owned(), has_nodes: true });
        let dead = Sight::Unreachable { message: "no answer".to_owned() };
        for (going, not_offered, recorded, job, sight, listed, expect) in [
            (false, None, None, Job::None, Sight::NotLooked, None, "record"),
            (false, Some("no"), None, Job::None, Sight::NotLooked, None, "VersionNotOffered"),
            (false, Some("no"), Some(true), Job::None, seen.clone(), None, "healthy 1.34.0"),
            (true, None, None, Job::None, Sight::NotLooked, None, "progressing"),
            (false, None, Some(false), Job::None, Sight::NotLooked, None, "make"),
            (
                false,
                None,
                Some(false),
                Job::Running { makes: true, long: false },
                Sight::NotLooked,
                None,
                "progressing",
            ),
            (false, None, Some(false), failed(false), Sight::NotLooked, None, "Failed"),
            (false, None, Some(false), failed(true), Sight::NotLooked, None, "make"),
            (true, None, Some(false), failed(true), Sight::NotLooked, None, "progressing"),
            (false, None, Some(true), Job::None, Sight::NotLooked, None, "progressing"),
            (false, None, Some(true), Job::None, seen, Some(false), "healthy 1.34.0"),
            (false, None, Some(true), Job::None, dead.clone(), None, "Unreachable"),
            (false, None, Some(true), Job::None, dead.clone(), Some(true), "Unreachable"),
            (false, None, Some(true), Job::None, dead, Some(false), "Failed"),
        ] {
            let observed = KindObserved { going, not_offered, recorded, job: &job, sight: &sight, listed };
            assert_eq!(word(&decide_kind(&observed)), expect, "{observed:?}");
        }
    }

    #[test]
    fn a_cluster_that_goes_is_deleted_and_by_force_nothing_that_runs_is_waited_for_long() {
        let running = |makes, long| Job::Running { makes, long };
        let failed = |made, due| Job::Failed { made, message: "no disk".to_owned(), due };
        for (job, plainly, by_force) in [
            (Job::None, "delete", "delete"),
            (running(true, false), "wait", "end"),
            (running(true, true), "wait", "end"),
            (running(false, false), "wait", "wait"),
            (running(false, true), "wait", "leave"),
            (failed(true, false), "delete", "delete"),
            (failed(true, true), "delete", "delete"),
            (failed(false, false), "say", "leave"),
            (failed(false, true), "delete", "delete"),
        ] {
            for (forced, expect) in [(false, plainly), (true, by_force)] {
                let word = match decide_kind_removal(&job, forced) {
                    KindRemoval::Wait => "wait",
                    KindRemoval::EndJob => "end",
                    KindRemoval::Delete => "delete",
                    KindRemoval::LeaveBehind { .. } => "leave",
                    KindRemoval::Say { message } => {
                        assert!(message.contains("no disk") && message.contains(FORCE_DELETE), "{message}");
                        "say"
                    }
                };
                assert_eq!(word, expect, "{job:?}, by force: {forced}");
            }
        }
    }

    #[test]
    fn versions_are_those_of_the_config_in_order_else_those_of_a_release() {
        let offer = |version: &str| KindVersion { version: version.to_owned(), ..KindVersion::default() };
        let texts =
            |spec: &KindConfigSpec| kind_versions(spec).0.into_iter().map(|offer| offer.version).collect::<Vec<_>>();
        assert_eq!(texts(&KindConfigSpec::default()), IMAGES);
        let spec = KindConfigSpec {
            versions: ["1.34.0", "v1.9.1", "1.30", "1.34.0"].map(offer).to_vec(),
            ..KindConfigSpec::default()
        };
        assert_eq!(texts(&spec), ["1.9.1", "1.34.0"]);
        assert!(kind_versions(&spec).1.expect("one is partial").contains("\"1.30\""));
        assert_eq!(kind_image(&offer("1.34.0")), "kindest/node:v1.34.0");
    }

    #[test]
    fn complaints_are_one_line_without_colours() {
        for (stderr, expect) in [
            ("", "it says nothing"),
            (
                "Creating cluster \"x\" ...\n \u{1b}[31m✗\u{1b}[0m Preparing\nERROR: failed to create cluster: no disk\n",
                "failed to create cluster: no disk",
            ),
            ("ERROR: first\nCommand Output: docker is not there\n", "first"),
            ("one\ntwo\n\n", "two"),
        ] {
            assert_eq!(complaint(stderr), expect);
        }
        assert!(complaint(&"é".repeat(500)).len() <= MOST_COMPLAINT);
    }

    #[test]
    fn names_are_read_line_by_line_and_sentences_are_none() {
        let names = listed("allot-1\n\n other \nNo kind clusters found.\n");
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["allot-1", "other"]);
        let definition = kind_definition(2);
        assert_eq!(definition.matches("worker").count(), 2);
        assert_eq!(definition.matches("control-plane").count(), 1);
    }
}
