//! What `allot top` has seen, as tables and as JSON: what is counted, what comes first, and what each column says.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::seen::{ClusterSeen, ProviderSeen, PurposeSeen, RequestSeen, RequestsSeen, Seen};
use crate::cli::{Section, SortBy, Top};
use crate::output;

/// Prefixes and profiles that stand in a row for people.
const MOST_NAMED: usize = 3;

/// One table.
pub(super) struct Shown {
    /// In JSON.
    field: &'static str,
    /// For people, before the table.
    title: String,
    /// Whether such may be seen at all; else there are neither rows nor totals.
    seen: bool,
    heading: &'static [&'static str],
    /// The columns that only `-o wide` has, which stand at the end.
    wide: usize,
    rows: Vec<Row>,
    /// How many rows there are beyond these.
    more: usize,
    /// Totals, for programs.
    totals: Value,
}

/// One row, for people and for programs.
struct Row {
    cells: Vec<String>,
    value: Value,
}

/// The sections that were asked for, sorted and cut.
pub(super) fn sections(seen: &Seen, arguments: &Top, now: Timestamp) -> Vec<Shown> {
    let wanted = |section| arguments.section.is_none_or(|only| only == section);
    let mut shown = Vec::new();
    if wanted(Section::Clusters) {
        shown.push(clusters(seen, arguments, now));
    }
    if wanted(Section::Purposes) {
        shown.push(purposes(seen, arguments, now));
    }
    if wanted(Section::Requests) {
        shown.push(requests(seen, arguments, now));
    }
    if wanted(Section::Providers) {
        shown.push(providers(seen, arguments, now));
    }
    shown
}

/// As text, an empty line between sections.
pub(super) fn as_text(sections: &[Shown], wide: bool) -> String {
    let mut parts = Vec::new();
    for section in sections {
        let columns = section.heading.len() - if wide { 0 } else { section.wide };
        let cells = |row: &Row| row.cells.iter().take(columns).cloned().collect::<Vec<_>>();
        let rows: Vec<Vec<String>> = section.rows.iter().map(cells).collect();
        let mut text = section.title.clone();
        if !rows.is_empty() {
            text = format!("{text}\n{}", output::table(&section.heading[..columns], &rows));
        }
        if section.more > 0 {
            text = format!("{text}\nand {} more; --limit 0 shows all", section.more);
        }
        parts.push(text);
    }
    parts.join("\n\n")
}

/// As JSON, one field a section.
pub(super) fn as_value(sections: &[Shown], unseen: &[String]) -> Value {
    let mut value = json!({ "unseen": unseen });
    for section in sections {
        let items: Vec<&Value> = section.rows.iter().map(|row| &row.value).collect();
        let mut of_it = section.totals.clone();
        of_it["seen"] = json!(section.seen);
        of_it["items"] = if section.seen { json!(items) } else { Value::Null };
        of_it["omitted"] = json!(section.more);
        value[section.field] = of_it;
    }
    value
}

/// A section of what may not be seen: a dash in place of numbers, and why stands beside all sections.
fn unseen(field: &'static str, what: &str) -> Shown {
    Shown {
        field,
        title: format!("- {what}: they may not be listed"),
        seen: false,
        heading: &[],
        wide: 0,
        rows: Vec::new(),
        more: 0,
        totals: json!({}),
    }
}

/// A number for people; a dash where it may not be seen.
fn shown(count: Option<usize>) -> String {
    count.map_or("-".to_owned(), |count| count.to_string())
}

/// Sorts by `by`, then the name, and cuts.
fn cut<T, K: Ord>(items: &[T], limit: usize, by: impl Fn(&T) -> K) -> (Vec<&T>, usize) {
    let mut sorted: Vec<&T> = items.iter().collect();
    sorted.sort_by_cached_key(|item| by(item));
    let kept = if limit == 0 { sorted.len() } else { limit.min(sorted.len()) };
    let more = sorted.len() - kept;
    sorted.truncate(kept);
    (sorted, more)
}

/// How many tenants have room on a Cluster: the least of what its Purposes allow.
fn room(cluster: &ClusterSeen, most: &BTreeMap<&str, usize>) -> Option<usize> {
    match cluster.dedicated {
        true => Some(1),
        false => cluster.purposes.iter().filter_map(|purpose| most.get(purpose.as_str()).copied()).min(),
    }
}

fn clusters(seen: &Seen, arguments: &Top, now: Timestamp) -> Shown {
    let Some(there) = &seen.clusters else { return unseen("clusters", "Clusters") };
    let purposes = seen.purposes.iter().flatten();
    let most: BTreeMap<&str, usize> =
        purposes.filter_map(|purpose| Some((purpose.name.as_str(), purpose.max_tenants?))).collect();
    let access =
        |cluster: &ClusterSeen| seen.access.as_ref().map(|access| access.get(&cluster.uid).copied().unwrap_or(0));
    let fullness = |cluster: &ClusterSeen| {
        // In parts of a thousand; without a bound it is never full.
        room(cluster, &most).map_or(0, |room| cluster.tenants * 1000 / room.max(1))
    };
    let (sorted, more) = cut(there, arguments.limit, |cluster| {
        let first = match arguments.sort {
            SortBy::Name => (0, 0),
            SortBy::Health => (unwell(cluster), 0),
            SortBy::Age => (seconds(cluster.created), 0),
            SortBy::Tenants => (-number(fullness(cluster)), -number(cluster.tenants)),
            SortBy::Access => (-number(access(cluster).unwrap_or(0)), 0),
            SortBy::Idle => (cluster.idle_since.map_or(i64::MAX, Timestamp::as_second), 0),
        };
        (first, cluster.name.clone())
    });
    let rows = sorted.into_iter().map(|cluster| {
        let room = room(cluster, &most);
        let tenants = format!("{}/{}", cluster.tenants, shown(room));
        let health = if cluster.spare { format!("{}, spare", cluster.health) } else { cluster.health.to_owned() };
        Row {
            cells: vec![
                cluster.name.clone(),
                cluster.purposes.join(","),
                tenants,
                shown(access(cluster)),
                health,
                age(cluster.created, now),
                cluster.idle_since.map_or("-".to_owned(), |since| age(Some(since), now)),
                named(&cluster.prefixes),
                format!("{}/{}", cluster.provider, cluster.profile),
                cluster.version.clone(),
                cluster.released.to_string(),
            ],
            value: json!({
                "cluster": cluster.name, "purposes": cluster.purposes, "tenants": cluster.tenants, "room": room,
                "dedicated": cluster.dedicated, "spare": cluster.spare, "access": access(cluster),
                "health": cluster.health, "created": cluster.created, "idleSince": cluster.idle_since,
                "prefixes": cluster.prefixes, "releasedTenants": cluster.released, "provider": cluster.provider,
                "profile": cluster.profile, "version": cluster.version,
            }),
        }
    });
    let count = |health: &str| there.iter().filter(|cluster| cluster.health == health).count();
    let (total, ready) = (there.len(), count("Ready"));
    let idle = there.iter().filter(|cluster| cluster.idle_since.is_some()).count();
    Shown {
        field: "clusters",
        title: format!("{}, {ready} ready, {idle} idle", output::counted(total, "Cluster")),
        seen: true,
        heading: &[
            "CLUSTER", "PURPOSES", "TENANTS", "ACCESS", "HEALTH", "AGE", "IDLE", "PREFIXES", "PROFILE", "VERSION",
            "RELEASED",
        ],
        wide: 3,
        rows: rows.collect(),
        more,
        totals: json!({"total": total, "ready": ready, "idle": idle}),
    }
}

/// What is unwell comes first, the worst of it first.
fn unwell(cluster: &ClusterSeen) -> i64 {
    match cluster.health {
        "Unhealthy" => 0,
        "DeletionBlocked" => 1,
        "Withdrawn" => 2,
        "Creating" => 3,
        "Deleting" => 4,
        "Draining" => 5,
        _ => 6,
    }
}

/// What a Purpose has beside what is known of it as a whole, counted over the Clusters and requests that are shown.
#[derive(Default)]
struct Use {
    tenants: usize,
    waiting: usize,
}

fn purposes(seen: &Seen, arguments: &Top, now: Timestamp) -> Shown {
    let Some(there) = &seen.purposes else { return unseen("purposes", "Purposes") };
    let mut uses: BTreeMap<&str, Use> = BTreeMap::new();
    for cluster in seen.clusters.iter().flatten() {
        for purpose in &cluster.purposes {
            uses.entry(purpose).or_default().tenants += cluster.tenants;
        }
    }
    let open = seen.requests.iter().flat_map(|requests| &requests.open);
    for purpose in open.flat_map(|request| &request.purposes) {
        uses.entry(purpose).or_default().waiting += 1;
    }
    let none = Use::default();
    let used = |purpose: &PurposeSeen| uses.get(purpose.name.as_str()).unwrap_or(&none);
    let tenants = |purpose: &PurposeSeen| seen.clusters.is_some().then(|| used(purpose).tenants);
    let waiting = |purpose: &PurposeSeen| seen.requests.is_some().then(|| used(purpose).waiting);
    let full = |purpose: &PurposeSeen| match (purpose.max_clusters, purpose.clusters) {
        (None, _) => Some(false),
        (Some(most), clusters) => clusters.map(|clusters| clusters >= most),
    };
    let (sorted, more) = cut(there, arguments.limit, |purpose| {
        let first = match arguments.sort {
            SortBy::Name => 0,
            SortBy::Health => {
                let lacks = used(purpose).waiting > 0 || purpose.spares.is_some_and(|spares| spares < purpose.warm);
                if lacks { 0 } else { 1 + i64::from(full(purpose) != Some(true)) }
            }
            SortBy::Age => seconds(purpose.created),
            SortBy::Tenants | SortBy::Access => -number(purpose.clusters.unwrap_or(0)),
            SortBy::Idle => number(used(purpose).tenants),
        };
        (first, purpose.name.clone())
    });
    let rows = sorted.into_iter().map(|purpose| Row {
        cells: vec![
            purpose.name.clone(),
            if purpose.dedicated { "dedicated".to_owned() } else { "shared".to_owned() },
            format!("{}/{}", shown(purpose.clusters), shown(purpose.max_clusters)),
            format!("{}/{}", shown(purpose.spares), purpose.warm),
            shown(tenants(purpose)),
            shown(waiting(purpose)),
            age(purpose.created, now),
            shown(purpose.max_tenants),
        ],
        value: json!({
            "purpose": purpose.name, "dedicated": purpose.dedicated, "clusters": purpose.clusters,
            "maxClusters": purpose.max_clusters, "full": full(purpose), "spares": purpose.spares,
            "warm": purpose.warm, "tenants": tenants(purpose), "maxTenants": purpose.max_tenants,
            "waiting": waiting(purpose), "created": purpose.created,
        }),
    });
    let partly = if seen.partly { "; tenants and what waits as far as shown here" } else { "" };
    Shown {
        field: "purposes",
        title: format!("{}{partly}", output::counted(there.len(), "Purpose")),
        seen: true,
        heading: &["PURPOSE", "KIND", "CLUSTERS", "SPARES", "TENANTS", "WAITING", "AGE", "MAX-TENANTS"],
        wide: 1,
        rows: rows.collect(),
        more,
        totals: json!({"total": there.len(), "partly": seen.partly}),
    }
}

fn requests(seen: &Seen, arguments: &Top, now: Timestamp) -> Shown {
    let Some(RequestsSeen { granted, open }) = &seen.requests else { return unseen("requests", "ClusterRequests") };
    let (sorted, more) = cut(open, arguments.limit, |request: &RequestSeen| {
        // Those that wait longest first, whatever Clusters are sorted by: there is nothing else to tell them by.
        let first = if arguments.sort == SortBy::Name { 0 } else { seconds(request.created) };
        (first, request.name.clone())
    });
    let rows = sorted.into_iter().map(|request| Row {
        cells: vec![
            request.name.clone(),
            request.status.to_owned(),
            request.reason.clone(),
            age(request.created, now),
            request.purposes.join(","),
            request.message.clone(),
        ],
        value: json!({
            "request": request.name, "status": request.status, "reason": request.reason, "message": request.message,
            "purposes": request.purposes, "created": request.created,
        }),
    });
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for request in open {
        *reasons.entry(&request.reason).or_default() += 1;
    }
    let texts: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    let told = if texts.is_empty() { String::new() } else { format!(": {}", texts.join(", ")) };
    Shown {
        field: "requests",
        title: format!("{} granted, {} not{told}", output::counted(*granted, "request"), open.len()),
        seen: true,
        heading: &["REQUEST", "STATUS", "REASON", "SINCE", "PURPOSES", "MESSAGE"],
        wide: 1,
        rows: rows.collect(),
        more,
        totals: json!({"granted": granted, "notGranted": open.len(), "reasons": reasons}),
    }
}

fn providers(seen: &Seen, arguments: &Top, now: Timestamp) -> Shown {
    let Some(there) = &seen.providers else { return unseen("providers", "ClusterProviders") };
    let count = |provider: &ProviderSeen| {
        seen.of_provider.as_ref().map(|counts| counts.get(&provider.name).copied().unwrap_or(0))
    };
    let (sorted, more) = cut(there, arguments.limit, |provider| {
        let first = match arguments.sort {
            SortBy::Name => 0,
            SortBy::Health => i64::from(provider.ready),
            SortBy::Age => seconds(provider.created),
            SortBy::Tenants | SortBy::Access => -number(count(provider).unwrap_or(0)),
            SortBy::Idle => number(count(provider).unwrap_or(0)),
        };
        (first, provider.name.clone())
    });
    let rows = sorted.into_iter().map(|provider| Row {
        cells: vec![
            provider.name.clone(),
            if provider.ready { "Ready".to_owned() } else { "NotReady".to_owned() },
            provider.reason.clone(),
            shown(count(provider)),
            named(&provider.profiles),
            age(provider.created, now),
            provider.package.clone(),
            provider.message.clone(),
        ],
        value: json!({
            "provider": provider.name, "ready": provider.ready, "reason": provider.reason,
            "message": provider.message, "clusters": count(provider), "profiles": provider.profiles,
            "package": provider.package, "created": provider.created,
        }),
    });
    let ready = there.iter().filter(|provider| provider.ready).count();
    Shown {
        field: "providers",
        title: format!("{}, {ready} ready", output::counted(there.len(), "ClusterProvider")),
        seen: true,
        heading: &["PROVIDER", "HEALTH", "REASON", "CLUSTERS", "PROFILES", "AGE", "PACKAGE", "MESSAGE"],
        wide: 2,
        rows: rows.collect(),
        more,
        totals: json!({"total": there.len(), "ready": ready}),
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn seconds(time: Option<Timestamp>) -> i64 {
    time.map_or(i64::MAX, Timestamp::as_second)
}

/// The first few, and how many more.
fn named(names: &[String]) -> String {
    match names.len() {
        0 => "-".to_owned(),
        count if count > MOST_NAMED => format!("{} +{}", names[..MOST_NAMED].join(","), count - MOST_NAMED),
        _ => names.join(","),
    }
}

/// How long ago, in the two greatest units that kubectl would show.
fn age(since: Option<Timestamp>, now: Timestamp) -> String {
    let Some(since) = since else { return "-".to_owned() };
    let secs = now.as_second().saturating_sub(since.as_second()).max(0);
    match secs {
        0..120 => format!("{secs}s"),
        120..7200 => format!("{}m", secs / 60),
        7200..172_800 => format!("{}h", secs / 3600),
        _ => format!("{}d", secs / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn cluster(name: &str, tenants: usize, health: &'static str) -> ClusterSeen {
        ClusterSeen {
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            purposes: vec!["w".to_owned()],
            provider: "p".to_owned(),
            profile: "q".to_owned(),
            version: "1.36.3".to_owned(),
            dedicated: false,
            spare: tenants == 0,
            by_hand: false,
            tenants,
            released: 0,
            prefixes: (0..tenants).map(|index| format!("p{index}-")).collect(),
            health,
            created: Some(at(-7200)),
            idle_since: (tenants == 0).then(|| at(-90)),
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).expect("a time")
    }

    fn seen() -> Seen {
        Seen {
            clusters: Some(vec![
                cluster("n/a", 5, "Ready"),
                cluster("n/b", 0, "Ready"),
                cluster("n/c", 1, "Unhealthy"),
            ]),
            purposes: Some(vec![PurposeSeen {
                name: "w".to_owned(),
                dedicated: false,
                max_tenants: Some(5),
                max_clusters: Some(3),
                warm: 2,
                clusters: Some(3),
                spares: Some(1),
                created: Some(at(-400_000)),
            }]),
            requests: Some(RequestsSeen {
                granted: 6,
                open: vec![RequestSeen {
                    name: "t/r".to_owned(),
                    status: "Pending",
                    reason: "MaxClustersReached".to_owned(),
                    message: "as many as its maxClusters allows".to_owned(),
                    purposes: vec!["w".to_owned()],
                    created: Some(at(-60)),
                }],
            }),
            providers: Some(vec![ProviderSeen {
                name: "p".to_owned(),
                ready: true,
                reason: "AllGood".to_owned(),
                message: "The provider is ready.".to_owned(),
                package: "builtin:p".to_owned(),
                profiles: vec!["q".to_owned()],
                created: None,
            }]),
            access: Some([("uid-n/a".to_owned(), 2)].into()),
            of_provider: Some([("p".to_owned(), 3)].into()),
            partly: false,
            unseen: Vec::new(),
        }
    }

    fn arguments(words: &[&str]) -> Top {
        match Cli::try_parse_from([&["allot", "top"], words].concat()).expect("a command").command {
            Command::Top(arguments) => arguments,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn everything_an_operator_asks_first_stands_in_four_tables() {
        let text = as_text(&sections(&seen(), &arguments(&[]), at(0)), false);
        let expect = "\
3 Clusters, 2 ready, 1 idle
CLUSTER   PURPOSES   TENANTS   ACCESS   HEALTH         AGE   IDLE   PREFIXES
n/c       w          1/5       0        Unhealthy      2h    -      p0-
n/a       w          5/5       2        Ready          2h    -      p0-,p1-,p2- +2
n/b       w          0/5       0        Ready, spare   2h    90s    -

1 Purpose
PURPOSE   KIND     CLUSTERS   SPARES   TENANTS   WAITING   AGE
w         shared   3/3        1/2      6         1         4d

6 requests granted, 1 not: 1 MaxClustersReached
REQUEST   STATUS    REASON               SINCE   PURPOSES
t/r       Pending   MaxClustersReached   60s     w

1 ClusterProvider, 1 ready
PROVIDER   HEALTH   REASON    CLUSTERS   PROFILES   AGE
p          Ready    AllGood   3          q          -";
        assert_eq!(text, expect);
    }

    #[test]
    fn what_may_not_be_seen_has_a_dash_and_no_number() {
        let mut seen = seen();
        let check = |seen: &Seen, words: &[&str], expect: &str| {
            assert_eq!(as_text(&sections(seen, &arguments(words), at(0)), false), expect, "{words:?}");
        };
        seen.access = None;
        let clusters = "3 Clusters, 2 ready, 1 idle\n\
            CLUSTER   PURPOSES   TENANTS   ACCESS   HEALTH      AGE   IDLE   PREFIXES\n\
            n/c       w          1/5       -        Unhealthy   2h    -      p0-\nand 2 more; --limit 0 shows all";
        check(&seen, &["clusters", "--limit", "1"], clusters);
        // The Purpose itself says how many Clusters it has.
        (seen.clusters, seen.of_provider, seen.requests, seen.partly) = (None, None, None, true);
        let purposes = "1 Purpose; tenants and what waits as far as shown here\n\
            PURPOSE   KIND     CLUSTERS   SPARES   TENANTS   WAITING   AGE\n\
            w         shared   3/3        1/2      -         -         4d";
        check(&seen, &["purposes"], purposes);
        let providers = "1 ClusterProvider, 1 ready\n\
            PROVIDER   HEALTH   REASON    CLUSTERS   PROFILES   AGE\n\
            p          Ready    AllGood   -          q          -";
        check(&seen, &["providers"], providers);
        check(&seen, &["clusters"], "- Clusters: they may not be listed");
        check(&seen, &["requests"], "- ClusterRequests: they may not be listed");
        for purpose in seen.purposes.iter_mut().flatten() {
            (purpose.clusters, purpose.spares) = (None, None);
        }
        let value = as_value(&sections(&seen, &arguments(&[]), at(0)), &["why".to_owned()]);
        let purpose = &value["purposes"]["items"][0];
        assert_eq!(
            [&purpose["clusters"], &purpose["full"], &purpose["tenants"], &purpose["waiting"]],
            [&Value::Null; 4]
        );
        assert_eq!(value["clusters"], json!({"seen": false, "items": null, "omitted": 0}));
        assert_eq!(value["unseen"], json!(["why"]));
        seen = Seen::default();
        let nothing = ["Clusters", "Purposes", "ClusterRequests", "ClusterProviders"];
        check(&seen, &[], &nothing.map(|what| format!("- {what}: they may not be listed")).join("\n\n"));
    }

    #[test]
    fn programs_are_told_times_and_no_ages() {
        let at = |seconds| as_value(&sections(&seen(), &arguments(&[]), at(seconds)), &[]);
        assert_eq!(at(0), at(4711));
    }

    #[test]
    fn rows_are_sorted_and_cut_and_what_is_cut_is_counted() {
        let first = |words: &[&str]| {
            let shown = sections(&seen(), &arguments(words), at(0));
            let value = as_value(&shown, &[]);
            let items = value["clusters"]["items"].as_array().expect("items").clone();
            let names: Vec<String> =
                items.iter().map(|item| item["cluster"].as_str().expect("a name").to_owned()).collect();
            (names.join(" "), value["clusters"]["omitted"].as_u64())
        };
        let check = |words: &[&str], names: &str, omitted: u64| {
            assert_eq!(first(words), (names.to_owned(), Some(omitted)), "{words:?}");
        };
        check(&["--sort", "name"], "n/a n/b n/c", 0);
        check(&["--sort", "tenants"], "n/a n/c n/b", 0);
        check(&["--sort", "access", "--limit", "1"], "n/a", 2);
        check(&["--sort", "idle", "--limit", "1"], "n/b", 2);
        check(&["--limit", "0"], "n/c n/a n/b", 0);
        let shown = sections(&seen(), &arguments(&["clusters", "--limit", "2", "-o", "wide"]), at(0));
        let text = as_text(&shown, true);
        assert!(
            text.ends_with("and 1 more; --limit 0 shows all") && text.contains("p/q") && !text.contains("Purposes")
        );
    }
}
