//! A sequence put to two servers at once, and where their answers part.

use std::time::Duration;

use allotment_machinery::json::Value;
use anyhow::{Context, Result};

use crate::client::{Call, Client, Reply, Watch};
use crate::compare::{Difference, Pairs, Rules, compare_events, compare_replies};
use crate::deliberate;
use crate::sequence::{Sequence, Step, StepKind, Variables, substitute};

/// Where definitions are: one costs kube-apiserver more memory than all else of a sequence.
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// How long a state that comes by itself is waited for.
const COMES_WITHIN: Duration = Duration::from_secs(20);
/// How often is looked.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long events may lag behind the other server's.
const EVENTS_WITHIN: Duration = Duration::from_secs(4);
/// For how long no event may come until it is believed that none will.
const EVENTS_QUIET: Duration = Duration::from_millis(60);

/// How a sequence came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All answers say the same.
    Same,
    /// They part in a way that is meant. Where only one of them did what was asked, what follows is not
    /// compared.
    Deliberate(&'static str),
    /// They part.
    Parted(Parting),
}

/// Where two servers part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parting {
    /// The step's number.
    pub step: usize,
    /// Method and path of the request.
    pub request: String,
    /// All differences of the answers.
    pub differences: Vec<Difference>,
}

impl Parting {
    /// What it has in common with other partings of the same cause: the kind of request, the first place
    /// that differs, and how.
    pub fn signature(&self) -> String {
        let Some(first) = self.differences.first() else { return self.request.clone() };
        let place = first.place();
        let how = match place.as_str() {
            "status" => format!("{} {}", first.theirs, first.ours),
            "$.message" | "body" | "header warning" => format!("{} | {}", gist(&first.theirs), gist(&first.ours)),
            _ => String::new(),
        };
        format!("{} {place} {how}", self.request).trim_end().to_owned()
    }
}

/// The two servers, as one worker asks them.
#[derive(Debug)]
pub struct Bench {
    theirs: Client,
    ours: Client,
    rules: Rules,
}

/// What one server said to a step.
enum Answer {
    Reply(Reply),
    Watch(Watch),
}

impl Answer {
    fn reply(&self) -> &Reply {
        match self {
            Answer::Reply(reply) => reply,
            Answer::Watch(watch) => &watch.reply,
        }
    }
}

impl Bench {
    /// Asks by these clients.
    pub fn new(theirs: Client, ours: Client, rules: Rules) -> Bench {
        Bench { theirs, ours, rules }
    }

    /// Puts a sequence to both. `word` names what is its own; no other run may have the same.
    ///
    /// # Errors
    /// A server does not answer.
    pub async fn run(&mut self, sequence: &Sequence, word: &str) -> Result<Outcome> {
        let mut names = Variables::new();
        names.insert("r".to_owned(), word.to_owned());
        names.insert("ns".to_owned(), format!("g-{word}"));
        names.insert("g".to_owned(), format!("{word}.example.com"));
        if sequence.wants_namespace() {
            let (theirs, ours) =
                tokio::join!(make_namespace(&mut self.theirs, word), make_namespace(&mut self.ours, word));
            theirs.and(ours)?;
        }
        let (mut their_names, mut our_names) = (names.clone(), names);
        let outcome = self.steps(sequence, &mut their_names, &mut our_names).await;
        self.clean(sequence, &their_names).await?;
        outcome
    }

    async fn steps(&mut self, sequence: &Sequence, theirs: &mut Variables, ours: &mut Variables) -> Result<Outcome> {
        let mut pairs = Pairs::default();
        let mut watches = Vec::new();
        let mut meant = None;
        let mut made = true;
        for step in &sequence.steps {
            if matches!(step.kind, StepKind::Until(_)) && !made {
                // What both refused to make does not come.
                break;
            }
            let (left, right) = tokio::join!(ask(&mut self.theirs, step, theirs), ask(&mut self.ours, step, ours));
            let at = || format!("{} {}", step.method, step.target(theirs));
            let (left, right) = (left.with_context(at)?, right.with_context(at)?);
            let differences = match step.kind {
                StepKind::Until(status) => until_differences(status, left.reply(), right.reply()),
                StepKind::Request | StepKind::Watch => {
                    compare_replies(&mut pairs, self.rules, left.reply(), right.reply())
                }
            };
            if !differences.is_empty() {
                let written = differences.iter().all(|difference| difference.path != deliberate::VERSION);
                match parted(step, left.reply(), right.reply(), differences) {
                    // Both have done it or both have not, so what follows can be compared.
                    Outcome::Deliberate(why) if written && class(left.reply()) == class(right.reply()) => {
                        meant = Some(why);
                    }
                    other => return Ok(other),
                }
            }
            made = class(left.reply()) || class(right.reply());
            learn(step.id, left.reply(), theirs);
            learn(step.id, right.reply(), ours);
            if let (Answer::Watch(left), Answer::Watch(right)) = (left, right) {
                watches.push((step, left, right));
            }
        }
        for (step, left, right) in watches {
            settle(&left, &right).await;
            let differences = compare_events(&mut pairs, self.rules, &left.events(), &right.events());
            if !differences.is_empty() {
                return Ok(parted(step, &left.reply, &right.reply, differences));
            }
        }
        Ok(meant.map_or(Outcome::Same, Outcome::Deliberate))
    }

    /// Deletes what is of the whole cluster; a namespace's content stays with the servers' folders.
    async fn clean(&mut self, sequence: &Sequence, names: &Variables) -> Result<()> {
        for step in sequence.steps.iter().filter(|step| step.method == "POST") {
            // What is waited for to be there is meant for all runs.
            if step.path != DEFINITIONS || step.kind != StepKind::Request {
                continue;
            }
            let Some(name) = step.json_name() else { continue };
            let path = format!("{DEFINITIONS}/{}", substitute(&name, names));
            let call = Call { method: "DELETE".to_owned(), path, ..Call::default() };
            let (theirs, ours) = tokio::join!(self.theirs.send(&call), self.ours.send(&call));
            theirs.and(ours)?;
        }
        Ok(())
    }
}

async fn ask(client: &mut Client, step: &Step, names: &Variables) -> Result<Answer> {
    let call = step.call(names);
    match step.kind {
        StepKind::Request => client.send(&call).await.map(Answer::Reply),
        StepKind::Watch => client.watch(&call).await.map(Answer::Watch),
        StepKind::Until(status) => until(client, &call, status).await.map(Answer::Reply),
    }
}

/// Repeats a request until it is answered so, or its time is over; gives the last answer.
async fn until(client: &mut Client, call: &Call, status: u16) -> Result<Reply> {
    let deadline = tokio::time::Instant::now() + COMES_WITHIN;
    loop {
        let reply = client.send(call).await?;
        if reply.status == status || tokio::time::Instant::now() > deadline {
            return Ok(reply);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Whether a request was done.
fn class(reply: &Reply) -> bool {
    reply.status < 300
}

fn until_differences(status: u16, theirs: &Reply, ours: &Reply) -> Vec<Difference> {
    if theirs.status == ours.status {
        return Vec::new();
    }
    let path = format!("status, waiting for {status}");
    vec![Difference { path, theirs: theirs.status.to_string(), ours: ours.status.to_string() }]
}

fn parted(step: &Step, theirs: &Reply, ours: &Reply, differences: Vec<Difference>) -> Outcome {
    if let Some(why) = deliberate::reason(step, theirs, ours, &differences) {
        return Outcome::Deliberate(why);
    }
    let watch = if step.kind == StepKind::Watch { "WATCH" } else { step.method.as_str() };
    Outcome::Parted(Parting { step: step.id, request: format!("{watch} {}", kind_of_path(&step.path)), differences })
}

/// A path with `*` for the name of an object, without the namespace.
fn kind_of_path(path: &str) -> String {
    let path = path.replace("/namespaces/${ns}", "");
    let mut parts: Vec<&str> = path.split('/').collect();
    let name = if parts.get(1) == Some(&"api") { 4 } else { 5 };
    if let Some(part) = parts.get_mut(name) {
        *part = "*";
    }
    parts.join("/")
}

/// A text without what is quoted or counted in it, and not all of that.
fn gist(text: &str) -> String {
    const LONGEST: usize = 70;
    let mut gist = String::new();
    for (index, part) in text.split('"').enumerate() {
        if index % 2 == 0 {
            gist.extend(part.chars().filter(|c| !c.is_ascii_digit()));
        }
    }
    gist.chars().take(LONGEST).collect()
}

/// Remembers what later steps may speak of.
fn learn(step: usize, reply: &Reply, names: &mut Variables) {
    let Some(body) = reply.json() else { return };
    let mut keep = |name: String, path: &[&str]| {
        if let Some(text) = body.at(path).and_then(Value::as_str).filter(|text| !text.is_empty()) {
            names.insert(name, text.to_owned());
        }
    };
    // The version of a list is that of the whole store on one server and of a cache on the other: an object may have
    // it by chance.
    let of = if body.get("items").or(body.get("rows")).is_some() { "list" } else { "rv" };
    keep(format!("{of}{step}"), &["metadata", "resourceVersion"]);
    keep(format!("uid{step}"), &["metadata", "uid"]);
    keep(format!("name{step}"), &["metadata", "name"]);
    keep(format!("continue{step}"), &["metadata", "continue"]);
    keep(format!("token{step}"), &["status", "token"]);
}

/// Waits until both watches told the same number of events and fell silent, or one lags for too long.
async fn settle(left: &Watch, right: &Watch) {
    let deadline = tokio::time::Instant::now() + EVENTS_WITHIN;
    loop {
        let before = (left.count(), right.count());
        tokio::time::sleep(EVENTS_QUIET).await;
        let after = (left.count(), right.count());
        let level = after.0.0 == after.1.0;
        if before == after && level || tokio::time::Instant::now() > deadline {
            return;
        }
    }
}

/// Makes the namespace of a run and waits until it has what every namespace has.
async fn make_namespace(client: &mut Client, word: &str) -> Result<()> {
    let body = format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"g-{word}"}}}}"#);
    let path = "/api/v1/namespaces".to_owned();
    let call = Call { method: "POST".to_owned(), path, body: Some(body.into_bytes()), ..Call::default() };
    client.send(&call).await?;
    for path in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
        let path = format!("/api/v1/namespaces/g-{word}/{path}");
        let call = Call { method: "GET".to_owned(), path, ..Call::default() };
        until(client, &call, 200).await?;
    }
    Ok(())
}
