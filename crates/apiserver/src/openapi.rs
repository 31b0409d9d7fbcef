//! OpenAPI: the documents at `/openapi/v2` and below `/openapi/v3`, for `kubectl explain`, for clients that
//! check objects before they send them, and for those that ask which parameters a write takes.
//!
//! Owns how documents are asked for and cached by clients. Which there are and what they say is left to
//! [`document`], what is kept of them to [`cache`].
//!
//! # Flow
//! The index names every document with a digest of what it is made of; no document is written for it. One
//! that is asked for by its digest may be kept by clients for ever; by an old digest leads to the new one.

mod cache;
mod custom;
mod document;
mod gnostic;
mod names;
mod operations;
mod parameters;
mod parts;
mod render;
mod types;

use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};
use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Response, StatusCode};
use jiff::ToSpan;

pub(crate) use cache::Documents;

use crate::body::ResponseBody;
use crate::negotiation::clauses;
use crate::query::Query;
use crate::registry::Registry;
use crate::server::Context;
use crate::service::{GZIP_THRESHOLD, accepts_gzip, response, text};
use cache::Written;
use document::{Document, Encoding};

const JSON: &str = "application/json";
/// The old form in protobuf, with the name that clients asked for first.
const TWO: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
];
/// The same of the new form.
const THREE: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
];

/// Answers a path below `/openapi`; `None` where there is nothing.
pub(crate) async fn answer(
    cx: &Context,
    parts: &Parts,
    query: &Query,
    segments: &[&str],
) -> Option<Response<ResponseBody>> {
    let registry = cx.tenant.registry();
    let version = &cx.tenant.version;
    match segments {
        ["v2"] => {
            let document = document::everything(&registry, version);
            let digest = document.digest();
            Some(send(cx, parts, &document, &digest, TWO).await)
        }
        ["v3"] => {
            let body = index(&registry, version).to_vec();
            Some(response(200, "text/plain; charset=utf-8", ResponseBody::full(body)))
        }
        ["v3", path @ ..] => {
            let path = path.join("/");
            let mut all = document::documents(&registry, version);
            Some(match all.remove(&path) {
                Some(document) => below_three(cx, parts, query, &path, &document).await,
                None => nothing(),
            })
        }
        _ => None,
    }
}

/// What is answered where there is no document: nothing at all, as by kube-apiserver.
fn nothing() -> Response<ResponseBody> {
    let mut answer = response(404, JSON, ResponseBody::empty());
    answer.headers_mut().remove(header::CONTENT_TYPE);
    answer
}

/// The URL of a document, with its digest.
fn url(path: &str, digest: &str) -> String {
    format!("/openapi/v3/{path}?hash={digest}")
}

fn index(registry: &Registry, version: &str) -> Value {
    let documents = document::documents(registry, version).into_iter();
    let paths: Map = documents
        .map(|(path, document)| {
            let url = url(&path, &document.digest());
            (path, json!({ "serverRelativeURL": url }))
        })
        .collect();
    json!({ "paths": (Value::Object(paths)) })
}

/// A document of the new form: for ever where it is asked for by its digest, by way of the present one
/// where it is asked for by another.
async fn below_three(
    cx: &Context,
    parts: &Parts,
    query: &Query,
    path: &str,
    document: &Document<'_>,
) -> Response<ResponseBody> {
    let digest = document.digest();
    let asked = query.get("hash").filter(|hash| !hash.is_empty());
    if asked.is_some_and(|asked| asked != digest) {
        let mut answer = response(301, JSON, ResponseBody::empty());
        // What stands before is the prefix of a tenant.
        let prefix = parts.uri.path().split_once("/openapi/v3").map_or("", |(prefix, _)| prefix);
        set(&mut answer, header::LOCATION, &format!("{prefix}{}", url(path, &digest)));
        set(&mut answer, header::ETAG, &format!("\"{digest}\""));
        set(&mut answer, header::VARY, "Accept");
        return answer;
    }
    let mut answer = send(cx, parts, document, &digest, THREE).await;
    if asked.is_some() && answer.status() != StatusCode::NOT_ACCEPTABLE {
        set(&mut answer, header::CACHE_CONTROL, "public, immutable");
        let expires = cx.server.clock().now().to_zoned(jiff::tz::TimeZone::UTC).checked_add(1.year());
        if let Ok(expires) = expires {
            set(&mut answer, header::EXPIRES, &expires.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string());
        }
    }
    answer
}

/// How the client wants a document, and the media type that this is called.
fn encoding(parts: &Parts, protobuf: [&'static str; 2]) -> Option<(Encoding, &'static str)> {
    let accepted = text(&parts.headers, &header::ACCEPT).filter(|accepted| !accepted.trim().is_empty());
    let Some(accepted) = accepted else { return Some((Encoding::Json, JSON)) };
    clauses(accepted).iter().find_map(|clause| {
        if clause.matches(JSON) {
            return Some((Encoding::Json, JSON));
        }
        protobuf.iter().any(|media| clause.matches(media)).then_some((Encoding::Protobuf, protobuf[0]))
    })
}

async fn send(
    cx: &Context,
    parts: &Parts,
    document: &Document<'_>,
    digest: &str,
    protobuf: [&'static str; 2],
) -> Response<ResponseBody> {
    let Some((encoding, media)) = encoding(parts, protobuf) else {
        let mut answer = response(406, JSON, ResponseBody::empty());
        answer.headers_mut().remove(header::CONTENT_TYPE);
        set(&mut answer, header::VARY, "Accept");
        return answer;
    };
    let etag = format!("\"{digest}\"");
    let mut answer = if has(parts, &etag) {
        let mut answer = response(304, media, ResponseBody::empty());
        answer.headers_mut().remove(header::CONTENT_TYPE);
        answer
    } else {
        let written = cx.server.documents().get(digest, document, encoding).await;
        body(parts, media, &written)
    };
    set(&mut answer, header::ETAG, &etag);
    answer.headers_mut().append(header::VARY, HeaderValue::from_static("Accept"));
    answer
}

/// Whether the client has the document that `etag` names.
pub(crate) fn has(parts: &Parts, etag: &str) -> bool {
    text(&parts.headers, &header::IF_NONE_MATCH)
        .is_some_and(|tags| tags.split(',').any(|tag| tag.trim().trim_start_matches("W/") == etag || tag.trim() == "*"))
}

/// A document, compressed already for those who take that.
fn body(parts: &Parts, media: &'static str, written: &Written) -> Response<ResponseBody> {
    if written.len <= GZIP_THRESHOLD || !accepts_gzip(&parts.headers) {
        return response(200, media, ResponseBody::full(written.plain()));
    }
    let mut answer = response(200, media, ResponseBody::full(written.gzip.clone()));
    set(&mut answer, header::CONTENT_ENCODING, "gzip");
    set(&mut answer, header::VARY, "Accept-Encoding");
    answer
}

fn set(answer: &mut Response<ResponseBody>, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}
