//! Which form a client wants its reply in, and which form its body has
//! (`k8s.io/apiserver/pkg/endpoints/handlers/negotiation`).

use crate::status::ApiError;

/// How a reply is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Json,
    Yaml,
}

impl Media {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Media::Json => "application/json",
            Media::Yaml => "application/yaml",
        }
    }
}

/// What a reply shows of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// All of it.
    Whole,
    /// A table (`meta.k8s.io`, Table).
    Table,
    /// Type and metadata (`meta.k8s.io`, PartialObjectMetadata), asked for one object or for a list.
    Partial { list: bool },
}

/// What a client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accept {
    pub(crate) media: Media,
    pub(crate) form: Form,
    /// `v1` of `meta.k8s.io`; older clients ask for `v1beta1` and are answered in it.
    pub(crate) meta_version: &'static str,
    pub(crate) pretty: bool,
}

impl Default for Accept {
    fn default() -> Self {
        Accept { media: Media::Json, form: Form::Whole, meta_version: "v1", pretty: false }
    }
}

/// The most media ranges of an `Accept` header that are looked at. Clients send a handful. To put them in order
/// takes time that grows with the square of their number, and is taken before anybody knows who asks: a header
/// as long as the listener lets in would have some 20,000.
const MOST_CLAUSES: usize = 64;

/// One media range of an `Accept` header.
#[derive(Debug)]
pub(crate) struct Clause<'a> {
    pub(crate) media: &'a str,
    params: Vec<(&'a str, &'a str)>,
    quality: f64,
}

impl Clause<'_> {
    /// The value of a parameter; the last one, if it stands there again.
    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().rev().find(|(have, _)| *have == name).map(|(_, value)| *value)
    }

    pub(crate) fn matches(&self, media: &str) -> bool {
        let of_type = |range: &str| range.strip_suffix('*').is_some_and(|prefix| media.starts_with(prefix));
        self.media == media || self.media == "*/*" || (self.media.ends_with("/*") && of_type(self.media))
    }

    /// Whether it goes before `other`. No order in the strict sense: both may go before each other.
    fn precedes(&self, other: &Clause<'_>) -> bool {
        let (kind, of) = self.media.split_once('/').unwrap_or_default();
        let (other_kind, other_of) = other.media.split_once('/').unwrap_or_default();
        self.quality > other.quality || (kind != "*" && other_kind == "*") || (of != "*" && other_of == "*")
    }
}

/// Whether a client takes `media`; one that does not say takes anything.
pub(crate) fn accepts(header: Option<&str>, media: &str) -> bool {
    let Some(header) = header.filter(|text| !text.trim().is_empty()) else { return true };
    clauses(header).iter().any(|clause| clause.matches(media))
}

/// The media ranges of an `Accept` header in the order in which Kubernetes tries them
/// (`github.com/munnerz/goautoneg`); of a header with more than [`MOST_CLAUSES`], the first ones.
pub(crate) fn clauses(header: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = header.split(',').filter_map(clause).take(MOST_CLAUSES).collect();
    // By insertion, since where no order is right this is the one that clients know.
    for next in 1..clauses.len() {
        let mut at = next;
        while at > 0 && clauses[at].precedes(&clauses[at - 1]) {
            clauses.swap(at, at - 1);
            at -= 1;
        }
    }
    clauses
}

fn clause(text: &str) -> Option<Clause<'_>> {
    let mut parts = text.trim_matches(' ').split(';');
    let media = match parts.next().unwrap_or_default().trim_matches(' ') {
        "*" => "*/*",
        media => media,
    };
    let (_, of) = media.split_once('/')?;
    if of.is_empty() || of.contains('/') {
        return None;
    }
    let mut clause = Clause { media, params: Vec::new(), quality: 1.0 };
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        if value.is_empty() || value.contains('=') {
            continue;
        }
        match name.trim_matches(' ') {
            "q" => clause.quality = value.parse().unwrap_or_default(),
            name => clause.params.push((name, value.trim_matches(' '))),
        }
    }
    Some(clause)
}

/// What every refusal lists: all that requests and replies may have.
const MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// What it lists of watches.
const STREAM_TYPES: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Objects, which can be had as tables and the like.
    Objects,
    /// Anything else: it comes in its one form.
    Document,
}

/// What the client accepts of what there is; 406 where it accepts nothing
/// (`negotiation.NegotiateOutputMediaType`).
pub(crate) fn accept(header: Option<&str>, asked: Asked) -> Result<Accept, ApiError> {
    let Some(header) = header.filter(|text| !text.is_empty()) else { return Ok(Accept::default()) };
    for clause in clauses(header) {
        for media in [Media::Json, Media::Yaml] {
            if clause.matches(media.content_type())
                && let Some((form, meta_version)) = form(&clause, media, asked)
            {
                let pretty = clause.param("pretty").is_some_and(|value| value == "1");
                return Ok(Accept { media, form, meta_version, pretty });
            }
        }
    }
    Err(not_acceptable(MEDIA_TYPES))
}

/// Refuses streams of what cannot be streamed.
pub(crate) fn check_streams(accept: Accept) -> Result<(), ApiError> {
    if accept.media == Media::Json { Ok(()) } else { Err(not_acceptable(STREAM_TYPES)) }
}

fn not_acceptable(accepted: &str) -> ApiError {
    ApiError::new(406, "NotAcceptable", format!("only the following media types are accepted: {accepted}"))
}

/// The form that a clause asks for; `None` where it cannot be had.
fn form(clause: &Clause<'_>, media: Media, asked: Asked) -> Option<(Form, &'static str)> {
    let streams = clause.param("stream").is_none_or(|value| value == "watch" && media == Media::Json);
    let of_version = clause.param("sv").is_none_or(|value| value == "v1" && asked == Asked::Objects);
    if !streams || !of_version {
        return None;
    }
    let (kind, group, version) = (clause.param("as"), clause.param("g"), clause.param("v"));
    if kind.is_none() && group.is_none() && version.is_none() {
        return Some((Form::Whole, "v1"));
    }
    if group != Some("meta.k8s.io") || asked == Asked::Document {
        return None;
    }
    let version = match version {
        Some("v1") => "v1",
        Some("v1beta1") => "v1beta1",
        _ => return None,
    };
    match kind {
        Some("Table") => Some((Form::Table, version)),
        Some("PartialObjectMetadata") => Some((Form::Partial { list: false }, version)),
        Some("PartialObjectMetadataList") => Some((Form::Partial { list: true }, version)),
        _ => None,
    }
}

/// What most paths produce.
pub(crate) const ONE_BODY: &[&str] = &[MEDIA_TYPES];
/// What paths produce that can be watched as well.
pub(crate) const BODY_OR_STREAM: &[&str] = &[MEDIA_TYPES, STREAM_TYPES];

/// Refuses a client that accepts nothing of what a path produces, before anything is looked at closer:
/// ranges such as `application/*` are nothing there (`github.com/emicklei/go-restful`).
pub(crate) fn check_produced(header: Option<&str>, produced: &[&str]) -> Result<(), ApiError> {
    let Some(header) = header.filter(|text| !text.is_empty()) else { return Ok(()) };
    let produced = produced.join(", ");
    let exact = |clause: &str| {
        let media = clause.split(';').next().unwrap_or_default().trim_matches(' ');
        media == "*/*" || produced.split(", ").any(|have| have == media)
    };
    if header.split(',').any(exact) {
        return Ok(());
    }
    let message = format!("406: Not Acceptable\n\nAvailable representations: {produced}");
    Err(ApiError::new(406, "NotAcceptable", message).with_details())
}

/// How the body of a request is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyMedia {
    Json,
    Yaml,
    Protobuf,
}

/// The media type of a `Content-Type` header, without its parameters, in lower case.
pub(crate) fn media_type(header: Option<&str>) -> String {
    header.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// How a body is written; no header means JSON. 415 for what cannot be read.
pub(crate) fn body_media(header: Option<&str>) -> Result<BodyMedia, ApiError> {
    match media_type(header).as_str() {
        "" | "application/json" => Ok(BodyMedia::Json),
        "application/yaml" => Ok(BodyMedia::Yaml),
        PROTOBUF => Ok(BodyMedia::Protobuf),
        _ => Err(unsupported_media(MEDIA_TYPES)),
    }
}

/// 415, listing what is accepted.
pub(crate) fn unsupported_media(accepted: &str) -> ApiError {
    let message =
        format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
    ApiError::new(415, "UnsupportedMediaType", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(header: &str, expect: (Media, Form)) {
        let accept = accept(Some(header), Asked::Objects).expect(header);
        assert_eq!((accept.media, accept.form), expect, "{header}");
    }

    #[test]
    fn the_first_acceptable_clause_wins() {
        check("application/json", (Media::Json, Form::Whole));
        check("*/*", (Media::Json, Form::Whole));
        check("application/*, application/yaml;q=0.1", (Media::Yaml, Form::Whole));
        check("application/vnd.kubernetes.protobuf,application/json", (Media::Json, Form::Whole));
        check("application/json;q=0.5, application/yaml", (Media::Yaml, Form::Whole));
        check("*/*, application/yaml", (Media::Yaml, Form::Whole));
        check("application/json;q=x, application/yaml;q=0.1", (Media::Yaml, Form::Whole));
        check("application/json;stream=other, application/yaml", (Media::Yaml, Form::Whole));
        check("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", (Media::Json, Form::Table));
        check("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", (Media::Json, Form::Whole));
        check(
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            (Media::Json, Form::Partial { list: true }),
        );
    }

    #[test]
    fn a_header_of_thousands_of_clauses_costs_no_more_than_one_of_some() {
        // Each `a/b` goes before each `*` that stands before it.
        let hostile = format!("{}{}", "*,".repeat(15 * 1024), "a/b,".repeat(7 * 1024));
        let found = clauses(&hostile);
        assert_eq!(found.len(), MOST_CLAUSES);
        assert!(found.iter().all(|clause| clause.media == "*/*"), "the first ones are looked at");
        check(&hostile, (Media::Json, Form::Whole));
        assert!(!accepts(Some(&"a/b,".repeat(15 * 1024)), "application/json"));
        let noise = "x,".repeat(15 * 1024);
        check(&format!("{noise}application/yaml"), (Media::Yaml, Form::Whole));
    }

    #[test]
    fn what_nobody_serves_is_refused() {
        for header in ["image/png", "text/*", "json", "application/json;as=Nope;v=v1;g=meta.k8s.io", PROTOBUF] {
            assert_eq!(accept(Some(header), Asked::Objects).expect_err(header).code, 406);
        }
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        for header in [table, "application/yaml;stream=watch", "application/json;sv=v1"] {
            assert_eq!(accept(Some(header), Asked::Document).expect_err(header).code, 406);
        }
        let yaml = accept(Some("application/yaml, application/json"), Asked::Objects).expect("YAML comes first");
        assert!(check_streams(yaml).is_err(), "what comes first is taken, though it cannot be streamed");
        for (header, fits) in [("application/*", false), ("text/plain, */*;q=0.1", true), (PROTOBUF, true), ("", true)]
        {
            assert_eq!(check_produced(Some(header), ONE_BODY).is_ok(), fits, "{header}");
        }
        assert_eq!(body_media(Some("application/json; charset=utf-8")), Ok(BodyMedia::Json));
        assert_eq!(body_media(Some("garbage;;")).expect_err("unknown").code, 415);
    }
}
