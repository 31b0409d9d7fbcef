//! Whom a request asks to be taken for: its `Impersonate-*` headers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use allotment_machinery::gotext::go_quote;
use http::HeaderMap;

use crate::auth::UserInfo;
use crate::status::ApiError;

const HEADER_USER: &str = "impersonate-user";
const HEADER_GROUP: &str = "impersonate-group";
const HEADER_UID: &str = "impersonate-uid";
const HEADER_EXTRA_PREFIX: &str = "impersonate-extra-";

/// What the headers say, as they say it. An empty user counts as none.
pub(super) fn wanted_user(headers: &HeaderMap) -> Result<Option<UserInfo>, ApiError> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |name: &str| headers.get(name).map(text).unwrap_or_default();
    let mut wanted = UserInfo { name: first(HEADER_USER), uid: first(HEADER_UID), ..UserInfo::default() };
    wanted.groups = headers.get_all(HEADER_GROUP).iter().map(text).collect();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(HEADER_EXTRA_PREFIX) {
            wanted.extra.entry(unescaped(key)).or_default().push(text(value));
        }
    }
    let nameless = wanted.name.is_empty();
    if nameless && (!wanted.uid.is_empty() || !wanted.groups.is_empty() || !wanted.extra.is_empty()) {
        let message = format!("requested {} without impersonating a user name", as_go_prints(&wanted));
        return Err(ApiError::bad_request(message));
    }
    Ok((!nameless).then_some(wanted))
}

/// Undoes percent-encoding; what is not well encoded stays as it is.
fn unescaped(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) else { return key.to_owned() };
        bytes.push(byte);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).unwrap_or_else(|_| key.to_owned())
}

/// The text by which Kubernetes names an incomplete request (Go's `%#v` of a `user.DefaultInfo`).
fn as_go_prints(user: &UserInfo) -> String {
    let list = |items: &[String]| {
        let items: Vec<String> = items.iter().map(|item| go_quote(item)).collect();
        format!("[]string{{{}}}", items.join(", "))
    };
    let groups = if user.groups.is_empty() { "[]string(nil)".to_owned() } else { list(&user.groups) };
    let extra =
        if user.extra.is_empty() { "map[string][]string(nil)".to_owned() } else { extra_map(&user.extra, list) };
    format!(
        "&user.DefaultInfo{{Name:{}, UID:{}, Groups:{groups}, Extra:{extra}}}",
        go_quote(&user.name),
        go_quote(&user.uid)
    )
}

fn extra_map(extra: &BTreeMap<String, Vec<String>>, list: impl Fn(&[String]) -> String) -> String {
    let mut out = "map[string][]string{".to_owned();
    for (index, (key, values)) in extra.iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        let written = write!(out, "{separator}{}:{}", go_quote(key), list(values));
        debug_assert!(written.is_ok(), "writing to a string does not fail");
    }
    out.push('}');
    out
}
