//! `allot simulate`: what would come of more requests, or of changes, on a copy of what is there. Everything is read
//! once and nothing is written; the decisions are those of `allotment_core`.

use std::collections::{BTreeMap, BTreeSet};

use allotment_admission::{Caller, Config, Denial, Operation, Request, review};
use allotment_api::names;
use allotment_api::reasons::Verdict;
use allotment_api::requests::{
    Cluster, ClusterProvider, ClusterRequest, ClusterRequestGrant, ClusterRequestSpec, Purpose, TraitEquivalence,
};
use allotment_core::requests::{Fate, Object, Snapshot, Trial};
use allotment_core::write::ObjectKey;
use anyhow::{Context as _, anyhow, bail};
use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::reading::{self, Unread};
use super::shape;
use crate::cli::{ExplainFormat, Simulate, Target};
use crate::client::Platform;
use crate::exit::Outcome;
use crate::output;
use crate::platform::seams;

/// What the requests are called that are added.
const STEM: &str = "simulated";
/// Most rows of a table for people; JSON has all.
const MOST_ROWS: usize = 20;

/// Simulates.
pub(crate) async fn run(target: &Target, arguments: Simulate) -> Outcome {
    let asked = arguments.file.is_some() || !arguments.shape.purposes.is_empty();
    let manifest = match asked {
        true => Some(shape::manifest(arguments.file.as_deref(), &arguments.shape)?),
        false => None,
    };
    let purposes = purposes(&arguments)?;
    let platform = Platform::connect(target).await?;
    let own = manifest.as_ref().and_then(|manifest| manifest["metadata"]["namespace"].as_str());
    let namespace = arguments.namespace.as_deref().or(own).unwrap_or(&platform.namespace).to_owned();

    let deadline = i64::try_from(arguments.provisioning_deadline.as_secs()).unwrap_or(i64::MAX);
    let snapshot = read(&platform, Snapshot::with_provisioning_deadline(deadline)).await?;
    let spec = match &manifest {
        Some(manifest) => Some(judged(&snapshot, manifest, &namespace)?),
        None => None,
    };
    let mut trial = Trial::new(snapshot, seams().now());
    let waiting: Vec<ObjectKey> = trial.snapshot().waiting().cloned().collect();
    change(&mut trial, &arguments, purposes)?;
    let count = usize::try_from(arguments.count).unwrap_or(usize::MAX);
    let keys = spec.as_ref().map_or_else(Vec::new, |spec| trial.ask(&namespace, STEM, spec, count));
    trial.run().context("the simulation comes to no end; please report this")?;

    let report = Report::of(&trial, &keys, &waiting);
    match arguments.output {
        ExplainFormat::Json => {
            output::data(&serde_json::to_string_pretty(&report.as_value(&namespace, spec.as_ref()))?)
        }
        ExplainFormat::Yaml => output::data(&output::yaml(&report.as_value(&namespace, spec.as_ref()))?),
        ExplainFormat::Text => output::data(&report.as_text(&namespace, spec.as_ref())),
    }
}

fn purposes(arguments: &Simulate) -> anyhow::Result<Vec<Purpose>> {
    let mut purposes = Vec::new();
    for path in &arguments.purpose_file {
        for document in shape::documents(path, "Purpose")? {
            let name = document["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            if name.is_empty() {
                bail!("{}: metadata.name of a Purpose is missing", path.display());
            }
            admitted("Purpose", &name, "", &document, None).with_context(|| path.display().to_string())?;
            let read = serde_json::from_value(document);
            purposes.push(read.with_context(|| format!("{}: Purpose {name} cannot be read", path.display()))?);
        }
    }
    Ok(purposes)
}

/// What the requests ask for, if the platform would take them.
fn judged(snapshot: &Snapshot, manifest: &Value, namespace: &str) -> anyhow::Result<ClusterRequestSpec> {
    if !snapshot.has_namespace(namespace) {
        bail!("there is no namespace {namespace:?}, and so no ClusterRequest in it; make it, or name another by -n");
    }
    let read = serde_json::from_value(manifest["spec"].clone());
    let spec: ClusterRequestSpec = read.context("the spec of the ClusterRequest cannot be read")?;
    admitted("ClusterRequest", STEM, namespace, manifest, Some(snapshot))?;
    Ok(spec)
}

/// Asks the platform's admission, in this process; its warnings are told.
fn admitted(
    kind: &str,
    name: &str,
    namespace: &str,
    object: &Value,
    snapshot: Option<&Snapshot>,
) -> anyhow::Result<()> {
    let request = Request {
        operation: Operation::Create,
        group: names::GROUP,
        kind,
        resource: "",
        subresource: "",
        namespace,
        name,
        object,
        old_object: &Value::Null,
        caller: &Caller::default(),
        dry_run: false,
        now: seams().now(),
    };
    match review(&Config::default(), snapshot, &request) {
        Ok(reviewed) => {
            reviewed.warnings.iter().for_each(|warning| output::note(&format!("warning: {warning}")));
            Ok(())
        }
        Err(Denial::Invalid(errors)) => {
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            Err(anyhow!("the {kind} would be refused: {}", texts.join("; ")))
        }
        Err(Denial::Forbidden(why)) => Err(anyhow!("the {kind} would be refused: {why}")),
    }
}

/// Reads all that decisions about requests read. Requests come before their Grants, and these before their Clusters,
/// so that nobody who is bound meanwhile looks as if nothing had been given.
async fn read(platform: &Platform, snapshot: Snapshot) -> anyhow::Result<Snapshot> {
    let snapshot = std::cell::RefCell::new(snapshot);
    let take = |namespace: PartialObjectMeta<Namespace>| {
        let (name, labels) = (namespace.name_any(), namespace.labels().clone());
        snapshot.borrow_mut().apply(Object::Namespace { name, labels });
    };
    reading::each_metadata::<Namespace>(platform, None, || {}, take).await.map_err(rights)?;
    into(platform, &snapshot, |provider: ClusterProvider| Object::Provider(Box::new(provider))).await?;
    into(platform, &snapshot, |purpose: Purpose| Object::Purpose(Box::new(purpose))).await?;
    into(platform, &snapshot, |same: TraitEquivalence| Object::Equivalence(Box::new(same))).await?;
    into(platform, &snapshot, |request: ClusterRequest| Object::Request(Box::new(request))).await?;
    into(platform, &snapshot, |grant: ClusterRequestGrant| Object::Grant(Box::new(grant))).await?;
    into(platform, &snapshot, |cluster: Cluster| Object::Cluster(Box::new(cluster))).await?;
    Ok(snapshot.into_inner())
}

/// Reads a kind into the snapshot. A list that is begun anew overwrites; what went meanwhile stays, as it would in a
/// copy that is a moment older.
async fn into<K>(
    platform: &Platform,
    snapshot: &std::cell::RefCell<Snapshot>,
    object: impl Fn(K) -> Object,
) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    K::Scope: reading::Listed<K>,
{
    let take = |mut item: K| {
        item.meta_mut().managed_fields = None;
        snapshot.borrow_mut().apply(object(item));
    };
    reading::each::<K>(platform, None, || {}, take).await.map_err(rights)
}

fn rights(unread: Unread) -> anyhow::Error {
    match unread {
        Unread::Forbidden(why) => {
            anyhow!("{why}; a simulation has to see all that decisions rest on: `allot help simulate` lists the rights")
        }
        Unread::Failed(error) => error,
    }
}

fn change(trial: &mut Trial, arguments: &Simulate, purposes: Vec<Purpose>) -> anyhow::Result<()> {
    for purpose in purposes {
        trial.put(Object::Purpose(Box::new(purpose)));
    }
    for cluster in &arguments.drain {
        let there = ObjectKey::parse(cluster).is_some_and(|key| trial.drain(&key));
        if !there {
            bail!("--drain: there is no Cluster {cluster}; `allot tree` lists them");
        }
    }
    for provider in &arguments.without_provider {
        if !trial.stop_provider(provider) {
            bail!("--without-provider: there is no ClusterProvider {provider}; `allot top providers` lists them");
        }
    }
    Ok(())
}

/// What became of some requests.
#[derive(Debug, Default)]
struct Tally {
    count: usize,
    granted: usize,
    /// By verdict, reason and the Purposes that the message names: how many, and the message of the first.
    refused: BTreeMap<(&'static str, String, BTreeSet<String>), (usize, String)>,
    /// By Cluster.
    on: BTreeMap<String, usize>,
}

impl Tally {
    fn of(trial: &Trial, keys: &[ObjectKey]) -> Self {
        let mut tally = Tally { count: keys.len(), ..Tally::default() };
        for key in keys {
            let (verdict, reason, message) = match trial.fate(key) {
                Fate::Granted { cluster } => {
                    tally.granted += 1;
                    *tally.on.entry(cluster.to_string()).or_default() += 1;
                    continue;
                }
                Fate::Refused { verdict, reason, message } => (verdict.as_str(), reason, message),
                Fate::Undecided => (Verdict::Pending.as_str(), "Scheduling".to_owned(), "not decided".to_owned()),
            };
            tally.refuse(verdict, reason, message);
        }
        tally
    }

    /// Counts one that is not granted. Which limit to raise depends on the Purpose, so each is told by itself.
    fn refuse(&mut self, verdict: &'static str, reason: String, message: String) {
        let about = purposes_named(&message);
        self.refused.entry((verdict, reason, about)).or_insert_with(|| (0, message)).0 += 1;
    }

    fn with(&self, verdict: Verdict) -> usize {
        let of_it = self.refused.iter().filter(|((found, ..), _)| *found == verdict.as_str());
        of_it.map(|(_, (count, _))| count).sum()
    }

    fn as_value(&self) -> Value {
        let reasons: Vec<Value> = self
            .refused
            .iter()
            .map(|((verdict, reason, _), (count, message))| {
                json!({"status": verdict, "reason": reason, "count": count, "message": message})
            })
            .collect();
        json!({"count": self.count, "granted": self.granted, "denied": self.with(Verdict::Denied),
            "pending": self.with(Verdict::Pending), "reasons": reasons})
    }
}

/// The Purposes that a message names.
fn purposes_named(message: &str) -> BTreeSet<String> {
    let named = message.split("urpose \"").skip(1);
    named.filter_map(|rest| rest.split_once('"')).map(|(name, _)| name.to_owned()).collect()
}

/// A kind of Cluster that is made: how many there are, and how many of the requests are on them.
#[derive(Debug, Default, Clone, Copy)]
struct Made {
    clusters: usize,
    requests: usize,
    spares: usize,
}

/// What came of it all.
#[derive(Debug, Default)]
struct Report {
    asked: Tally,
    waiting: Tally,
    /// By profile and purposes.
    made: BTreeMap<(String, String), Made>,
    /// Of Clusters that were there: how many requests came.
    there: BTreeMap<String, usize>,
}

impl Report {
    fn of(trial: &Trial, keys: &[ObjectKey], waiting: &[ObjectKey]) -> Self {
        let (asked, waiting) = (Tally::of(trial, keys), Tally::of(trial, waiting));
        let mut there: BTreeMap<String, usize> = BTreeMap::new();
        for (cluster, count) in asked.on.iter().chain(&waiting.on) {
            *there.entry(cluster.clone()).or_default() += count;
        }
        let mut made: BTreeMap<(String, String), Made> = BTreeMap::new();
        for key in trial.made() {
            let Some(cluster) = trial.snapshot().cluster(key) else { continue };
            let of = &cluster.spec.cluster_provider_ref;
            let kind = (format!("{}/{}", of.name, of.profile), cluster.spec.purposes.join(", "));
            let entry = made.entry(kind).or_default();
            entry.clusters += 1;
            entry.requests += there.remove(&key.to_string()).unwrap_or(0);
            entry.spares += usize::from(cluster.annotations().contains_key(names::SPARE));
        }
        Report { asked, waiting, made, there }
    }

    fn as_value(&self, namespace: &str, spec: Option<&ClusterRequestSpec>) -> Value {
        let made: Vec<Value> = self
            .made
            .iter()
            .map(|((profile, purposes), made)| {
                let purposes: Vec<&str> = purposes.split(", ").collect();
                json!({"profile": profile, "purposes": purposes, "clusters": made.clusters,
                    "requests": made.requests, "spares": made.spares})
            })
            .collect();
        let there: Vec<Value> =
            self.there.iter().map(|(cluster, count)| json!({"cluster": cluster, "requests": count})).collect();
        json!({"namespace": namespace, "shape": spec, "requests": self.asked.as_value(), "newClusters": made,
            "existingClusters": there, "waitingBefore": self.waiting.as_value()})
    }

    fn as_text(&self, namespace: &str, spec: Option<&ClusterRequestSpec>) -> String {
        let mut lines = Vec::new();
        if let Some(spec) = spec {
            let purposes = spec.purposes.join(", ");
            lines.push(format!(
                "{} more in namespace {namespace} for {purposes}",
                output::counted(self.asked.count, "request")
            ));
            lines.extend(self.outcome(&self.asked));
        }
        if self.waiting.count > 0 {
            lines.push(format!("{}, not granted as things are", output::counted(self.waiting.count, "request")));
            lines.extend(self.outcome(&self.waiting));
        }
        let (clusters, spares) = self
            .made
            .values()
            .fold((0, 0), |(clusters, spares), made| (clusters + made.clusters, spares + made.spares));
        match (clusters, spares) {
            (0, _) => lines.push("no new Cluster".to_owned()),
            (_, 0) => lines.push(output::counted(clusters, "new Cluster")),
            _ => lines.push(format!("{}, of them spares: {spares}", output::counted(clusters, "new Cluster"))),
        }
        if !self.made.is_empty() {
            let rows: Vec<Vec<String>> = self
                .made
                .iter()
                .map(|((profile, purposes), made)| {
                    let numbers = [made.clusters, made.spares, made.requests].map(|number| number.to_string());
                    [vec![profile.clone(), purposes.clone()], numbers.to_vec()].concat()
                })
                .collect();
            lines.push(String::new());
            lines.push(output::table(&["NEW FROM PROFILE", "PURPOSES", "CLUSTERS", "SPARES", "REQUESTS"], &rows));
        }
        if !self.there.is_empty() {
            let mut most: Vec<(&String, &usize)> = self.there.iter().collect();
            most.sort_by_key(|(cluster, count)| (std::cmp::Reverse(**count), *cluster));
            let rows: Vec<Vec<String>> = most
                .iter()
                .take(MOST_ROWS)
                .map(|(cluster, count)| vec![(*cluster).clone(), count.to_string()])
                .collect();
            lines.push(String::new());
            lines.push(output::table(&["CLUSTER THAT IS THERE", "REQUESTS"], &rows));
            if most.len() > MOST_ROWS {
                lines.push(format!("and {} more Clusters; -o json lists all", most.len() - MOST_ROWS));
            }
        }
        lines.join("\n")
    }

    fn outcome(&self, tally: &Tally) -> Vec<String> {
        let there: usize =
            tally.on.iter().filter(|(cluster, _)| self.there.contains_key(*cluster)).map(|on| on.1).sum();
        let mut lines = vec![format!(
            "  granted   {}: {there} on Clusters that are there, {} on new ones",
            tally.granted,
            tally.granted - there
        )];
        for ((verdict, reason, _), (count, message)) in &tally.refused {
            lines.push(format!("  {:<9} {count}: {reason}: {message}", verdict.to_lowercase()));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_in_a_namespace_that_is_not_there_are_refused_by_its_name() {
        let mut snapshot = Snapshot::new();
        snapshot.apply(Object::Namespace { name: "team".to_owned(), labels: BTreeMap::new() });
        let manifest = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterRequest",
            "metadata": {"name": STEM}, "spec": {"purposes": ["mcp"]}});
        judged(&snapshot, &manifest, "team").expect("it is there");
        let error = judged(&snapshot, &manifest, "typo").expect_err("it is not there").to_string();
        assert!(error.starts_with("there is no namespace \"typo\""), "{error}");
    }

    #[test]
    fn each_purpose_is_told_of_by_itself() {
        let mut tally = Tally::default();
        let full = |count: usize, name: &str| {
            format!(
                "no Cluster takes the request, and {count} with purpose {name:?} are as many as its maxClusters allows"
            )
        };
        for (count, name) in [(2, "own"), (20, "few"), (20, "few")] {
            tally.refuse("Pending", "MaxClustersReached".to_owned(), full(count, name));
        }
        tally.refuse("Denied", "UnknownPurpose".to_owned(), "there is no Purpose \"few\"".to_owned());
        tally.refuse("Pending", "Scheduling".to_owned(), "not decided".to_owned());
        let value = tally.as_value();
        let told: Vec<(u64, &str)> = value["reasons"]
            .as_array()
            .expect("reasons")
            .iter()
            .map(|told| (told["count"].as_u64().expect("a number"), told["message"].as_str().expect("text")))
            .collect();
        let expect = [
            (1, "there is no Purpose \"few\"".to_owned()),
            (2, full(20, "few")),
            (1, full(2, "own")),
            (1, "not decided".to_owned()),
        ];
        assert_eq!(told, expect.each_ref().map(|(count, message)| (*count, message.as_str())));
        assert_eq!((&value["denied"], &value["pending"]), (&json!(1), &json!(4)));
    }
}
