//! `allot simulate`: what would come of more requests, or of changes, on a copy of what is there. Everything is read
//! once and nothing is written; the decisions are those of `allotment_core`.

use std::sync::Arc;

use std::cmp::Reverse;
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
use serde_json::{Value, json};

use super::reading::{self, Listed, Part, Unread, quiet};
use super::shape;
use crate::cli::{ExplainFormat, Simulate, Target};
use crate::client::Platform;
use crate::exit::Outcome;
use crate::output;
use crate::platform::seams;
use crate::progress::Progress;

/// What the requests are called that are added.
const STEM: &str = "simulated";
/// Most rows of a table for people; JSON has all.
const MOST_ROWS: usize = 20;
/// Decisions between two words of how far it has come.
const TOLD_EVERY: usize = 100;

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
    let progress = Progress::start();
    let read = read(&platform, Snapshot::with_provisioning_deadline(deadline), &progress).await?;
    let Read { snapshot, going } = read;
    if manifest.is_some() {
        takes_requests(&snapshot, &going, &namespace)?;
    }
    let spec = match &manifest {
        Some(manifest) => Some(judged(&snapshot, manifest, &namespace)?),
        None => None,
    };
    let mut trial = Trial::new(snapshot, seams().now());
    let waiting: Vec<ObjectKey> = trial.snapshot().waiting().cloned().collect();
    change(&mut trial, &arguments, purposes)?;
    let count = usize::try_from(arguments.count).unwrap_or(usize::MAX);
    let keys = spec.as_ref().map_or_else(Vec::new, |spec| trial.ask(&namespace, STEM, spec, count));
    let told = |decided: usize, due: usize| {
        if decided.is_multiple_of(TOLD_EVERY) {
            progress.hint(format!("decided {decided} requests, {due} are due"));
        }
    };
    trial.run_telling(told).context("the simulation comes to no end; please report this")?;
    progress.end();

    let report = Report::of(&trial, &keys, &waiting);
    match arguments.output {
        ExplainFormat::Json => output::data(&output::json(&report.as_value(&namespace, spec.as_ref()))?),
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

/// Whether a namespace takes new requests, in the words of the API where it does not.
fn takes_requests(snapshot: &Snapshot, going: &BTreeSet<String>, namespace: &str) -> anyhow::Result<()> {
    if !snapshot.has_namespace(namespace) {
        bail!(
            "a ClusterRequest in namespace {namespace} would be refused: namespaces {namespace:?} not found; make it \
             first, or name another namespace with -n"
        );
    }
    if going.contains(namespace) {
        bail!(
            "a ClusterRequest in namespace {namespace} would be refused: unable to create new content in namespace \
             {namespace} because it is being terminated; name another namespace with -n"
        );
    }
    Ok(())
}

/// What the requests ask for, if the platform would take them.
fn judged(snapshot: &Snapshot, manifest: &Value, namespace: &str) -> anyhow::Result<ClusterRequestSpec> {
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
async fn read(platform: &Platform, snapshot: Snapshot, progress: &Progress) -> anyhow::Result<Read> {
    let mut going = BTreeSet::new();
    let mut reader = Reader { platform, snapshot, progress };
    let namespace = |namespace: PartialObjectMeta<Namespace>| {
        let (name, labels) = (namespace.name_any(), namespace.labels().clone());
        if namespace.metadata.deletion_timestamp.is_some() {
            going.insert(name.clone());
        }
        Object::Namespace { name, labels }
    };
    reader.take::<Namespace, _>(namespace).await?;
    reader.take::<ClusterProvider, _>(|provider: ClusterProvider| Object::Provider(Arc::new(quiet(provider)))).await?;
    reader.take::<Purpose, _>(|purpose: Purpose| Object::Purpose(Arc::new(quiet(purpose)))).await?;
    reader.take::<TraitEquivalence, _>(|same: TraitEquivalence| Object::Equivalence(Arc::new(quiet(same)))).await?;
    reader.take::<ClusterRequest, _>(|request: ClusterRequest| Object::Request(Arc::new(quiet(request)))).await?;
    reader.take::<ClusterRequestGrant, _>(|grant: ClusterRequestGrant| Object::Grant(Arc::new(quiet(grant)))).await?;
    reader.take::<Cluster, _>(|cluster: Cluster| Object::Cluster(Arc::new(quiet(cluster)))).await?;
    Ok(Read { snapshot: reader.snapshot, going })
}

/// What is there.
struct Read {
    snapshot: Snapshot,
    /// Namespaces that are being deleted, and take nothing new.
    going: BTreeSet<String>,
}

/// Reads one kind after another into a snapshot.
struct Reader<'a> {
    platform: &'a Platform,
    snapshot: Snapshot,
    progress: &'a Progress,
}

impl Reader<'_> {
    async fn take<K, T>(&mut self, object: impl FnMut(T) -> Object) -> anyhow::Result<()>
    where
        K: Resource<DynamicType = ()>,
        K::Scope: Listed<K>,
        T: Part<K>,
    {
        let told = |count: usize| self.progress.hint(format!("reading {}: {count}", K::plural(&())));
        let objects = reading::each::<K, T, Object>(self.platform, None, object, told).await.map_err(rights)?;
        objects.into_iter().for_each(|object| self.snapshot.apply(object));
        Ok(())
    }
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
        trial.put(Object::Purpose(Arc::new(purpose)));
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
    refused: BTreeMap<Refused, usize>,
    /// By Cluster.
    on: BTreeMap<String, usize>,
}

/// What requests have in common that are told of together. Which limit to raise, or what to ask for instead, depends on
/// the Purposes and on the whole message, so none is told in another's words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Refused {
    verdict: &'static str,
    reason: String,
    purposes: Vec<String>,
    message: String,
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
            let purposes = trial.snapshot().request(key).map(|request| request.spec.purposes.clone());
            let refused = Refused { verdict, reason, purposes: purposes.unwrap_or_default(), message };
            *tally.refused.entry(refused).or_default() += 1;
        }
        tally
    }

    fn with(&self, verdict: Verdict) -> usize {
        self.refused.iter().filter(|(refused, _)| refused.verdict == verdict.as_str()).map(|(_, count)| count).sum()
    }

    /// Why requests are not granted, what concerns most of them first.
    fn reasons(&self) -> Vec<(&Refused, usize)> {
        let mut reasons: Vec<(&Refused, usize)> =
            self.refused.iter().map(|(refused, count)| (refused, *count)).collect();
        reasons.sort_by_key(|(refused, count)| (refused.verdict, Reverse(*count)));
        reasons
    }

    fn as_value(&self) -> Value {
        let reason = |(refused, count): (&Refused, usize)| {
            let Refused { verdict, reason, purposes, message } = refused;
            json!({"status": verdict, "reason": reason, "purposes": purposes, "count": count, "message": message})
        };
        let reasons: Vec<Value> = self.reasons().into_iter().map(reason).collect();
        json!({"count": self.count, "granted": self.granted, "denied": self.with(Verdict::Denied),
            "pending": self.with(Verdict::Pending), "reasons": reasons})
    }

    /// The same for people. Whose purposes differ is told of with them.
    fn as_lines(&self) -> Vec<String> {
        let reasons = self.reasons();
        let mixed = reasons.iter().any(|(refused, _)| refused.purposes != reasons[0].0.purposes);
        let line = |(refused, count): &(&Refused, usize)| {
            let Refused { verdict, reason, purposes, message } = refused;
            let asked = if mixed { format!(" for {}", purposes.join(", ")) } else { String::new() };
            format!("  {:<9} {count}{asked}: {reason}: {message}", verdict.to_lowercase())
        };
        let mut lines: Vec<String> = reasons.iter().take(MOST_ROWS).map(line).collect();
        if reasons.len() > MOST_ROWS {
            let others = &reasons[MOST_ROWS..];
            let requests: usize = others.iter().map(|(_, count)| count).sum();
            let (reasons, requests) = (output::counted(others.len(), "reason"), output::counted(requests, "request"));
            lines.push(format!("  and {reasons} of {requests} more; -o json lists all"));
        }
        lines
    }
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
        if spec.is_none() && self.waiting.count == 0 {
            lines.push("no request waits".to_owned());
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
            most.sort_by_key(|(cluster, count)| (Reverse(**count), *cluster));
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
        lines.extend(tally.as_lines());
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_in_a_namespace_that_is_not_there_are_refused_in_the_words_of_the_api() {
        let mut snapshot = Snapshot::new();
        for name in ["team", "old"] {
            snapshot.apply(Object::Namespace { name: name.to_owned(), labels: BTreeMap::new() });
        }
        let going = BTreeSet::from(["old".to_owned()]);
        let check = |namespace: &str, expect: Option<&str>| {
            let taken = takes_requests(&snapshot, &going, namespace).map_err(|error| error.to_string());
            match (taken, expect) {
                (Ok(()), None) => {}
                (Err(text), Some(part)) if text.contains(part) => {}
                (taken, _) => panic!("{namespace}: {taken:?}"),
            }
        };
        check("team", None);
        check("typo", Some("namespaces \"typo\" not found; make it first"));
        check("old", Some("unable to create new content in namespace old because it is being terminated"));
    }

    fn refused(verdict: &'static str, reason: &str, purposes: &[&str], message: &str) -> Refused {
        let purposes = purposes.iter().map(|name| (*name).to_owned()).collect();
        Refused { verdict, reason: reason.to_owned(), purposes, message: message.to_owned() }
    }

    #[test]
    fn nobody_is_told_of_in_anothers_words() {
        let full = |count: usize, name: &str| {
            format!(
                "no Cluster takes the request, and {count} with purpose {name:?} are as many as its maxClusters allows"
            )
        };
        let mut tally = Tally { count: 8, ..Tally::default() };
        for (purposes, message, count) in
            [(&["own"][..], full(2, "own"), 1), (&["few"], full(20, "few"), 3), (&["few", "own"], full(20, "few"), 1)]
        {
            tally.refused.insert(refused("Pending", "MaxClustersReached", purposes, &message), count);
        }
        // The same reason and purpose, and yet not the same thing to do.
        for name in ["x/y", "z/z"] {
            let message = format!("no profile of a provider that is ready has {name:?}");
            tally.refused.insert(refused("Denied", "NoProfileWithTrait", &["own"], &message), 1);
        }
        let expect = [
            "  denied    1 for own: NoProfileWithTrait: no profile of a provider that is ready has \"x/y\"".to_owned(),
            "  denied    1 for own: NoProfileWithTrait: no profile of a provider that is ready has \"z/z\"".to_owned(),
            format!("  pending   3 for few: MaxClustersReached: {}", full(20, "few")),
            format!("  pending   1 for few, own: MaxClustersReached: {}", full(20, "few")),
            format!("  pending   1 for own: MaxClustersReached: {}", full(2, "own")),
        ];
        assert_eq!(tally.as_lines(), expect);
        let value = tally.as_value();
        assert_eq!((&value["denied"], &value["pending"]), (&json!(2), &json!(5)));
        assert_eq!(value["reasons"][2]["purposes"], json!(["few"]));
        for number in 0..MOST_ROWS {
            tally.refused.insert(refused("Pending", "Scheduling", &["own"], &number.to_string()), 2);
        }
        let lines = tally.as_lines();
        assert_eq!(lines.len(), MOST_ROWS + 1);
        assert_eq!(lines[MOST_ROWS], "  and 5 reasons of 8 requests more; -o json lists all");
    }
}
