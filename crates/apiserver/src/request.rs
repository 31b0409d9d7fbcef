//! What a request asks for, read off its method, path and query, before anything is looked up
//! (`k8s.io/apiserver/pkg/endpoints/request.RequestInfo`).

use http::Method;

use crate::query::{Query, decode_percent};

/// A request, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// Whether it is about objects of the API (`/api/v1/…`, `/apis/GROUP/VERSION/…`).
    pub is_resource: bool,
    /// The path below the tenant's prefix, decoded.
    pub path: String,
    /// The API verb, as RBAC knows it: get, list, watch, create, update, patch, delete,
    /// deletecollection; for other paths the method in lower case. Empty for methods that are no verb.
    pub verb: &'static str,
    /// API group; empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Namespace; empty where there is none.
    pub namespace: String,
    /// Plural resource name.
    pub resource: String,
    /// Subresource; empty where there is none.
    pub subresource: String,
    /// Object name; empty where there is none. Of a list or watch, the name that its field selector asks
    /// for, so that access to one name suffices.
    pub name: String,
    /// Whether the path itself names an object, so that it is not about a collection.
    pub names_object: bool,
    /// Whether the path has more segments than the API knows.
    pub has_surplus: bool,
}

impl RequestInfo {
    /// Takes a request apart; `path` is as it came, without the tenant's prefix.
    pub fn parse(method: &Method, path: &str, query: &Query) -> Self {
        let path = decode_percent(path);
        let mut info = RequestInfo { verb: method_verb(method), path, ..RequestInfo::default() };
        let text = std::mem::take(&mut info.path);
        info.parse_segments(method, &text, query);
        info.path = text;
        info
    }

    fn parse_segments(&mut self, method: &Method, path: &str, query: &Query) {
        let trimmed = path.strip_prefix('/').unwrap_or(path);
        let trimmed = trimmed.strip_suffix('/').unwrap_or(trimmed);
        let segments: Vec<&str> = trimmed.split('/').collect();
        let (group, rest) = match segments.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => (("", *version), rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => ((*group, *version), rest),
            _ => return,
        };
        self.is_resource = true;
        (self.group, self.version) = (group.0.to_owned(), group.1.to_owned());
        // `/api/v1/watch/…` is the old way to write `?watch=1`, of one object too.
        if let (["watch", rest @ ..], &Method::GET) = (rest, method)
            && !rest.is_empty()
        {
            self.parse_resource(rest);
            self.verb = "watch";
            return;
        }
        self.parse_resource(rest);
        self.verb = object_verb(method, self.names_object, query);
        if !self.names_object && matches!(self.verb, "list" | "watch" | "deletecollection") {
            self.name = selected_name(query.text("fieldSelector")).unwrap_or_default().to_owned();
        }
    }

    /// What follows the version: `[namespaces/NS/]RESOURCE[/NAME[/SUBRESOURCE]]`.
    fn parse_resource(&mut self, segments: &[&str]) {
        const OF_NAMESPACES: [&str; 2] = ["status", "finalize"];
        let rest = match segments {
            // The namespace itself and its subresources, not things in it.
            ["namespaces", name] => {
                self.namespace = (*name).to_owned();
                segments
            }
            ["namespaces", name, subresource, ..] if OF_NAMESPACES.contains(subresource) => {
                self.namespace = (*name).to_owned();
                segments
            }
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => {
                self.namespace = (*namespace).to_owned();
                rest
            }
            _ => segments,
        };
        let segment = |index: usize| rest.get(index).map(|text| (*text).to_owned());
        self.resource = segment(0).unwrap_or_default();
        self.name = segment(1).unwrap_or_default();
        self.names_object = !self.name.is_empty();
        self.subresource = segment(2).unwrap_or_default();
        // An empty segment (`//`) names nothing, and there are no namespaces in namespaces.
        let nested = rest.len() < segments.len() && self.resource == "namespaces";
        self.has_surplus = nested || rest.len() > 3 || rest.iter().any(|text| text.is_empty());
    }
}

fn method_verb(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "get",
        "HEAD" => "head",
        "POST" => "post",
        "PUT" => "put",
        "PATCH" => "patch",
        "DELETE" => "delete",
        "OPTIONS" => "options",
        _ => "",
    }
}

fn object_verb(method: &Method, names_object: bool, query: &Query) -> &'static str {
    match (method.as_str(), names_object) {
        ("POST", _) => "create",
        ("GET" | "HEAD", true) => "get",
        ("GET" | "HEAD", false) if query.flag("watch") => "watch",
        ("GET" | "HEAD", false) => "list",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => "",
    }
}

/// The name in `metadata.name=NAME`, where that is a part of the selector.
fn selected_name(selector: &str) -> Option<&str> {
    selector.split(',').find_map(|term| {
        let value = term.strip_prefix("metadata.name=")?;
        Some(value.strip_prefix('=').unwrap_or(value)).filter(|name| !name.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &str, uri: &str, expect: (&str, &str, &str, &str, &str, &str, &str)) {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let info = RequestInfo::parse(&method, path, &Query::parse(query));
        let got = (
            info.verb,
            info.group.as_str(),
            info.version.as_str(),
            info.namespace.as_str(),
            info.resource.as_str(),
            info.name.as_str(),
            info.subresource.as_str(),
        );
        assert_eq!(got, expect, "{method} {uri}");
    }

    #[test]
    fn paths_of_the_api_are_taken_apart() {
        check("GET", "/api/v1/pods", ("list", "", "v1", "", "pods", "", ""));
        check("GET", "/api/v1/namespaces/n/pods/p", ("get", "", "v1", "n", "pods", "p", ""));
        check(
            "PUT",
            "/apis/apps/v1/namespaces/n/deployments/d/status",
            ("update", "apps", "v1", "n", "deployments", "d", "status"),
        );
        check("GET", "/api/v1/namespaces", ("list", "", "v1", "", "namespaces", "", ""));
        check("DELETE", "/api/v1/namespaces/n", ("delete", "", "v1", "n", "namespaces", "n", ""));
        check("PUT", "/api/v1/namespaces/n/finalize", ("update", "", "v1", "n", "namespaces", "n", "finalize"));
        check("GET", "/apis/g/v1/things?watch=1", ("watch", "g", "v1", "", "things", "", ""));
        check("GET", "/apis/g/v1/watch/things", ("watch", "g", "v1", "", "things", "", ""));
        check("GET", "/api/v1/watch/namespaces/n/pods/p", ("watch", "", "v1", "n", "pods", "p", ""));
        check("GET", "/api/v1/watch", ("list", "", "v1", "", "watch", "", ""));
        check("POST", "/api/v1/watch/pods", ("create", "", "v1", "", "watch", "pods", ""));
        check("GET", "/apis/g/v1/things?fieldSelector=metadata.name%3Dx", ("list", "g", "v1", "", "things", "x", ""));
        check("DELETE", "/api/v1/namespaces/n/pods", ("deletecollection", "", "v1", "n", "pods", "", ""));
        check("GET", "/api/v1/namespaces/n/pods/a%20b", ("get", "", "v1", "n", "pods", "a b", ""));
    }

    #[test]
    fn other_paths_have_the_method_as_verb() {
        for path in ["/", "/api", "/apis", "/apis/g", "/apis/g/v1", "/version", "/healthz/ping"] {
            check("GET", path, ("get", "", "", "", "", "", ""));
        }
    }

    #[test]
    fn empty_and_surplus_segments_are_seen() {
        for (path, surplus) in [
            ("/api/v1/namespaces/n/pods//a", true),
            ("/api/v1/namespaces/n/pods/a/b/c", true),
            ("/api/v1/namespaces/n/pods/", false),
            ("/api/v1/namespaces/n/namespaces", true),
            ("/api/v1/namespaces/n/namespaces/n", true),
            ("/api/v1/namespaces/n/pods/a/log", false),
        ] {
            let info = RequestInfo::parse(&Method::GET, path, &Query::default());
            assert_eq!(info.has_surplus, surplus, "{path}");
        }
    }
}
