//! `allot access --merge`: puts a context into the kubeconfig that kubectl uses. The only place that touches a file
//! which the user did not name, so it asks first.
//!
//! # Guarantees
//! Everything else in the file stays, but for comments, as with `kubectl config`. What is there under the same name is
//! replaced only if it was put there for the same AccessRequest, or if somebody who was told so agreed at a terminal.
//! The file is replaced whole, readable by its user only, under the lock that kubectl takes. A link to it stays one, and a
//! file that somebody else owns is left alone, since it would change hands.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead, IsTerminal, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use allotment_machinery::json::{Map, Value};
use allotment_machinery::{json as value, yaml};
use anyhow::{Context as _, anyhow, bail};
use serde_json::json;

use crate::exit::Outcome;
use crate::output;
use crate::platform::{is_written_by_up, write_private};

/// By which extension entries are known that this command made.
const MARK: &str = "allotment";
/// The lists of a kubeconfig, and what the entries of each hold.
const LISTS: [(&str, &str); 3] = [("clusters", "cluster"), ("contexts", "context"), ("users", "user")];

/// How many links behind each other are followed, as systems do.
const MOST_LINKS: usize = 40;

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
    let plan = Plan::of(entry, &files)?;
    if !plan.changes() {
        output::note(&format!("{} has it already, just so", plan.path.display()));
        return output::data(entry.name);
    }
    if let Some(why) = plan.not_ours(rustix::process::geteuid().as_raw()) {
        return Err(anyhow!(why).into());
    }
    let told = plan.told(entry.name);
    if agreed {
        if let Some(why) = plan.foreign() {
            let name = entry.name;
            let message = format!(
                "{}: {why} is called {name:?} and is not of this AccessRequest; nothing was written: rename it or \
                 delete it, or merge at a terminal, where you are asked",
                plan.path.display()
            );
            return Err(anyhow!(message).into());
        }
        told.iter().for_each(|line| output::note(line));
    } else if !ask(&told)? {
        return Err(anyhow!("{} is as it was", plan.path.display()).into());
    }
    plan.write()?;
    output::note(&format!("use it with: kubectl --context {} …", entry.name));
    output::data(entry.name)
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

/// Without those that are named before: profiles of shells put the same file in again and again.
fn distinct(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut known = BTreeSet::new();
    let place = |path: &PathBuf| fs::canonicalize(path).or_else(|_| std::path::absolute(path)).unwrap_or(path.clone());
    paths.into_iter().filter(|path| known.insert(place(path))).collect()
}

/// Where a link leads in the end, also if nothing is there yet.
fn behind(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(target) = fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    path
}

/// Which file changes, and how.
#[derive(Debug)]
struct Plan {
    path: PathBuf,
    /// What was in the file; nothing where there is none.
    before: Option<String>,
    /// Who had the file, by number, and its mode; nothing where there is none.
    held: Option<(u32, u32)>,
    after: Map,
    /// By list: what becomes of the entry of that name.
    found: [Found; 3],
    /// Whether the context becomes the current one, since there is none.
    is_current: bool,
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
        let held = fs::metadata(path).ok().map(|found| (found.uid(), found.mode() & 0o777));
        Ok(Plan { path: path.clone(), before, held, after, found, is_current })
    }

    fn changes(&self) -> bool {
        self.found.iter().any(|found| *found != Found::Same)
    }

    /// Why the file is left as it is, where that user may not have it afterwards.
    fn not_ours(&self, user: u32) -> Option<String> {
        let (owner, _) = self.held.filter(|(owner, _)| *owner != user)?;
        Some(format!(
            "{} belongs to user {owner} and would belong to user {user}, who runs this; nothing was written: run it as \
             user {owner}, or name another file with KUBECONFIG",
            self.path.display()
        ))
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
        if let Some((_, mode)) = self.held.filter(|(_, mode)| mode & 0o077 != 0) {
            lines.push(format!("  only you may read it from then on (its mode is {mode:04o} now)"));
        }
        let commented = |line: &str| line.trim_start().starts_with('#');
        if self.before.as_deref().is_some_and(|text| text.lines().any(commented)) {
            lines.push("  comments in the file are lost, as kubectl config loses them".to_owned());
        }
        lines
    }

    /// Writes the file, if it is as it was.
    fn write(&self) -> anyhow::Result<()> {
        // A link stays one.
        let path = behind(&self.path);
        // kubectl locks by the name that it was given, whoever names the file itself by that.
        let mut locks = Vec::new();
        for path in [&self.path, &path] {
            if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
                let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
                made.with_context(|| format!("cannot make the folder {}", folder.display()))?;
            }
            if locks.is_empty() || *path != self.path {
                locks.push(Lock::take(path)?);
            }
        }
        if text_of(&path)? != self.before {
            bail!("{} was changed by somebody else meanwhile; nothing was written: try again", path.display());
        }
        let text = yaml::to_string(&Value::from(self.after.clone()));
        write_private(&path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// The file that kubectl keeps others off a kubeconfig by.
struct Lock(PathBuf);

impl Lock {
    fn take(path: &Path) -> anyhow::Result<Self> {
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        let lock = PathBuf::from(name);
        match fs::OpenOptions::new().write(true).create_new(true).open(&lock) {
            Ok(_) => Ok(Lock(lock)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(anyhow!(
                "{} is being changed by another command, or one died over it; try again, or remove {}",
                path.display(),
                lock.display()
            )),
            Err(error) => Err(error).with_context(|| format!("cannot make {}", lock.display())),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Who comes next is told its name.
        let _ = fs::remove_file(&self.0);
    }
}

/// What stands in a file; nothing where there is none.
fn text_of(path: &Path) -> anyhow::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read the kubeconfig {}", path.display())),
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
        (Value::Object(content), None) => Ok(content),
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

    use super::*;

    const NEW: &str = "clusters: [{name: x, cluster: {server: 'https://c'}}]\nusers: [{name: x, user: {token: t}}]\n\
        contexts: [{name: x, context: {cluster: x, user: x}}]\n";

    fn planned(name: &str, platform: &str, files: &[(&str, Option<&str>)]) -> anyhow::Result<Plan> {
        let folder = std::env::temp_dir().join(format!("allot-merge-{}-{name}", std::process::id()).replace('/', "-"));
        fs::create_dir_all(&folder).unwrap();
        let paths: Vec<PathBuf> = files.iter().map(|(file, _)| folder.join(file)).collect();
        for (path, (_, text)) in paths.iter().zip(files) {
            if let Some(text) = text {
                fs::write(path, text).unwrap();
            }
        }
        let plan = Plan::of(&Entry { name, platform, kubeconfig: NEW }, &paths);
        fs::remove_dir_all(&folder).unwrap();
        plan
    }

    fn shown(plan: &Plan) -> String {
        yaml::to_string(&Value::from(plan.after.clone()))
    }

    /// A folder that goes with this.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("allot-merge-{}-{name}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Place(folder)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn a_link_stays_one_and_is_locked_by_its_own_name_as_kubectl_does() {
        let place = Place::new("link");
        let (link, far) = (place.0.join("config"), place.0.join("dotfiles/kubeconfig"));
        std::os::unix::fs::symlink("dotfiles/kubeconfig", &link).unwrap();
        let plan =
            || Plan::of(&Entry { name: "n/a", platform: "p", kubeconfig: NEW }, std::slice::from_ref(&link)).unwrap();
        let says = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        // It leads nowhere yet.
        plan().write().unwrap();
        assert!(says(&far).contains("n/a") && fs::symlink_metadata(&link).unwrap().is_symlink());
        fs::write(&far, "current-context: o\n").unwrap();
        for lock in ["config.lock", "dotfiles/kubeconfig.lock"] {
            let lock = place.0.join(lock);
            fs::write(&lock, "").unwrap();
            let refused = plan().write().unwrap_err();
            assert!(refused.to_string().contains("changed by another command"), "{refused:#}");
            assert_eq!(says(&far), "current-context: o\n");
            fs::remove_file(&lock).unwrap();
        }
        plan().write().unwrap();
        assert!(says(&far).contains("n/a") && fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(&place.0).unwrap().count(), 2, "a lock is left");
    }

    #[test]
    fn a_file_that_is_named_twice_is_one() {
        let place = Place::new("twice");
        let path = |name: &str| place.0.join(name);
        fs::write(path("a"), "").unwrap();
        std::os::unix::fs::symlink("a", path("link")).unwrap();
        let twice = [path("a"), path("none"), path("."), path("link"), path("./a"), path("none")].to_vec();
        assert_eq!(distinct(twice), [path("a"), path("none"), path(".")]);
        let files = distinct(vec![path("a"), path("a")]);
        let plan = || Plan::of(&Entry { name: "n/a", platform: "p", kubeconfig: NEW }, &files).unwrap();
        plan().write().unwrap();
        assert!(!plan().changes(), "the second time there is nothing to do");
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
        check(&[("a", Some("a: 1\na: 2\n"))], Err("twice"));
        check(&[("a", Some("a: ["))], Err("cannot be read"));
        check(&[("a", Some("clusters: [{name: allotment, cluster: {server: x}}]"))], Err("writes anew"));
        check(&[("a", Some("clusters: [{name: allotment, cluster: {server: x}}, {name: o}]"))], Ok(("a", true)));
    }
}
