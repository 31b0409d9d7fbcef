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

/// One media range of an `Accept` header.
#[derive(Debug)]
pub(crate) struct Clause<'a> {
    pub(crate) media: &'a str,
    params: Vec<(&'a str, &'a str)>,
    quality: f32,
}

impl Clause<'_> {
    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(have, _)| *have == name).map(|(_, value)| *value)
    }

    pub(crate) fn matches(&self, media: &str) -> bool {
        let of_type = |range: &str| range.strip_suffix('*').is_some_and(|prefix| media.starts_with(prefix));
        self.media == media || self.media == "*/*" || (self.media.ends_with("/*") && of_type(self.media))
    }
}

/// Whether a client takes `media`; one that does not say takes anything.
pub(crate) fn accepts(header: Option<&str>, media: &str) -> bool {
    let Some(header) = header.filter(|text| !text.trim().is_empty()) else { return true };
    clauses(header).iter().any(|clause| clause.matches(media))
}

/// The media ranges of an `Accept` header, the most wanted first.
pub(crate) fn clauses(header: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = header
        .split(',')
        .map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let params: Vec<_> = parts.filter_map(|part| part.split_once('=')).collect();
            let quality = params.iter().find(|(name, _)| *name == "q").and_then(|(_, q)| q.parse().ok()).unwrap_or(1.0);
            Clause { media, params, quality }
        })
        .filter(|clause| !clause.media.is_empty())
        .collect();
    clauses.sort_by(|left, right| right.quality.total_cmp(&left.quality));
    clauses
}

/// What every refusal lists: all that requests and replies may have.
const MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// What it lists of watches.
const STREAM_TYPES: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// What kind of reply is to be negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyKind {
    /// One body.
    Single,
    /// One body, on a path that can be watched as well.
    Watchable,
    /// A stream of events.
    Stream,
}

/// What the client accepts of what there is; 406 where it accepts nothing.
pub(crate) fn accept(header: Option<&str>, kind: ReplyKind) -> Result<Accept, ApiError> {
    let Some(header) = header.filter(|text| !text.trim().is_empty()) else { return Ok(Accept::default()) };
    let clauses = clauses(header);
    // A header of nothing but ranges such as `application/*` is refused, as in Kubernetes.
    let exact =
        |clause: &Clause<'_>| matches!(clause.media, "*/*" | "application/json" | "application/yaml" | PROTOBUF);
    if !clauses.iter().any(exact) {
        return Err(unknown_media(kind));
    }
    for clause in &clauses {
        let media = match (clause.matches("application/json"), clause.matches("application/yaml")) {
            (true, _) => Media::Json,
            // What comes first is taken, though it cannot be streamed.
            (false, true) if kind == ReplyKind::Stream => break,
            (false, true) => Media::Yaml,
            (false, false) => continue,
        };
        if let Some((form, meta_version)) = form(clause) {
            let pretty = clause.param("pretty").is_some_and(|value| value == "1");
            return Ok(Accept { media, form, meta_version, pretty });
        }
    }
    let accepted = if kind == ReplyKind::Stream { STREAM_TYPES } else { MEDIA_TYPES };
    let message = format!("only the following media types are accepted: {accepted}");
    Err(ApiError::new(406, "NotAcceptable", message))
}

fn form(clause: &Clause<'_>) -> Option<(Form, &'static str)> {
    let Some(form) = clause.param("as") else { return Some((Form::Whole, "v1")) };
    if clause.param("g") != Some("meta.k8s.io") {
        return None;
    }
    let version = match clause.param("v") {
        Some("v1") => "v1",
        Some("v1beta1") => "v1beta1",
        _ => return None,
    };
    match form {
        "Table" => Some((Form::Table, version)),
        "PartialObjectMetadata" => Some((Form::Partial { list: false }, version)),
        "PartialObjectMetadataList" => Some((Form::Partial { list: true }, version)),
        _ => None,
    }
}

fn unknown_media(kind: ReplyKind) -> ApiError {
    let mut available = MEDIA_TYPES.to_owned();
    if kind != ReplyKind::Single {
        available.extend([", ", STREAM_TYPES]);
    }
    let message = format!("406: Not Acceptable\n\nAvailable representations: {available}");
    ApiError::new(406, "NotAcceptable", message).with_details()
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
        let accept = accept(Some(header), ReplyKind::Single).expect(header);
        assert_eq!((accept.media, accept.form), expect, "{header}");
    }

    #[test]
    fn the_first_acceptable_clause_wins() {
        check("application/json", (Media::Json, Form::Whole));
        check("*/*", (Media::Json, Form::Whole));
        check("application/*, application/yaml;q=0.1", (Media::Json, Form::Whole));
        check("application/vnd.kubernetes.protobuf,application/json", (Media::Json, Form::Whole));
        check("application/json;q=0.5, application/yaml", (Media::Yaml, Form::Whole));
        check("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", (Media::Json, Form::Table));
        check("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", (Media::Json, Form::Whole));
        check(
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            (Media::Json, Form::Partial { list: true }),
        );
    }

    #[test]
    fn what_nobody_serves_is_refused() {
        for header in ["image/png", "application/*", "application/json;as=Nope;v=v1;g=meta.k8s.io", PROTOBUF] {
            assert_eq!(accept(Some(header), ReplyKind::Single).expect_err(header).code, 406);
        }
        for header in ["application/yaml", "application/yaml, application/json"] {
            assert!(accept(Some(header), ReplyKind::Stream).is_err(), "a watch is never YAML");
        }
        assert_eq!(body_media(Some("application/json; charset=utf-8")), Ok(BodyMedia::Json));
        assert_eq!(body_media(Some("garbage;;")).expect_err("unknown").code, 415);
    }
}
