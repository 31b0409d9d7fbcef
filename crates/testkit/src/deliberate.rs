//! The differences that are meant: rows of `docs/adr/0007-differences-from-kube-apiserver.md`. A row here
//! recognises one of them in a pair of answers; a difference that no row recognises is to be mended.

use std::sync::LazyLock;

use allotment_machinery::json::Value;
use regex::Regex;

use crate::client::Reply;
use crate::compare::Difference;
use crate::sequence::{Step, StepKind};

/// The version of an object. Where it differs, one of the servers wrote and the other did not.
pub(crate) const VERSION: &str = "$.metadata.resourceVersion";

/// One difference that is meant.
struct Row {
    why: &'static str,
    is_it: fn(&Case<'_>) -> bool,
}

/// Two answers that differ.
struct Case<'a> {
    step: &'a Step,
    theirs: &'a Reply,
    ours: &'a Reply,
    differences: &'a [Difference],
}

impl Case<'_> {
    fn statuses(&self) -> (u16, u16) {
        (self.theirs.status, self.ours.status)
    }

    fn their_message(&self) -> String {
        let body = self.theirs.json();
        body.as_ref().and_then(|body| body.get("message")).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    fn only_below(&self, path: &str) -> bool {
        self.differences.iter().all(|difference| difference.path.starts_with(path))
    }
}

const ROWS: &[Row] = &[
    Row {
        why: "what Kubernetes' controllers write into a definition later comes with its creation",
        is_it: |case| {
            case.step.path.starts_with("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/")
                && case.statuses() == (200, 200)
                && case.differences.iter().all(|difference| {
                    difference.path == VERSION || difference.path.starts_with("$.metadata.managedFields")
                })
        },
    },
    Row {
        why: "what built the server is not what built theirs",
        is_it: |case| case.step.path == "/version" && case.step.method == "GET",
    },
    Row {
        why: "discovery and /version answer HEAD as GET",
        is_it: |case| case.step.method == "HEAD" && case.theirs.status == 405,
    },
    Row {
        why: "any subtype of application is JSON too",
        is_it: |case| {
            case.theirs.status == 406
                && case.step.headers.iter().any(|(name, value)| name == "Accept" && value == "application/*")
        },
    },
    Row {
        why: "which part of the server remembers too little is not said",
        is_it: |case| {
            let message = |difference: &Difference| {
                ["$.message", "events[0].object.message"].contains(&difference.path.as_str())
                    && [&difference.theirs, &difference.ours].iter().all(|text| text.contains("too old"))
            };
            case.differences.iter().all(message)
        },
    },
    Row {
        why: "events are read as all others, which kube-apiserver reads from a cache and events from etcd",
        is_it: |case| {
            case.step.method == "GET"
                && case.step.path.contains("/events")
                && [(504, 504), (400, 500)].contains(&case.statuses())
        },
    },
    Row {
        why: "a list of one object at a version to come is read as all others, which kube-apiserver reads from etcd",
        is_it: |case| {
            let asks = |name: &str, start: &str| {
                case.step.query.iter().any(|(have, value)| have == name && value.starts_with(start))
            };
            case.step.method == "GET"
                && asks("fieldSelector", "metadata.name=")
                && asks("resourceVersionMatch", "Exact")
                && case.statuses() == (504, 504)
                && case.differences.iter().all(|difference| {
                    difference.theirs == "absent"
                        && ["header retry-after", "$.details.retryAfterSeconds"].contains(&difference.path.as_str())
                })
        },
    },
    Row {
        why: "the continue token is one text, not base64 of another",
        is_it: |case| {
            case.statuses() == (400, 400)
                && case.their_message().starts_with("invalid continue token: ")
                && case.only_below("$.message")
        },
    },
    Row {
        why: "an object too large is the client's to mend: 413",
        is_it: |case| case.statuses() == (500, 413) && case.their_message().contains("too large"),
    },
    Row {
        why: "a directive that is none is the client's to mend: 400",
        is_it: |case| case.statuses() == (500, 400) && case.step.method == "PATCH",
    },
    Row {
        why: "a body without a kind is not repeated in the message",
        is_it: |case| {
            case.statuses() == (400, 400)
                && case.their_message().contains("Object 'Kind' is missing in '")
                && case.only_below("$.message")
        },
    },
    Row {
        why: "the scale of a custom resource can be applied",
        is_it: |case| {
            case.theirs.status == 500
                && case.their_message().ends_with("request to convert CR to an invalid group/version: autoscaling/v1")
        },
    },
    Row {
        why: "a write that changes but the order within an entry of managedFields is none",
        is_it: |case| {
            case.statuses() == (200, 200)
                && case.step.method != "GET"
                && case.differences.iter().all(|difference| difference.path == VERSION)
                && (case.step.path.ends_with("/scale") || has_two_orders(case.theirs))
        },
    },
    Row {
        why: "bytes that are none and bytes that are empty are one",
        is_it: |case| {
            let of_bytes = ["/configmaps/", "/secrets/"].iter().any(|kind| case.step.path.contains(kind));
            let has_empty = String::from_utf8_lossy(&case.theirs.body).contains(":\"\"");
            of_bytes
                && has_empty
                && case.statuses() == (200, 200)
                && case.step.method != "GET"
                && case.differences.iter().all(|difference| difference.path == VERSION)
        },
    },
    Row {
        why: "which of several undeclared fields an apply is refused for is as maps are walked",
        is_it: |case| {
            let undeclared = |reply: &Reply| {
                let body = reply.json().unwrap_or_default();
                let message = body.get("message").and_then(Value::as_str).unwrap_or_default();
                message.starts_with("failed to create typed patch object (")
                    && message.contains(": field not declared in schema")
            };
            case.statuses() == (500, 500)
                && case.only_below("$.message")
                && undeclared(case.theirs)
                && undeclared(case.ours)
        },
    },
    Row {
        why: "a write that changes nothing of a Job or a claim but how it is stored is none",
        is_it: |case| {
            case.statuses() == (200, 200)
                && ["/jobs/", "/persistentvolumeclaims/"].iter().any(|kind| case.step.path.contains(kind))
                && case.step.method != "GET"
                && case.differences.iter().all(|difference| difference.path == VERSION)
        },
    },
    Row {
        why: "the difference of a pod's specs is not shown",
        is_it: |case| {
            case.statuses() == (422, 422)
                && case.step.path.contains("/pods/")
                && case.their_message().contains("pod updates may not change fields other than")
                && case.differences.iter().all(|difference| difference.path.ends_with("message"))
        },
    },
    Row {
        why: "the difference of a claim's or a volume's specs is not shown",
        is_it: |case| {
            case.statuses() == (422, 422)
                && case.step.path.contains("/persistentvolume")
                && case.their_message().contains(" is immutable after creation")
                && case.differences.iter().all(|difference| {
                    difference.path.ends_with("message")
                        && difference.theirs.contains(" is immutable after creation")
                        && difference.ours.contains(" is immutable after creation")
                })
        },
    },
    Row {
        why: "the template of a job is not shown where it may not change",
        is_it: |case| {
            case.statuses() == (422, 422)
                && case.step.path.contains("/jobs/")
                && case.their_message().contains("spec.template")
                && case.their_message().contains("field is immutable")
                && case
                    .differences
                    .iter()
                    .all(|difference| difference.path == "$.message" || difference.path.starts_with("$.details.causes"))
                && same_but_for_templates(case)
        },
    },
    Row {
        why: "metadata alone of a DaemonSet has the annotation that counts its templates",
        is_it: |case| {
            case.step.path.contains("/daemonsets")
                && case.differences.iter().all(|difference| {
                    difference.path.contains("metadata.annotations")
                        && difference.theirs == "absent"
                        && difference.ours != "absent"
                })
                && case.step.headers.iter().any(|(name, value)| {
                    name == "Accept" && (value.contains("as=PartialObjectMetadata") || value.contains("as=Table"))
                })
        },
    },
    Row {
        why: "a status makes no Service that never gets an address",
        is_it: |case| {
            case.step.method == "PUT"
                && case.step.path.contains("/services/")
                && case.step.path.ends_with("/status")
                && [(201, 404), (422, 404), (409, 404), (500, 404)].contains(&case.statuses())
        },
    },
    Row {
        why: "what is sent empty and is nothing is shown as nothing",
        is_it: |case| {
            let shown = |difference: &Difference| {
                let nothing =
                    ["[]", "{}"].map(|empty| difference.theirs.replace(&format!(" value: {empty}:"), " value: null:"));
                difference.path.ends_with("message") && nothing.contains(&difference.ours)
            };
            // The message repeats the causes, and may have a generated name before them.
            case.statuses() == (422, 422)
                && case.differences.iter().any(shown)
                && case.differences.iter().all(|difference| difference.path == "$.message" || shown(difference))
        },
    },
    Row {
        why: "a Service without a name is told that it needs one",
        is_it: |case| {
            case.statuses() == (422, 422)
                && case.step.path.ends_with("/services")
                && case.their_message().contains("is invalid: spec.parentRef.name: Required value")
        },
    },
    Row {
        why: "a volume does not tell when its phase changed last",
        is_it: |case| {
            case.step.path.contains("/persistentvolumes/")
                && case.step.path.ends_with("/status")
                && case.differences.iter().all(|difference| difference.path == "$.status.lastPhaseTransitionTime")
        },
    },
    Row {
        why: "which of several bindings allows something is by chance there",
        is_it: |case| {
            const ALLOWED: &str = "RBAC: allowed by ClusterRoleBinding ";
            case.step.path.contains("/authorization.k8s.io/")
                && case.differences.iter().all(|difference| {
                    difference.path == "$.status.reason"
                        && difference.theirs.starts_with(ALLOWED)
                        && difference.ours.starts_with(ALLOWED)
                })
        },
    },
    Row {
        why: "the answer with a token does not say who owns what in it",
        is_it: |case| case.step.path.ends_with("/token") && case.only_below("$.metadata.managedFields"),
    },
    Row {
        why: "what lies in a revision may be patched by its members",
        is_it: |case| {
            const UNKNOWN: &str = "unable to find api field in struct RawExtension for the json field";
            case.statuses() == (500, 200)
                && case.step.path.contains("/controllerrevisions/")
                && case.their_message().contains(UNKNOWN)
        },
    },
    Row {
        why: "pods on nodes are deleted at once, which a watch sees as well",
        is_it: |case| {
            case.step.kind == StepKind::Watch
                && case.step.path.ends_with("/pods")
                && case
                    .differences
                    .iter()
                    .any(|difference| difference.path.ends_with("deletionTimestamp") && difference.ours == "absent")
        },
    },
    Row {
        why: "pods on nodes are deleted at once: no node ends them",
        is_it: |case| {
            case.step.method == "DELETE"
                && case.step.path.contains("/pods")
                && case
                    .differences
                    .iter()
                    .all(|difference| difference.path.contains("deletion") || difference.path == VERSION)
        },
    },
    Row {
        why: "the history of a custom kind is older than the moment at which a cache of it was made",
        is_it: |case| {
            let too_old = |difference: &Difference| {
                difference.path.starts_with("events[0]") && difference.theirs.contains("too old resource version")
            };
            case.step.path.starts_with("/apis/${g}/") && case.differences.iter().any(too_old)
        },
    },
    Row {
        why: "a patch that takes the apiVersion away does not take all else with it",
        is_it: |case| {
            // Without it kube-apiserver reads the object as one of its internal form, which has other names.
            const LOST: &str = "unknown field \\\"metadata\\\"";
            let warns = case.theirs.header("warning").iter().any(|warning| warning.contains(LOST));
            let nameless = case.their_message().ends_with("was undeterminable: name must be provided");
            let cause = case.their_message().contains("unknown field \"metadata\"");
            case.step.method == "PATCH" && (warns || cause || (nameless && case.step.mentions("apiVersion")))
        },
    },
    Row {
        why: "an empty namespace goes at once, which takes Kubernetes' controller a moment",
        is_it: |case| {
            let is_going = |difference: &Difference| {
                [&difference.path, &difference.theirs, &difference.ours]
                    .iter()
                    .any(|text| text.contains("deletionTimestamp"))
            };
            match case.step.kind {
                // Its events come among those of others, earlier or later.
                StepKind::Watch => case.step.path == "/api/v1/namespaces" && case.differences.iter().any(is_going),
                _ => case.step.path.starts_with("/api/v1/namespaces") && is_gone_sooner(case),
            }
        },
    },
    Row {
        why: "a list is no text, whatever the text's format",
        is_it: |case| {
            let ours = case.ours.json().unwrap_or_default();
            let message = ours.get("message").and_then(Value::as_str).unwrap_or_default();
            case.theirs.status < 300
                && case.ours.status == 422
                && message.contains("in body must be of type string: \"array\"")
        },
    },
    Row {
        why: "versions with different schemas may be selected by the same fields",
        is_it: |case| {
            const MISSED: &str = "may only be set when validations.schema is included";
            case.theirs.status == 422 && case.their_message().contains(MISSED)
        },
    },
    Row {
        why: "a whole number may be a multiple of one that is not whole",
        is_it: |case| case.theirs.status == 422 && case.their_message().contains("factor MultipleOf declared for"),
    },
    Row {
        why: "a number with a point may be the number of a scale",
        is_it: |case| {
            const POINT: &str = "accessor error: ";
            case.theirs.status == 422
                && case.their_message().contains(POINT)
                && case.their_message().contains(" is of the type float64, expected int64")
                && case.differences.iter().all(|difference| {
                    case.ours.status < 300
                        || ["$.message", "$.details.causes"].iter().any(|path| difference.path.starts_with(path))
                })
        },
    },
    Row {
        why: "a cause is repeated twice at most",
        is_it: |case| case.statuses() == (422, 422) && case.only_below("$.details.causes") && same_causes(case),
    },
];

/// Why two answers may differ as they do, if they may.
pub(crate) fn reason(step: &Step, theirs: &Reply, ours: &Reply, differences: &[Difference]) -> Option<&'static str> {
    let case = Case { step, theirs, ours, differences };
    ROWS.iter().find(|row| (row.is_it)(&case)).map(|row| row.why)
}

/// Whether two elements with numbers as keys come in one order as numbers and in another as texts.
fn has_two_orders(reply: &Reply) -> bool {
    static KEYS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"k:\{\\"[a-zA-Z]+\\":(\d+)"#).expect("a constant pattern"));
    let text = String::from_utf8_lossy(&reply.body);
    let keys: Vec<&str> = KEYS.captures_iter(&text).filter_map(|found| Some(found.get(1)?.as_str())).collect();
    let number = |text: &str| text.parse::<u64>().unwrap_or_default();
    keys.iter().any(|left| keys.iter().any(|right| (left < right) != (number(left) < number(right)) && left != right))
}

/// Whether ours lacks nothing but namespaces that theirs is about to delete.
fn is_gone_sooner(case: &Case<'_>) -> bool {
    let body = |reply: &Reply| reply.value().unwrap_or_default();
    let is_going = |object: &Value| object.at(&["metadata", "deletionTimestamp"]).is_some();
    // The objects of a list, or of the rows of a table.
    let listed = |body: &Value| -> Vec<Value> {
        let rows = body.get("rows").and_then(Value::as_array).unwrap_or_default();
        let items = body.get("items").and_then(Value::as_array).unwrap_or_default();
        items.iter().chain(rows.iter().filter_map(|row| row.get("object"))).cloned().collect()
    };
    let staying = |reply: &Reply| -> Vec<String> {
        let listed = listed(&body(reply));
        let staying = listed.iter().filter(|item| !is_going(item));
        staying.filter_map(|item| item.at(&["metadata", "name"])).map(Value::to_string).collect()
    };
    match case.statuses() {
        (200, 404 | 201) => is_going(&body(case.theirs)),
        (409, 404) => case.step.path != "/api/v1/namespaces",
        // A write that is no good, to a namespace that is gone here. One that is lost would be missed by good ones too.
        (422, 404) => matches!(case.step.method.as_str(), "PUT" | "PATCH"),
        (_, 404) => case.their_message().contains("if the object is being deleted"),
        (409, 201) => case.their_message().starts_with("object is being deleted: "),
        (200, 200) => {
            let theirs = body(case.theirs);
            let gone =
                listed(&theirs).iter().any(is_going) && (case.only_below("$.items") || case.only_below("$.rows"));
            let emptied = is_going(&theirs) && case.differences.iter().all(of_emptying);
            // A page may end before one that is going there, and be the last one here.
            let paged = case.step.path == "/api/v1/namespaces"
                && case.step.query.iter().any(|(name, _)| name == "limit")
                && case.differences.iter().all(|difference| {
                    ["$.metadata.continue", "$.metadata.remainingItemCount"].contains(&difference.path.as_str())
                        && difference.ours == "absent"
                });
            emptied || paged || gone && staying(case.theirs) == staying(case.ours)
        }
        _ => false,
    }
}

/// Whether a namespace differs by what the controller that empties it writes.
fn of_emptying(difference: &Difference) -> bool {
    let finalizer = difference.path.starts_with("$.spec.finalizers") && difference.theirs.contains("\"kubernetes\"");
    finalizer || difference.path == VERSION || difference.path.starts_with("$.status.conditions")
}

/// Whether both name the same causes, however often, apart from what they show of a job's template.
fn same_but_for_templates(case: &Case<'_>) -> bool {
    let causes = |reply: &Reply| {
        let body = reply.json().unwrap_or_default();
        let causes = body.at(&["details", "causes"]).and_then(Value::as_array).unwrap_or_default();
        let of_template = |cause: &&Value| {
            let field = cause.get("field").and_then(Value::as_str).unwrap_or_default();
            matches!(field, "spec.template" | "spec.template.spec")
        };
        let mut causes: Vec<String> = causes.iter().filter(|cause| !of_template(cause)).map(Value::to_string).collect();
        causes.sort();
        causes.dedup();
        causes
    };
    causes(case.theirs) == causes(case.ours)
}

/// Whether both name the same causes, however often.
fn same_causes(case: &Case<'_>) -> bool {
    let causes = |reply: &Reply| {
        let body = reply.json().unwrap_or_default();
        let causes = body.at(&["details", "causes"]).and_then(Value::as_array).unwrap_or_default();
        let mut causes: Vec<String> = causes.iter().map(Value::to_string).collect();
        causes.sort();
        causes.dedup();
        causes
    };
    causes(case.theirs) == causes(case.ours)
}
