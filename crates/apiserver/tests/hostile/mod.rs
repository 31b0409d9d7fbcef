//! Whatever clients send in headers, queries and bodies: mutated and deep input is answered, on a small stack,
//! without a panic and in time. Readers that need no server are tried in `allotment-machinery`.
//!
//! `ALLOTMENT_SOAK` makes the long run that `cargo xtask verify --soak` asks for.

mod lists;

use std::time::{Duration, Instant};

use allotment_machinery::json::MAX_DEPTH;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request};
use http_body_util::{BodyExt as _, Full};

use super::tokens;
use super::world::World;

/// The stack that all of it has to do with, in bytes: frames of builds that are not optimised are several times
/// as large.
const STACK: usize = if cfg!(debug_assertions) { 1 << 20 } else { 256 * 1024 };
/// Requests of each kind in an ordinary run.
const CASES: u64 = 200;
/// Requests in a soak.
const SOAK_CASES: u64 = 30_000;
/// How long one answer may take; far beyond what it takes, for slow machines.
const LONGEST: Duration = Duration::from_secs(5);

/// SplitMix64: small, seeded, good enough to mutate texts.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % u64::try_from(bound.max(1)).expect("fits")).expect("fits")
    }

    fn of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }

    /// Bytes that were right once, changed in a few places.
    fn mutated(&mut self, right: &[u8], words: &[&[u8]]) -> Vec<u8> {
        let mut bytes = right.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            let word = self.of(words);
            match self.below(6) {
                0 => drop(bytes.splice(at..at, word.iter().copied())),
                1 if at < bytes.len() => drop(bytes.remove(at)),
                2 if at < bytes.len() => bytes[at] = u8::try_from(self.below(256)).expect("a byte"),
                3 => bytes.truncate(at),
                4 => {
                    let times = self.below(400);
                    bytes.splice(at..at, word.repeat(times));
                }
                _ => {
                    let end = at + self.below(bytes.len() - at + 1);
                    let part = bytes[at..end].to_vec();
                    bytes.splice(at..at, part);
                }
            }
        }
        bytes
    }
}

const WORDS: &[&[u8]] = &[
    b"[",
    b"{\"a\":",
    b"}",
    b"]",
    b",",
    b":",
    b"\"",
    b"\\ud800",
    b"null",
    b"1e999",
    b"-1",
    b"=",
    b"!=",
    b" in (",
    b")",
    b";q=",
    b"*/*",
    b"as=Table",
    b"%",
    b"\xff",
    b"\xc3\xa9",
    b"\x00",
    b"\x0a",
    b"\x12\xff\xff\xff\xff\x0f",
    b"9223372036854775808",
];

/// Puts mutated requests to a server, and judges the answers.
fn run(case: fn(&mut Dice, &World) -> Option<Request<Full<Bytes>>>) {
    let body = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let world = tokens::world().await;
            let count = if std::env::var_os("ALLOTMENT_SOAK").is_some() { SOAK_CASES } else { CASES };
            let mut answered = 0;
            for seed in 0..count {
                let Some(request) = case(&mut Dice(seed), &world) else { continue };
                judge(&world, seed, request).await;
                answered += 1;
            }
            assert!(answered > count / 4, "most cases are requests: {answered}");
        });
    };
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(body).expect("a thread");
    assert!(thread.join().is_ok(), "see above");
}

async fn judge(world: &World, seed: u64, request: Request<Full<Bytes>>) {
    let shown = format!("case {seed}: {request:?}");
    #[expect(clippy::disallowed_methods, reason = "a test of how long something takes")]
    let started = Instant::now();
    let response = world.raw(request).await;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.expect("infallible").to_bytes();
    let text = String::from_utf8_lossy(&body);
    assert!(!text.contains("the request could not be handled"), "a panic: {shown}");
    // What a client got wrong is not the server's fault; two readers of Kubernetes say otherwise of versions and of
    // what is applied.
    assert!(code < 500 || text.contains("resourceVersion") || code == 504, "{code} {text}: {shown}");
    assert!(started.elapsed() < LONGEST, "too long: {shown}");
}

/// A query's value, as it is written in an URL.
fn encoded(bytes: &[u8]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    bytes.iter().map(|byte| if plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn get(uri: String, world: &World) -> Option<Request<Full<Bytes>>> {
    // Whatever URLs cannot be, HTTP refuses before the API sees it.
    let uri: http::Uri = uri.parse().ok()?;
    let mut request = world.request("GET", "/", &allotment_machinery::json::Value::Null);
    *request.uri_mut() = uri;
    Some(request)
}

fn post(path: &str, media: &'static str, body: Vec<u8>, world: &World) -> Option<Request<Full<Bytes>>> {
    let mut request = world.request("POST", path, &allotment_machinery::json::Value::Null);
    request.headers_mut().insert("content-type", HeaderValue::from_static(media));
    *request.body_mut() = Full::new(Bytes::from(body));
    Some(request)
}

#[test]
fn any_query_of_a_list_is_answered() {
    const SEEDS: &[(&str, &[u8])] = &[
        ("limit=1&continue", b"djIgNSAvZGVmYXVsdC9h"),
        ("labelSelector", b"a in (b,c),!d,e!=f,g>1"),
        ("fieldSelector", b"metadata.name=a,metadata.namespace!=b\\,c"),
        ("resourceVersion", b"12"),
        ("limit", b"5"),
        ("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds", b"1"),
        ("fieldManager", b"kubectl"),
    ];
    run(|dice, world| {
        let (name, seed) = SEEDS[dice.below(SEEDS.len())];
        let value = dice.mutated(seed, WORDS);
        let path = dice.of(&["/api/v1/configmaps", "/api/v1/namespaces/default/events", "/apis/apps/v1/deployments"]);
        get(format!("{path}?{name}={}", encoded(&value)), world)
    });
}

#[test]
fn any_continue_token_that_is_well_encoded_is_answered() {
    use base64::Engine as _;
    run(|dice, world| {
        let token = dice.mutated(b"v2 5 /default/a", WORDS);
        let token = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(token);
        get(format!("/api/v1/configmaps?limit=1&continue={token}"), world)
    });
}

#[test]
fn any_path_is_answered() {
    run(|dice, world| {
        let seed = dice.of(&[
            "/api/v1/namespaces/default/configmaps/a/status",
            "/apis/apps/v1/namespaces/x/deployments/y/scale",
            "/clusters/a/api/v1/pods",
            "/openapi/v3/apis/apps/v1",
        ]);
        let path = dice.mutated(seed.as_bytes(), &[b"/", b"//", b"..", b"%2f", b"clusters/", b"watch/", b"%00", b"~"]);
        let path = String::from_utf8(path).ok().filter(|path| path.starts_with('/'))?;
        // The path may be that of a watch.
        let next = if path.contains('?') { '&' } else { '?' };
        get(format!("{path}{next}timeoutSeconds=1"), world)
    });
}

#[test]
fn any_header_is_answered() {
    const SEEDS: &[(&str, &[u8])] = &[
        ("accept", b"application/json;as=Table;v=v1;g=meta.k8s.io,application/json;q=0.5"),
        ("accept", b"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, */*;q=0.1"),
        ("accept", b"application/vnd.kubernetes.protobuf,application/yaml"),
        ("impersonate-user", b"system:serviceaccount:default:x"),
        ("impersonate-group", b"system:masters"),
        ("impersonate-uid", b"1-2"),
        ("impersonate-extra-a%2fb", b"scope"),
        ("authorization", b"Bearer eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJ4In0.c2ln"),
        ("accept-encoding", b"gzip;q=0.5, br"),
        ("user-agent", b"kubectl/v1.36.0 (linux/amd64) kubernetes/abc"),
        ("if-none-match", b"\"abc\""),
    ];
    run(|dice, world| {
        let path = dice.of(&["/api/v1/configmaps", "/apis", "/openapi/v2", "/api/v1/namespaces/default"]);
        let mut request = get((*path).to_owned(), world)?;
        for _ in 0..=dice.below(3) {
            let (name, seed) = SEEDS[dice.below(SEEDS.len())];
            let name = if name.starts_with("impersonate-extra") {
                let key = dice.mutated(b"a%2fb", &[b"%", b"%zz", b"%ff", b"-"]);
                HeaderName::from_bytes(&[b"impersonate-extra-", &*key].concat()).ok()?
            } else {
                HeaderName::from_static(name)
            };
            request.headers_mut().append(name, HeaderValue::from_bytes(&dice.mutated(seed, WORDS)).ok()?);
        }
        if !request.headers().contains_key("impersonate-user") {
            request.headers_mut().append("impersonate-user", HeaderValue::from_static("a"));
        }
        if dice.below(2) == 0 {
            request.extensions_mut().clear();
        }
        Some(request)
    });
}

#[test]
fn any_review_is_answered() {
    const REVIEWS: &[(&str, &str)] = &[
        (
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            r#"{"spec":{"resourceAttributes":{"verb":"get","resource":"pods","fieldSelector":{"requirements":[{"key":"a","operator":"In","values":["b"]}]}}}}"#,
        ),
        (
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            r#"{"spec":{"user":"a","groups":["b"],"extra":{"k":["v"]},"nonResourceAttributes":{"path":"/x","verb":"get"}}}"#,
        ),
        (
            "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews",
            r#"{"spec":{"user":"a","resourceAttributes":{"namespace":"default","verb":"get","resource":"pods"}}}"#,
        ),
        ("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", r#"{"spec":{"namespace":"default"}}"#),
        ("/apis/authentication.k8s.io/v1/tokenreviews", r#"{"spec":{"token":"a.b.c","audiences":["x"]}}"#),
        ("/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}"),
        (
            "/clusters/a/api/v1/namespaces/default/serviceaccounts/default/token",
            r#"{"spec":{"audiences":["a"],"expirationSeconds":600,"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p"}}}"#,
        ),
    ];
    run(|dice, world| {
        let (path, seed) = REVIEWS[dice.below(REVIEWS.len())];
        let media = dice.of(&["application/json", "application/yaml"]);
        post(path, media, dice.mutated(seed.as_bytes(), WORDS), world)
    });
}

/// A field of a protobuf message that holds bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(u8::try_from(length & 0x7f).expect("a byte") | 0x80);
        length >>= 7;
    }
    out.push(u8::try_from(length).expect("a byte"));
    out.extend_from_slice(bytes);
    out
}

/// A body in protobuf: the envelope around an object.
fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let kind = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &kind), field(2, raw), field(3, b""), field(4, b"")].concat()
}

#[test]
fn any_protobuf_body_is_answered() {
    run(|dice, world| {
        let metadata = field(1, &[field(1, b"a"), field(11, &[field(1, b"k"), field(2, b"v")].concat())].concat());
        let container =
            [field(1, b"c"), field(2, b"image"), field(7, &[field(1, b"E"), field(2, b"v")].concat())].concat();
        let schema = field(22, &[field(1, b"p"), field(2, &field(5, b"object"))].concat());
        let (path, right) = match dice.below(4) {
            0 => {
                let data = field(2, &[field(1, b"k"), field(2, b"v")].concat());
                ("/api/v1/namespaces/default/configmaps", envelope("v1", "ConfigMap", &[metadata, data].concat()))
            }
            1 => {
                let spec = field(2, &field(2, &container));
                ("/api/v1/namespaces/default/pods", envelope("v1", "Pod", &[metadata, spec].concat()))
            }
            2 => {
                let version = [field(1, b"v1"), field(4, &field(1, &schema))].concat();
                let spec = field(2, &[field(1, b"example.com"), field(7, &version)].concat());
                (
                    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                    envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", &[metadata, spec].concat()),
                )
            }
            _ => {
                let spec = field(2, &field(1, b"a.b.c"));
                (
                    "/apis/authentication.k8s.io/v1/tokenreviews",
                    envelope("authentication.k8s.io/v1", "TokenReview", &spec),
                )
            }
        };
        post(path, "application/vnd.kubernetes.protobuf", dice.mutated(&right, WORDS), world)
    });
}

#[test]
fn the_deepest_bodies_are_answered_in_every_form() {
    run(|dice, world| {
        let depth = [MAX_DEPTH - 4, MAX_DEPTH, MAX_DEPTH + 1, 4 * MAX_DEPTH, 100_000][dice.below(5)];
        let (open, close) = [("[", "]"), ("{\"a\":", "}")][dice.below(2)];
        let deep = format!("{}1{}", open.repeat(depth), close.repeat(depth));
        match dice.below(5) {
            0 => {
                let body = format!(r#"{{"metadata":{{"name":"a"}},"data":{deep}}}"#);
                post("/api/v1/namespaces/default/configmaps", "application/json", body.into(), world)
            }
            1 => {
                let body =
                    format!(r#"{{"spec":{{"versions":[{{"schema":{{"openAPIV3Schema":{{"default":{deep}}}}}}}]}}}}"#);
                post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/json", body.into(), world)
            }
            2 => post("/api/v1/namespaces/default/configmaps", "application/yaml", deep.into(), world),
            3 => {
                let mut schema = field(5, b"object");
                for _ in 0..depth.min(5_000) {
                    schema = field(22, &[field(1, b"p"), field(2, &schema)].concat());
                }
                let version = [field(1, b"v1"), field(4, &field(1, &schema))].concat();
                let raw = field(2, &field(7, &version));
                let body = envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", &raw);
                let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
                post(path, "application/vnd.kubernetes.protobuf", body, world)
            }
            _ => {
                let mut request = post(
                    "/api/v1/namespaces/default/configmaps/kube-root-ca.crt",
                    "application/merge-patch+json",
                    deep.into(),
                    world,
                )?;
                *request.method_mut() = http::Method::PATCH;
                Some(request)
            }
        }
    });
}
