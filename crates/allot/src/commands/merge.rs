//! `allot access --merge`: puts a context into the kubeconfig that kubectl uses. The only place that touches a file
//! which the user did not name, so it asks first.
//!
//! # Guarantees
//! Everything else in the file stays, but for comments, as with `kubectl config`. What is there under the same name is
//! replaced only if it was put there for the same AccessRequest, or if somebody who was told so agreed at a terminal.
//! The file is replaced whole, readable by its user only, under the lock that kubectl takes. A link to it stays one, and a
//! file that somebody else owns is left alone, since it would change hands.

mod file;

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use allotment_machinery::json::{Map, Value};
use allotment_machinery::{json as value, yaml};
use anyhow::{Context as _, anyhow, bail};
use serde_json::json;

use crate::exit::Outcome;
use crate::output;
use crate::platform::is_written_by_up;
use file::{distinct, text_of};

/// By which extension entries are known that this command made.
const MARK: &str = "allotment";
/// The lists of a kubeconfig, and what the entries of each hold.
const LISTS: [(&str, &str); 3] = [("clusters", "cluster"), ("contexts", "context"), ("users", "user")];

/// How often it is begun anew since somebody else wrote the file in between.
const MOST_TRIES: usize = 20;

/// Whether there is somebody to ask.
pub(super) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// What is merged.
pub(super) struct Entry<'a> {
    /// `NAMESPACE/NAME` of the AccessRequest, and what context, cluster and user are called.
    pub(super) name: &'a str,
    /// The platform that it is of, by its URL.
    pub(super) platform: &'a str,
    /// A kubeconfig with one cluster, one user and one context.
    pub(super) kubeconfig: &'a str,
}

/// Merges it, with `agreed` without asking, and prints the name of the context.
pub(super) fn run(entry: &Entry<'_>, agreed: bool) -> Outcome {
    let files = candidates()?;
    for _ in 0..MOST_TRIES {
        let plan = Plan::of(entry, &files)?;
        if once(entry, agreed, &plan)? {
            return output::data(entry.name);
        }
        output::note(&format!("{} was changed by somebody else meanwhile", plan.path.display()));
    }
    Err(anyhow!("others change the kubeconfig again and again; nothing was written: try again").into())
}

/// Carries a plan out, or finds that there is nothing to do; says whether the file was as it was read.
fn once(entry: &Entry<'_>, agreed: bool, plan: &Plan) -> anyhow::Result<bool> {
    let path = plan.path.display();
    if !plan.changes() {
        output::note(&format!("{path} has it already, just so"));
        return Ok(true);
    }
    if let Some(why) = plan.not_ours(rustix::process::geteuid().as_raw()) {
        bail!(why);
    }
    let told = plan.told(entry.name);
    if agreed {
        if let Some(why) = plan.foreign() {
            let name = entry.name;
            bail!(
                "{path}: {why} is called {name:?} and is not of this AccessRequest; nothing was written: rename it or \
                 delete it, or merge at a terminal, where you are asked"
            );
        }
        told.iter().for_each(|line| output::note(line));
    } else if !ask(&told)? {
        bail!("{path} is as it was");
    }
    let written = plan.write()?;
    if written {
        output::note(&format!("use it with: kubectl --context {} …", entry.name));
    }
    Ok(written)
}

/// The files that kubectl reads: those of `$KUBECONFIG`, or its own below the home folder.
fn candidates() -> anyhow::Result<Vec<PathBuf>> {
    let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let listed: Vec<PathBuf> = std::env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty()).collect();
    if !listed.is_empty() {
        return Ok(distinct(listed));
    }
    let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
    let home =
        home.ok_or_else(|| anyhow!("there is no home folder to find kubectl's kubeconfig in; set KUBECONFIG"))?;
    Ok(vec![home.join(".kube/config")])
}

/// Which file changes, and how.
#[derive(Debug)]
struct Plan {
    path: PathBuf,
    /// What was in the file; nothing where there is none.
    before: Option<String>,
    /// Whose the file was, and who might use it; nothing where there is none.
    held: Option<Held>,
    after: Map,
    /// By list: what becomes of the entry of that name.
    found: [Found; 3],
    /// Whether the context becomes the current one, since there is none.
    is_current: bool,
}

/// A file as it is before it is replaced.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// Its user, by number.
    owner: u32,
    mode: u32,
    /// By how many names it is known.
    names: u64,
}

/// What is there under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    /// Just what is to be there.
    Same,
    /// Of the same AccessRequest.
    Own,
    /// Somebody else's.
    Foreign,
}

impl Plan {
    fn of(entry: &Entry<'_>, files: &[PathBuf]) -> anyhow::Result<Plan> {
        let merged = entries(entry)?;
        let mut read = Vec::new();
        for path in files {
            let text = text_of(path)?;
            let content = text.as_deref().map(|text| content_of(path, text)).transpose()?;
            read.push((path, text, content.unwrap_or_default()));
        }
        let holds = |content: &Map| LISTS.iter().any(|(list, _)| find(content, list, entry.name).is_some());
        let holding: Vec<usize> = (0..read.len()).filter(|index| holds(&read[*index].2)).collect();
        // Where it is already, else where kubectl writes: the first that is there, or the last of those that could be.
        let first = read.iter().position(|(_, text, _)| text.is_some());
        let chosen = match holding.as_slice() {
            [] => first.unwrap_or(read.len().saturating_sub(1)),
            [only] => *only,
            [one, other, ..] => bail!(
                "both {} and {} hold something called {:?}; kubectl mixes the two: rename or delete one",
                read[*one].0.display(),
                read[*other].0.display(),
                entry.name
            ),
        };
        let is_current = read
            .iter()
            .all(|(_, _, content)| content.get("current-context").and_then(Value::as_str).is_none_or(str::is_empty));
        let Some((path, before, mut after)) = read.into_iter().nth(chosen) else { bail!("KUBECONFIG names no file") };
        if before.as_deref().is_some_and(is_written_by_up) {
            bail!(
                "{} is the platform's own kubeconfig, which `allot up` writes anew and keeps for itself; merge into \
                 another: KUBECONFIG=$HOME/.kube/config allot access … --merge --kubeconfig {}",
                path.display(),
                path.display()
            );
        }
        let mut found = [Found::Nothing; 3];
        for (((list, _), new), found) in LISTS.iter().zip(merged).zip(&mut found) {
            *found = put(&mut after, list, entry.name, new).with_context(|| format!("{}: {list}", path.display()))?;
        }
        for (field, value) in [("apiVersion", "v1"), ("kind", "Config")] {
            after.get_or_insert_with(field, || Value::from(value));
        }
        if is_current {
            after.insert("current-context", entry.name);
        }
        let held = fs::metadata(path).ok();
        let held = held.map(|found| Held { owner: found.uid(), mode: found.mode() & 0o777, names: found.nlink() });
        Ok(Plan { path: path.clone(), before, held, after, found, is_current })
    }

    fn changes(&self) -> bool {
        self.found.iter().any(|found| *found != Found::Same)
    }

    /// Why the file is left as it is: that user may not have it afterwards, or it is not to be written.
    fn not_ours(&self, user: u32) -> Option<String> {
        let (path, held) = (self.path.display(), self.held?);
        let owner = held.owner;
        if owner != user {
            return Some(format!(
                "{path} belongs to user {owner} and would belong to user {user}, who runs this; nothing was written: run it as \
                 user {owner}, or name another file with KUBECONFIG"
            ));
        }
        let read_only = held.mode & 0o200 == 0;
        read_only.then(|| {
            format!("{path} is read-only; nothing was written: chmod u+w it, or name another file with KUBECONFIG")
        })
    }

    /// What of somebody else's is in the way.
    fn foreign(&self) -> Option<String> {
        let kinds = LISTS.iter().zip(self.found).filter(|(_, found)| *found == Found::Foreign);
        let kinds: Vec<&str> = kinds.map(|((_, kind), _)| *kind).collect();
        (!kinds.is_empty()).then(|| format!("a {}", kinds.join(", a ")))
    }

    /// What is about to be done, for people.
    fn told(&self, name: &str) -> Vec<String> {
        let path = self.path.display();
        let is_own = self.found.contains(&Found::Own);
        let what = format!("context {name:?}, with a cluster and a user of that name");
        let mut lines = vec![match (&self.before, is_own) {
            (None, _) => format!("make {path} with {what}"),
            (Some(_), false) => format!("add to {path}: {what}"),
            (Some(_), true) => format!("bring up to date in {path}: {what}"),
        }];
        if let Some(why) = self.foreign() {
            lines.push(format!("  this replaces {why} called {name:?} that is not of this AccessRequest"));
        }
        if self.is_current {
            lines.push("  it becomes the current context, since there is none".to_owned());
        }
        if let Some(Held { mode, .. }) = self.held.filter(|held| held.mode & 0o077 != 0) {
            lines.push(format!("  only you may read it from then on (its mode is {mode:04o} now)"));
        }
        if self.held.is_some_and(|held| held.names > 1) {
            lines.push("  what has another name for this file (a hard link) keeps what it says now".to_owned());
        }
        let commented = |line: &str| line.trim_start().starts_with('#');
        if self.before.as_deref().is_some_and(|text| text.lines().any(commented)) {
            lines.push("  comments in the file are lost, as kubectl config loses them".to_owned());
        }
        lines
    }

    /// Writes the file if it is as it was; says whether it was.
    fn write(&self) -> anyhow::Result<bool> {
        let text = yaml::to_string(&Value::from(self.after.clone()));
        file::replace(&self.path, self.before.as_deref(), &text)
    }
}

/// A kubeconfig as it stands in a file.
fn content_of(path: &Path, text: &str) -> anyhow::Result<Map> {
    let shown = path.display();
    let documents =
        yaml::parse_stream(text).map_err(|error| anyhow!("the kubeconfig {shown} cannot be read: {error}"))?;
    let mut documents = documents.into_iter();
    let Some(document) = documents.next() else { return Ok(Map::default()) };
    if let Some(twice) = document.duplicates.first() {
        bail!("the kubeconfig {shown} says something twice, so it is not changed: {twice}");
    }
    match (document.value, documents.next()) {
        (Value::Object(content), None) => match content.get("kind").and_then(Value::as_str) {
            None | Some("" | "Config") => Ok(content),
            Some(kind) => bail!("{shown} is a {kind} and no kubeconfig; name another with KUBECONFIG"),
        },
        (_, None) => bail!("{shown} is no kubeconfig; name another with KUBECONFIG"),
        (_, Some(_)) => {
            bail!("{shown} holds more than one document, so it is no kubeconfig; name another with KUBECONFIG")
        }
    }
}

/// Cluster, context and user, with the mark, in the order of [`LISTS`].
fn entries(entry: &Entry<'_>) -> anyhow::Result<[Value; 3]> {
    let read = yaml::parse(entry.kubeconfig)?;
    let read: serde_json::Value = serde_json::from_slice(&read.to_vec())?;
    let mark = json!([{"name": MARK, "extension": {"accessRequest": entry.name, "platform": entry.platform}}]);
    let mut entries = [Value::Null, Value::Null, Value::Null];
    for ((list, kind), made) in LISTS.iter().zip(&mut entries) {
        let mut content = read[*list][0][*kind].clone();
        if !content.is_object() {
            bail!("the kubeconfig of AccessRequest {} has no {kind}", entry.name);
        }
        if *kind == "context" {
            (content["cluster"], content["user"]) = (json!(entry.name), json!(entry.name));
        }
        content["extensions"] = mark.clone();
        let mut named = serde_json::Map::from_iter([("name".to_owned(), json!(entry.name))]);
        named.insert((*kind).to_owned(), content);
        *made = value::parse(&serde_json::to_vec(&named)?)?;
    }
    Ok(entries)
}

fn find<'a>(content: &'a Map, list: &str, name: &str) -> Option<&'a Value> {
    let named = |entry: &&Value| entry.get("name").and_then(Value::as_str) == Some(name);
    content.get(list)?.as_array()?.iter().find(named)
}

/// Puts an entry in its list, in the place of the one of its name; gives what that was.
fn put(content: &mut Map, list: &str, name: &str, new: Value) -> anyhow::Result<Found> {
    if content.get(list).is_none_or(Value::is_null) {
        content.insert(list, Value::from(Vec::new()));
    }
    let Some(entries) = content.get_mut(list).and_then(Value::as_array_mut) else {
        bail!("a list is expected there; mend it, or name another kubeconfig with KUBECONFIG");
    };
    let named = |entry: &&mut Value| entry.get("name").and_then(Value::as_str) == Some(name);
    let Some(there) = entries.iter_mut().find(named) else {
        entries.push(new);
        return Ok(Found::Nothing);
    };
    let found = match mark_of(there) {
        _ if *there == new => Found::Same,
        Some(mark) if Some(mark) == mark_of(&new) => Found::Own,
        Some(_) | None => Found::Foreign,
    };
    *there = new;
    Ok(found)
}

/// What marks an entry as one of this command.
fn mark_of(entry: &Value) -> Option<&Value> {
    let content = LISTS.iter().find_map(|(_, kind)| entry.get(kind))?;
    let named = |extension: &&Value| extension.get("name").and_then(Value::as_str) == Some(MARK);
    content.get("extensions")?.as_array()?.iter().find(named)?.get("extension")
}

/// Asks at the terminal; anything but a yes is a no.
fn ask(lines: &[String]) -> anyhow::Result<bool> {
    let mut terminal = io::stderr().lock();
    write!(terminal, "{}\nDo it? [y/N] ", lines.join("\n"))?;
    terminal.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::file::tests::Place;
    use super::*;

    const NEW: &str = "clusters: [{name: x, cluster: {server: 'https://c'}}]\nusers: [{name: x, user: {token: t}}]\n\
        contexts: [{name: x, context: {cluster: x, user: x}}]\n";

    fn planned(name: &str, platform: &str, files: &[(&str, Option<&str>)]) -> anyhow::Result<Plan> {
        let place = Place::new(&name.replace('/', "-"));
        let paths: Vec<PathBuf> = files.iter().map(|(file, _)| place.0.join(file)).collect();
        for (path, (_, text)) in paths.iter().zip(files) {
            if let Some(text) = text {
                fs::write(path, text).unwrap();
            }
        }
        Plan::of(&Entry { name, platform, kubeconfig: NEW }, &paths)
    }

    fn shown(plan: &Plan) -> String {
        yaml::to_string(&Value::from(plan.after.clone()))
    }

    #[test]
    fn a_file_of_somebody_else_is_left_alone_and_rights_that_get_narrower_are_told_of() {
        let place = Place::new("rights");
        let path = place.0.join("config");
        fs::write(&path, "").unwrap();
        let plan = |mode: u32| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            Plan::of(&Entry { name: "n/a", platform: "p", kubeconfig: NEW }, std::slice::from_ref(&path)).unwrap()
        };
        let owner = fs::metadata(&path).unwrap().uid();
        assert_eq!(plan(0o600).not_ours(owner), None);
        let why = plan(0o400).not_ours(owner).unwrap();
        assert!(why.contains("is read-only"), "{why}");
        let link = "a hard link";
        assert!(!plan(0o600).told("n/a").concat().contains(link));
        fs::hard_link(&path, place.0.join("other")).unwrap();
        assert!(plan(0o600).told("n/a").concat().contains(link));
        let why = plan(0o600).not_ours(owner + 1).unwrap();
        assert!(why.contains(&format!("belongs to user {owner}")), "{why}");
        assert!(!plan(0o600).told("n/a").concat().contains("mode"));
        assert!(plan(0o640).told("n/a").concat().contains("only you may read it from then on (its mode is 0640 now)"));
        let none = planned("n/none", "p", &[("a", None)]).unwrap();
        assert_eq!(none.not_ours(owner + 1), None, "it is made");
    }

    #[test]
    fn what_is_there_stays_and_one_of_the_same_name_is_told_of() {
        let others = "# mine\napiVersion: v1\nkind: Config\ncurrent-context: o\nodd: 1.0\nclusters:\n\
            - {name: o, cluster: {server: 'https://o', odd: 010}}\ncontexts: null\n";
        let plan = planned("n/a", "p", &[("config", Some(others))]).unwrap();
        let text = shown(&plan);
        for kept in ["current-context: o\n", "odd: 1.0\n", "server: https://o\n", "name: o\n"] {
            assert!(text.contains(kept), "{kept:?}: {text}");
        }
        assert_eq!(text.matches("name: n/a\n").count(), 3, "{text}");
        assert_eq!((plan.foreign(), plan.is_current, plan.found), (None, false, [Found::Nothing; 3]));
        assert!(plan.told("n/a").iter().any(|line| line.contains("comments")));

        // Once more: nothing to do; what this command wrote is brought up to date; of another platform it is not ours.
        let again = planned("n/a", "p", &[("config", Some(&text))]).unwrap();
        assert!(!again.changes() && again.after == plan.after);
        let old = text.replace("https://c", "https://old");
        let mended = planned("n/a", "p", &[("config", Some(&old))]).unwrap();
        assert_eq!((mended.found, mended.foreign()), ([Found::Own, Found::Same, Found::Same], None));
        assert!(mended.after == plan.after);
        let other = planned("n/a", "q", &[("config", Some(&text))]).unwrap();
        assert_eq!(other.foreign().as_deref(), Some("a cluster, a context, a user"));
        let theirs = "users: [{name: n/a, user: {token: secret}}]\n";
        let plan = planned("n/a", "p", &[("config", Some(theirs))]).unwrap();
        assert_eq!(plan.foreign().as_deref(), Some("a user"));
        assert!(plan.told("n/a").concat().contains("replaces a user called \"n/a\""));
        assert!(!plan.told("n/a").concat().contains("secret"));
    }

    #[test]
    fn of_several_files_that_changes_which_kubectl_would_change() {
        let check = |files: &[(&str, Option<&str>)], expect: Result<(&str, bool), &str>| {
            let plan = planned("n/b", "p", files);
            match (plan, expect) {
                (Ok(plan), Ok((file, current))) => {
                    assert_eq!(
                        (plan.path.file_name().unwrap(), plan.is_current),
                        (file.as_ref(), current),
                        "{files:?}"
                    );
                }
                (Err(error), Err(part)) => assert!(format!("{error:#}").contains(part), "{error:#}"),
                (plan, _) => panic!("{files:?}: {plan:?}"),
            }
        };
        let some = Some("current-context: o\n");
        let held = Some("contexts: [{name: n/b, context: {}}]");
        check(&[("a", None)], Ok(("a", true)));
        check(&[("a", None), ("b", None)], Ok(("b", true)));
        check(&[("a", None), ("b", some), ("c", some)], Ok(("b", false)));
        check(&[("a", Some("")), ("b", some)], Ok(("a", false)));
        check(&[("a", some), ("b", held)], Ok(("b", false)));
        check(&[("a", held), ("b", held)], Err("kubectl mixes the two"));
        check(&[("a", Some("clusters: {}"))], Err("a list is expected"));
        check(&[("a", Some("my diary"))], Err("no kubeconfig"));
        check(&[("a", Some("kind: Secret\ndata: {a: b}"))], Err("is a Secret and no kubeconfig"));
        check(&[("a", Some("kind: Config\n"))], Ok(("a", true)));
        check(&[("a", Some("a: 1\na: 2\n"))], Err("twice"));
        check(&[("a", Some("a: ["))], Err("cannot be read"));
        check(&[("a", Some("clusters: [{name: allotment, cluster: {server: x}}]"))], Err("writes anew"));
        check(&[("a", Some("clusters: [{name: allotment, cluster: {server: x}}, {name: o}]"))], Ok(("a", true)));
    }
}
