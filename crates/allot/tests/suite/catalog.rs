//! `allot catalog` on files: what goes to stdout, what to stderr, and with which code they end. There is no
//! server in any of it.

use std::process::Output;

use allotment_machinery::yaml;
use serde_json::Value;

use crate::harness::{Folder, allot};

const CENTRAL: &str = "
apiVersion: core.gardener.cloud/v1beta1
kind: CloudProfile
metadata: {name: central}
spec:
  type: aws
  providerConfig: {ratio: 1.10, large: 123456789012345678901}
  kubernetes: {versions: [{version: 1.30.2}, {version: 1.29.1, expirationDate: '2026-01-01T00:00:00Z'}]}
  machineImages: [{name: suse, versions: [{version: 15.10}]}]
  machineTypes: [{name: m5.large, cpu: '4', memory: 8Gi}]
";

const TEAM: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: beside}
---
apiVersion: core.gardener.cloud/v1beta1
kind: PrivateCloudProfile
metadata: {name: own, namespace: team}
spec:
  parent: central
  kubernetes: {versions: [{version: 1.29.1, expirationDate: 2027-06-1T00:00:00Z}]}
  machineTypes: [{name: m5.large, cpu: '2', memory: 8Gi}, {name: big, cpu: 64, memory: 1Ti}]
";

/// Runs `allot catalog` with those words, on files of those names and contents in a folder of their own.
#[track_caller]
fn catalog(files: &[(&str, &str)], words: &[&str]) -> (Folder, Output) {
    let folder = Folder::new();
    for (name, text) in files {
        std::fs::write(folder.0.join(name), text).expect("a file is written");
    }
    let names = files.iter().map(|(name, _)| *name);
    let output = allot(&folder).current_dir(&folder.0).arg("catalog").args(words).args(names).output();
    (folder, output.expect("the command runs"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn check(files: &[(&str, &str)], words: &[&str], code: i32, stdout: &str, stderr: &[&str]) {
    let (_folder, output) = catalog(files, words);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}{err}");
    assert_eq!(out, stdout, "{err}");
    assert_eq!(err.lines().collect::<Vec<_>>(), stderr, "{out}");
}

const AT: &str = "2025-01-01T00:00:00Z";
const OWN: &str = "team.yaml: PrivateCloudProfile team/own";
const SLIP: &str = "central.yaml: CloudProfile central: spec.machineImages[suse].versions[15.10].version: 15.10: a version is a text, and \
                    this a number: quote the version, \"15.10\"";
const DATE: &str = "team.yaml: PrivateCloudProfile team/own: spec.kubernetes.versions[1.29.1].expirationDate: \"2027-06-1T00:00:00Z\": not a \
                    time by RFC 3339: write \"2027-06-01T00:00:00Z\"";
const CONFLICT: &str = "team.yaml: PrivateCloudProfile team/own: spec.machineTypes[m5.large]: cpu differs from what the parent says, which holds \
                        (parent {\"cpu\":\"4\"}, here {\"cpu\":\"2\"})";

#[test]
fn rendered_profiles_alone_go_to_stdout_and_warnings_to_stderr() {
    let expect = "apiVersion: core.gardener.cloud/v1beta1
kind: CloudProfile
metadata:
  name: own
spec:
  kubernetes:
    versions:
    - version: 1.30.2
    - expirationDate: \"2027-06-01T00:00:00Z\"
      version: 1.29.1
  machineImages:
  - name: suse
    versions:
    - version: \"15.10\"
  machineTypes:
  - cpu: \"4\"
    memory: 8Gi
    name: m5.large
  - cpu: \"64\"
    memory: 1Ti
    name: big
  providerConfig:
    large: 123456789012345678901
    ratio: 1.10
  type: aws
";
    let warnings = [SLIP, DATE, CONFLICT].map(|text| format!("warning: {text}"));
    let warnings: Vec<&str> = warnings.iter().map(String::as_str).collect();
    // Parents may come after their children.
    check(&[("team.yaml", TEAM), ("central.yaml", CENTRAL)], &["render", "--at", AT], 0, expect, &warnings);

    let (_folder, output) =
        catalog(&[("central.yaml", CENTRAL), ("team.yaml", TEAM)], &["render", "--at", AT, "-o", "json"]);
    let read: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&read["kind"], &read["metadata"]["name"]), (&Value::from("CloudProfile"), &Value::from("own")));
    assert!(
        text(&output.stdout).contains("\"large\": 123456789012345678901,\n      \"ratio\": 1.10\n"),
        "kept to the letter"
    );
    let two = format!("{TEAM}---\n{}", TEAM.replace("name: own", "name: other"));
    let (_folder, output) = catalog(&[("c", CENTRAL), ("t", &two)], &["render", "--at", AT, "-o", "json"]);
    let read: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&read["kind"], &read["items"][1]["metadata"]["name"]), (&Value::from("List"), &Value::from("other")));
    let (_folder, output) = catalog(&[("c", CENTRAL), ("t", &two)], &["render", "--at", AT]);
    assert_eq!(yaml::parse_stream(&text(&output.stdout)).expect("YAML").len(), 2);
}

#[test]
fn nothing_is_printed_where_a_profile_would_be_refused() {
    let late = &["render", "--at", "2028-01-01T00:00:00Z"];
    let (_folder, output) = catalog(&[("central.yaml", CENTRAL), ("team.yaml", TEAM)], late);
    let err = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()), "{err}");
    let refused = format!(
        "error: {OWN}: spec.kubernetes.versions[1.29.1].expirationDate: Invalid value: \"2027-06-01T00:00:00Z\": is in the past: choose \
         a date to come, or leave the version out\nerror: nothing is rendered: 1 error in the profiles\n"
    );
    assert!(err.ends_with(&refused), "{err}");
    for (files, says) in [
        (
            &[("team.yaml", TEAM)][..],
            "spec.parent: Invalid value: \"central\": CloudProfile \"central\" is in none of the files: add its file",
        ),
        (&[("central.yaml", CENTRAL)], "there is no PrivateCloudProfile in the files, so there is nothing to render"),
        (
            &[("x.yaml", "kind: Pod\napiVersion: v1\n")],
            "x.yaml holds no CloudProfile or PrivateCloudProfile of core.gardener.cloud",
        ),
        (&[("x.yaml", "a: [")], "x.yaml is neither YAML nor JSON"),
        (
            &[("a", CENTRAL), ("b", CENTRAL), ("team.yaml", TEAM)],
            "b: CloudProfile central: stands in the files more than once",
        ),
        (
            &[("a", CENTRAL), ("b", TEAM), ("c", TEAM)],
            "c: PrivateCloudProfile team/own: stands in the files more than once",
        ),
        (&[("a", CENTRAL), ("b", &TEAM.replace("central", "own"))], "CloudProfile \"own\" is in none of the files"),
        (
            &[("a", &CENTRAL.replace("type: aws", "a: b")), ("b", TEAM)],
            "a: CloudProfile central: spec.type: Required value",
        ),
        (
            &[("a", &CENTRAL.replace("cpu: '4'", "cpu: []")), ("b", TEAM)],
            "spec.machineTypes[m5.large]: invalid type: sequence, expected a quantity such as 4 or 8Gi",
        ),
    ] {
        let (_folder, output) = catalog(files, &["render", "--at", AT]);
        let err = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()), "{err}");
        assert!(err.contains(says), "it does not say {says:?}: {err}");
    }
}

#[test]
fn the_kind_of_other_landscapes_is_read_without_what_it_may_not_say_here() {
    let theirs = TEAM
        .replace("kind: PrivateCloudProfile", "kind: NamespacedCloudProfile")
        .replace("parent: central", "parent: {kind: CloudProfile, name: central}\n  providerConfig: {theirs: true}");
    let (_folder, output) = catalog(&[("central.yaml", CENTRAL), ("team.yaml", &theirs)], &["render", "--at", AT]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{err}");
    let ignored = "warning: team.yaml: NamespacedCloudProfile team/own: spec.providerConfig: is ignored: providerConfig is inherited";
    assert!(err.contains(ignored), "{err}");
    assert!(out.contains("ratio: 1.10") && !out.contains("theirs"), "{out}");
    let ours = theirs.replace("NamespacedCloudProfile", "PrivateCloudProfile");
    let (_folder, output) = catalog(&[("central.yaml", CENTRAL), ("team.yaml", &ours)], &["render", "--at", AT]);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("spec.providerConfig: Forbidden: providerConfig is inherited from the parent"), "{err}");
}

#[test]
fn lint_ends_with_what_it_found() {
    let files = [("central.yaml", CENTRAL), ("team.yaml", TEAM)];
    let found = format!("error: {SLIP}\nerror: {DATE}\nwarning: {CONFLICT}\n");
    check(&files, &["lint", "--at", AT], 1, &found, &["error: 2 errors in the profiles"]);
    let (central, team) = (CENTRAL.replace("15.10", "'15.10'"), TEAM.replace("06-1T", "06-01T"));
    let right = [("central.yaml", central.as_str()), ("team.yaml", team.as_str())];
    check(&right, &["lint", "--at", AT], 0, &format!("warning: {CONFLICT}\n"), &[]);
    check(
        &right,
        &["lint", "--strict", "--at", AT],
        1,
        &format!("error: {CONFLICT}\n"),
        &["error: 1 error in the profiles"],
    );
    check(&right[..1], &["lint", "--at", AT], 0, "", &[]);
    let twice = central.replace("  type: aws\n", "  type: aws\n  type: aws\n");
    let (_folder, output) = catalog(&[("central.yaml", &twice)], &["lint", "--at", AT]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("key \"type\" already set in map"), "{}", text(&output.stdout));
    let (_folder, output) = catalog(&[("x.yaml", "a: [")], &["lint"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{}", text(&output.stderr));
    let folder = Folder::new();
    let output = allot(&folder).args(["catalog", "lint", "not-there.yaml"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("cannot read not-there.yaml"), "{}", text(&output.stderr));
    let wrong = |words: &[&str]| allot(&folder).args(words).output().expect("it runs").status.code();
    assert_eq!(
        wrong(&["catalog", "lint", "--no-such-flag", "x"]),
        Some(2),
        "as every check that could not do its work"
    );
    assert_eq!(wrong(&["--context", "x", "catalog", "lint"]), Some(2));
    assert_eq!(wrong(&["catalog", "lint", "--help"]), Some(0));
    assert_eq!(wrong(&["catalog", "render", "--no-such-flag"]), Some(64));
    assert_eq!(wrong(&["catalog", "diff", "--exit-code", "--no-such-flag", "x"]), Some(2));
    assert_eq!(wrong(&["catalog", "diff", "--no-such-flag", "x"]), Some(64));
    assert_eq!(wrong(&["request", "catalog", "lint"]), Some(64));
}

#[test]
fn lint_tells_what_is_more_than_a_definition_allows() {
    let central = CENTRAL.replace("15.10", "'15.10'");
    let many: String = (0..5001).map(|n| format!("\n  - {{name: m{n}, cpu: 1, memory: 1Gi}}")).collect();
    let team = "apiVersion: core.gardener.cloud/v1beta1\nkind: PrivateCloudProfile\nmetadata: {name: own, namespace: team}\nspec:\n  \
        parent: central\n  machineTypes:"
        .to_owned() + &many;
    let files = [("central.yaml", central.as_str()), ("team.yaml", team.as_str())];
    let found = "error: team.yaml: PrivateCloudProfile team/own: spec.machineTypes: Too many: 5001: must have at most 5000 items\n";
    check(&files, &["lint", "--at", AT], 1, found, &["error: 1 error in the profiles"]);
    let long = format!("  type: aws\n  volumeTypes: [{{name: v, class: {}}}]\n", "c".repeat(254));
    let central = central.replace("  type: aws\n", &long);
    let found = "error: central.yaml: CloudProfile central: spec.volumeTypes[0].class: Too long: may not be more than 253 bytes\n";
    check(&[("central.yaml", central.as_str())], &["lint", "--at", AT], 1, found, &["error: 1 error in the profiles"]);
}

#[test]
fn lint_refuses_what_an_api_server_refuses_and_takes_what_it_takes() {
    let right = CENTRAL.replace("15.10", "'15.10'");
    let check = |from: &str, to: &str, expect: Option<&str>| {
        let central = right.replace(from, to);
        assert_ne!(central, right, "{from}");
        let (_folder, output) = catalog(&[("central.yaml", &central)], &["lint", "--at", AT]);
        let said = text(&output.stdout);
        let expect = expect.map(|expect| format!("error: central.yaml: CloudProfile central: {expect}"));
        assert_eq!(output.status.code(), Some(i32::from(expect.is_some())), "{to:.80}: {said}");
        assert!(said.starts_with(expect.as_deref().unwrap_or_default()), "{to:.80}: {said}");
        assert_eq!(said.lines().count(), usize::from(expect.is_some()), "{to:.80}: {said}");
    };
    let number = "spec.machineTypes[0].cpu: Invalid value: \"number\": spec.machineTypes[0].cpu in body must be of type integer,string";
    check("cpu: '4'", "cpu: 1.5", Some(number));
    check("cpu: '4'", "cpu: 4.0", None);
    check("  type: aws", "  limits: {maxNodesTotal: 5.0}\n  type: aws", None);
    check("  type: aws", "  limits: {maxNodesTotal: 5.5}\n  type: aws", Some("spec.limits: "));
    check("{name: central}", "{name: central, labels: {'a b': c}}", Some("metadata.labels: Invalid value: \"a b\""));
    check("{name: central}", "{name: central, labels: {a: 'c d'}}", Some("metadata.labels: Invalid value: \"c d\""));
    check(
        "{name: central}",
        "{name: central, annotations: {'a b': c}}",
        Some("metadata.annotations: Invalid value: \"a b\""),
    );
    check(
        "{name: central}",
        "{name: central, finalizers: ['a b']}",
        Some("metadata.finalizers: Invalid value: \"a b\""),
    );
    check("{name: central}", "{name: central, labels: [a]}", Some("metadata: invalid type: sequence"));
    let large = format!("{{name: central, annotations: {{a: {}}}}}", "x".repeat(300_000));
    check("{name: central}", &large, Some("metadata.annotations: Too long"));
    // What a server shows of an object and does not take from a writer.
    check("spec:", "status: {conditions: no list}\nspec:", None);
}

#[test]
fn differences_are_told_by_key_and_what_the_parent_holds_against_is_marked() {
    let team = TEAM.replace("06-1T", "06-01T");
    let central = CENTRAL.replace("15.10", "'15.10'");
    let files = [("central.yaml", central.as_str()), ("team.yaml", team.as_str())];
    let expect = "--- CloudProfile central
+++ PrivateCloudProfile team/own
~ spec.kubernetes.versions[1.29.1].expirationDate: 2026-01-01T00:00:00Z -> 2027-06-01T00:00:00Z
+ spec.machineTypes[big]
! spec.machineTypes[m5.large]: parent value {\"cpu\":\"4\"} holds, child value {\"cpu\":\"2\"}: cpu differs from what the parent says, which holds
";
    let warning = format!("warning: {CONFLICT}");
    check(&files, &["diff", "--at", AT], 0, expect, &[&warning]);
    check(&files, &["diff", "--at", AT, "--exit-code"], 1, expect, &[&warning]);

    let (_folder, output) = catalog(&files, &["diff", "--at", AT, "-o", "json"]);
    let read: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let profile = &read["profiles"][0];
    assert_eq!(
        (&profile["parent"], &profile["namespace"], &profile["name"]),
        (&"central".into(), &"team".into(), &"own".into())
    );
    assert_eq!(profile["differences"][0]["after"], "2027-06-01T00:00:00Z");
    assert_eq!(profile["differences"][1]["value"]["memory"], "1Ti");
    assert_eq!(profile["conflicts"][0]["path"], "spec.machineTypes[m5.large]");

    let empty = "apiVersion: core.gardener.cloud/v1beta1\nkind: PrivateCloudProfile\nmetadata: {name: own, namespace: team}\n\
                 spec: {parent: central}\n";
    let same = "PrivateCloudProfile team/own says nothing that CloudProfile central does not say";
    check(&[files[0], ("team.yaml", empty)], &["diff", "--at", AT, "--exit-code"], 0, "", &[same]);

    let folder = Folder::new();
    let missing = |words: &[&str]| allot(&folder).args(["catalog", "diff"]).args(words).output().expect("it runs");
    let output = missing(&["own"]);
    let hint = "error: cannot read own: No such file or directory (os error 2); for PrivateCloudProfiles of a server name their \
                namespace with -n\n";
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(1), hint));
    assert_eq!(missing(&["own", "--exit-code"]).status.code(), Some(2));
}

#[test]
fn what_is_refused_outside_the_spec_is_an_error_as_well() {
    let check = |from: &str, to: &str, expect: &str| {
        let team = TEAM.replace("06-1T", "06-01T").replace(from, to);
        let central = CENTRAL.replace("15.10", "'15.10'");
        let (_folder, output) = catalog(&[("central.yaml", &central), ("team.yaml", &team)], &["lint", "--at", AT]);
        assert_eq!(output.status.code(), Some(1), "{to}: {}", text(&output.stdout));
        assert!(text(&output.stdout).contains(expect), "{to}: {}", text(&output.stdout));
    };
    check("name: own", "name: Own", "PrivateCloudProfile team/Own: metadata.name: Invalid value: \"Own\"");
    check("namespace: team", "namespace: no", "metadata.namespace: Invalid value: a text is wanted");
    check("name: own", "name: own, annotations: {a: true}", "metadata.annotations[a]: Invalid value: a text is wanted");
    check("cloud/v1beta1", "cloud/v1alpha1", "apiVersion: \"core.gardener.cloud/v1alpha1\" is not served");
    check("machineTypes:", "regions: [{name: no}]\n  machineTypes:", "expected a string: put it in quotes");
    check("parent: central", "parent: own", "CloudProfile \"own\" is in none of the files");
    let typed = TEAM.replace("kind: PrivateCloudProfile", "kind: PrivateCloudprofile");
    let (_folder, output) = catalog(&[("central.yaml", CENTRAL), ("team.yaml", &typed)], &["lint", "--at", AT]);
    let passed = "warning: team.yaml: a PrivateCloudprofile of core.gardener.cloud is passed over";
    assert!(text(&output.stderr).contains(passed), "{}", text(&output.stderr));
}

#[test]
fn names_of_somebody_else_s_do_not_act_on_the_terminal() {
    let team = TEAM.replace("name: big", "name: \"big\\e[2J\\n--- forged\"");
    let files = [("central.yaml", CENTRAL), ("team.yaml", team.as_str())];
    for words in [["diff", "--at", AT], ["lint", "--at", AT]] {
        let (_folder, output) = catalog(&files, &words);
        let all = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert!(!all.contains('\u{1b}') && !all.contains("\n--- forged"), "{all:?}");
        assert!(all.contains(r"u{1b}[2J"), "{all}");
    }
}

#[test]
fn lists_are_read_as_kubectl_prints_them() {
    let indented = |text: &str| {
        let documents = text.split("---\n").filter(|text| text.contains("core.gardener.cloud"));
        let item = |text: &str| {
            let lines: Vec<String> = text.trim().lines().map(|line| format!("  {line}")).collect();
            format!("- {}\n", lines.join("\n").trim_start())
        };
        documents.map(item).collect::<String>()
    };
    let (central, team) = (indented(CENTRAL), indented(TEAM));
    let list = format!("apiVersion: v1\nkind: List\nitems:\n{central}{team}");
    let found =
        "all.yaml: CloudProfile central: spec.machineImages[suse].versions[15.10].version: 15.10: a version is a text";
    let (_folder, output) = catalog(&[("all.yaml", &list)], &["lint", "--at", AT]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains(found), "{}", text(&output.stdout));

    // A list of one kind need not say it again; a list beside other documents counts as well.
    let bare = |text: &str| {
        let said = text.replace("apiVersion: core.gardener.cloud/v1beta1\n  kind: CloudProfile\n  ", "");
        format!("apiVersion: core.gardener.cloud/v1beta1\nkind: CloudProfileList\nitems:\n{said}")
    };
    assert!(!bare(&central).contains("kind: CloudProfile\n"));
    let stream = format!("{TEAM}---\n{}", bare(&central));
    let (_folder, output) = catalog(&[("all.yaml", &stream)], &["render", "--at", AT]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("name: own"), "{}", text(&output.stdout));
    let none = "apiVersion: v1\nkind: List\nitems: []\n";
    let (_folder, output) = catalog(&[("none.yaml", none)], &["lint"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
}

const SHOOTS: &str = "
apiVersion: core.gardener.cloud/v1beta1
kind: Shoot
metadata: {name: old, namespace: other}
spec: {cloudProfileName: central, kubernetes: {version: 1.29.1}}
---
apiVersion: core.gardener.cloud/v1beta1
kind: Shoot
metadata: {name: extended, namespace: team}
spec: {cloudProfile: {kind: PrivateCloudProfile, name: own}, kubernetes: {version: 1.29.1}}
---
apiVersion: core.gardener.cloud/v1beta1
kind: Shoot
metadata: {name: lost, namespace: team}
spec: {cloudProfile: {kind: PrivateCloudProfile, name: none}, kubernetes: {version: 1.29.1}}
";

#[test]
fn what_expires_is_told_by_date_with_whom_it_concerns() {
    let (central, team) = (CENTRAL.replace("15.10", "'15.10'"), TEAM.replace("06-1T", "06-01T"));
    let files = [("central.yaml", central.as_str()), ("team.yaml", team.as_str()), ("shoots.yaml", SHOOTS)];
    let lost = "not shown: Shoot team/lost: there is no PrivateCloudProfile team/none";
    let at = ["expiring", "--at", "2027-05-20T00:00:00Z"];
    let expect = "\
VERSION             EXPIRES                IN         PROFILES   SHOOTS
kubernetes 1.29.1   2026-01-01T00:00:00Z   504d ago   central    other/old
kubernetes 1.29.1   2027-06-01T00:00:00Z   12d        team/own   team/extended
";
    check(&files, &at, 0, expect, &[lost]);
    // As other landscapes call the private kind, in profiles and in Shoots that use them.
    let [team_of_others, shoots_of_others] =
        [&team, SHOOTS].map(|text| text.replace("PrivateCloudProfile", "NamespacedCloudProfile"));
    let of_others = [files[0], ("team.yaml", &team_of_others), ("shoots.yaml", &shoots_of_others)];
    check(&of_others, &at, 0, expect, &[lost]);
    let near: String = expect.lines().take(2).map(|line| format!("{line}\n")).collect();
    check(&files, &[at.as_slice(), &["--within", "11d"]].concat(), 0, &near, &[lost]);
    let (_folder, output) = catalog(&files, &[at.as_slice(), &["-o", "json"]].concat());
    let read: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(read["until"], "2027-06-19T00:00:00Z");
    assert_eq!(read["versions"][1]["shoots"][0], "team/extended");
    assert_eq!((&read["versions"][0]["expired"], &read["versions"][1]["expired"]), (&true.into(), &false.into()));
    check(&files[..1], &["expiring", "--at", AT], 0, "", &["nothing expires until 2025-01-31T00:00:00Z"]);
    let none = "error: there is no CloudProfile in the files, so there is no version that could expire; add its file";
    check(&files[1..2], &["expiring", "--at", AT], 1, "", &[none]);
}

#[test]
fn the_examples_are_right_and_say_what_they_are_for() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/catalog/");
    let read = |name: &str| std::fs::read_to_string(format!("{examples}{name}")).expect("an example");
    let (central, team, longer, shoot) =
        (read("central.yaml"), read("team.yaml"), read("longer.yaml"), read("shoot.yaml"));
    for private in [&team, &longer] {
        let files = [("central.yaml", central.as_str()), ("private.yaml", private)];
        check(&files, &["lint", "--strict", "--at", "2027-01-01T00:00:00Z"], 0, "", &[]);
        let (_folder, output) = catalog(&files, &["render", "-o", "json", "--at", "2027-01-01T00:00:00Z"]);
        let rendered: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(rendered["spec"]["machineTypes"][1]["name"], "m5.xlarge");
        assert_eq!(rendered["spec"]["type"], "example");
    }
    let files = [("central.yaml", central.as_str()), ("longer.yaml", &longer), ("shoot.yaml", &shoot)];
    let (_folder, output) = catalog(&files, &["expiring", "-o", "json", "--at", "2097-12-31T00:00:00Z"]);
    let read: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(read["versions"][0]["shoots"][0], "team-green/shop", "{read}");
}
