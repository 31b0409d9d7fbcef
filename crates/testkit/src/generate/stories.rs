//! Requests that say something only together: pages of one list, a watch and the changes that it is to see, the
//! past of a collection, directives to an object that has what they speak of.

use allotment_machinery::json;
use allotment_machinery::json::Value;

use super::Maker;
use super::definition::GROUP;
use super::kinds::{Kind, merge};
use super::objects::labels;
use super::requests::{PARTIAL_LIST, TABLE};
use crate::sequence::{Body, Step, StepKind};

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON: &str = "application/json-patch+json";

impl Maker {
    /// Appends several requests about `kind` that belong together.
    pub(super) fn story(&mut self, kind: &Kind) {
        match self.chance.below(6) {
            0 | 1 => self.turn_pages(kind),
            2 => self.look_back(kind),
            3 => self.follow(kind),
            _ if kind.group == GROUP => self.turn_pages(kind),
            4 => self.direct(kind),
            _ => self.patch_too_much(kind),
        }
    }

    /// An object that is there from now on, with some labels; its name.
    fn made(&mut self, kind: &Kind, name: &str) -> String {
        let name = if kind.namespaced { name.to_owned() } else { format!("${{r}}-{name}") };
        let mut object = self.sound_object(kind, &name);
        let labels = labels(&mut self.chance, kind);
        merge(&mut object, json!({"metadata": {"name": (name.as_str()), "labels": labels}}));
        let (path, body) = (kind.collection(), Body::Json(object));
        self.push(Step { method: "POST".to_owned(), path, body, ..Step::default() });
        name
    }

    /// Pages of one list, with or without changes between them.
    fn turn_pages(&mut self, kind: &Kind) {
        for name in ["a", "b", "c"] {
            if self.chance.strikes(70) {
                self.made(kind, name);
            }
        }
        let mut query = self.selectors(kind);
        query.push(("limit".to_owned(), self.chance.text(&["1", "1", "1", "2"])));
        let headers = self.accept(20, &[TABLE, PARTIAL_LIST]);
        let first = Step { method: "GET".to_owned(), path: kind.collection(), query, headers, ..Step::default() };
        self.push(first.clone());
        for _ in 0..2 {
            let page = self.steps.len();
            if self.chance.strikes(30) {
                let name = self.name(kind);
                self.delete(format!("{}/{name}", kind.collection()));
            }
            let mut query = first.query.clone();
            if self.chance.strikes(20) {
                query.retain(|(name, _)| name != "limit");
            }
            query.push(("continue".to_owned(), format!("${{continue{page}}}")));
            if self.chance.strikes(8) {
                query.push(("resourceVersion".to_owned(), self.chance.text(&["0", "1", "x"])));
            }
            if self.chance.strikes(4) {
                query.push(("resourceVersionMatch".to_owned(), "Exact".to_owned()));
            }
            self.push(Step { query, ..first.clone() });
        }
    }

    /// What a collection was when an object was made, after it changed.
    fn look_back(&mut self, kind: &Kind) {
        let name = self.made(kind, "a");
        let then = self.steps.len();
        let item = format!("{}/{name}", kind.collection());
        let labels = labels(&mut self.chance, kind);
        self.push_patch(item.clone(), MERGE, json!({"metadata": {"labels": labels}}));
        if self.chance.strikes(40) {
            self.delete(item.clone());
        }
        let mut query = self.selectors(kind);
        query.push(("resourceVersion".to_owned(), format!("${{rv{then}}}")));
        if self.chance.strikes(50) {
            query.push(("resourceVersionMatch".to_owned(), "Exact".to_owned()));
            if self.chance.strikes(40) {
                query.push(("limit".to_owned(), "1".to_owned()));
            }
        } else {
            query.push(("limit".to_owned(), self.chance.text(&["1", "2"])));
        }
        let (path, headers) = (kind.collection(), self.accept(20, &[TABLE, PARTIAL_LIST]));
        self.push(Step { method: "GET".to_owned(), path, query, headers, ..Step::default() });
    }

    /// A watch, and objects that come, change and go before it.
    fn follow(&mut self, kind: &Kind) {
        self.list(kind, StepKind::Watch);
        let name = self.made(kind, "b");
        let item = format!("{}/{name}", kind.collection());
        for _ in 0..=self.chance.below(3) {
            let labels = labels(&mut self.chance, kind);
            self.push_patch(item.clone(), MERGE, json!({"metadata": {"labels": labels}}));
        }
        self.delete(item);
    }

    /// Strategic merge patches with directives, of an object that has lists.
    fn direct(&mut self, kind: &Kind) {
        let name = self.made(kind, "c");
        let item = format!("{}/{name}", kind.collection());
        let owners = json!([{"apiVersion": "v1", "kind": "Event", "name": "a", "uid": "x"},
            {"apiVersion": "v1", "kind": "Event", "name": "b", "uid": "y"}]);
        let lists = json!({"metadata": {"finalizers": ["example.com/f", "example.com/g"], "ownerReferences": owners,
            "annotations": {"note": "one"}}});
        self.push_patch(item.clone(), MERGE, lists);
        for _ in 0..=self.chance.below(2) {
            let directive = self.directive(kind);
            self.push_patch(item.clone(), STRATEGIC, directive);
        }
    }

    fn directive(&mut self, kind: &Kind) -> Value {
        let of_metadata = [
            json!({"labels": {"$patch": "replace", "app": "web", "run": "${r}"}}),
            json!({"annotations": {"$patch": "delete"}}),
            json!({"annotations": {"$patch": "merge", "note": "two"}}),
            json!({"annotations": {"$patch": "odd"}}),
            json!({"annotations": {"$retainKeys": ["other"], "other": "x"}}),
            json!({"annotations": {"note": (Value::Null), "other": "x"}}),
            json!({"$deleteFromPrimitiveList/finalizers": ["example.com/f"]}),
            json!({"$deleteFromPrimitiveList/finalizers": ["example.com/f", "none.com/h"], "finalizers": ["e.com/h"]}),
            json!({"$setElementOrder/finalizers": ["example.com/g", "example.com/f"]}),
            json!({"$setElementOrder/finalizers": ["e.com/h", "example.com/g", "example.com/f"], "finalizers": ["e.com/h"]}),
            json!({"$setElementOrder/finalizers": ["example.com/g"], "finalizers": ["e.com/h"]}),
            json!({"finalizers": ["e.com/h"]}),
            json!({"ownerReferences": [{"uid": "x", "$patch": "delete"}]}),
            json!({"ownerReferences": [{"uid": "x", "name": "other"}]}),
            json!({"ownerReferences": [{"name": "other"}]}),
            json!({"ownerReferences": [{"$patch": "replace"}, {"apiVersion": "v1", "kind": "Event", "name": "z", "uid": "z"}]}),
            json!({"ownerReferences": [{"$patch": "delete"}]}),
            json!({"$setElementOrder/ownerReferences": [{"uid": "y"}, {"uid": "x"}]}),
            json!({"$setElementOrder/ownerReferences": [{"uid": "y"}], "ownerReferences": [{"uid": "x", "name": "q"}]}),
            json!({"ownerReferences": (Value::Null)}),
            json!({"$patch": "odd"}),
        ];
        let member = (kind.change)(&mut self.chance);
        let first = member.as_object().and_then(|member| member.iter().next()).map(|(name, _)| name.to_owned());
        match (self.chance.below(8), first) {
            (0, Some(name)) => {
                let mut patch = member;
                if let Some(inner) = patch.get_mut(&name).and_then(Value::as_object_mut) {
                    inner.insert("$patch", self.chance.text(&["replace", "delete", "merge"]));
                }
                patch
            }
            (1, Some(name)) => {
                let mut patch = member;
                merge(&mut patch, json!({"$retainKeys": [name, "metadata", "apiVersion", "kind"]}));
                patch
            }
            (2, _) => json!({"$patch": (self.chance.text(&["delete", "merge", "odd"]))}),
            _ => json!({"metadata": (self.chance.pick(&of_metadata).clone())}),
        }
    }

    /// A JSON patch of about as many operations as there may be, or one that copies again and again.
    fn patch_too_much(&mut self, kind: &Kind) {
        let name = self.made(kind, "a");
        let item = format!("{}/{name}", kind.collection());
        if self.chance.strikes(20) {
            let count = if self.chance.strikes(50) { 10_000 } else { 10_001 };
            let operation = json!({"op": "test", "path": "/kind", "value": (kind.kind)});
            return self.push_patch(item, JSON, Value::Array(vec![operation; count]));
        }
        let mut operations = vec![json!({"op": "add", "path": "/metadata/annotations", "value": {"a": "0123456789"}})];
        for _ in 0..=self.chance.below(4) {
            let steps = [
                json!({"op": "copy", "from": "/metadata/annotations/a", "path": "/metadata/annotations/b"}),
                json!({"op": "move", "from": "/metadata/annotations/a", "path": "/metadata/annotations/c"}),
                json!({"op": "copy", "from": "/metadata/annotations", "path": "/metadata/labels"}),
                json!({"op": "test", "path": "/metadata/annotations/b", "value": "0123456789"}),
                json!({"op": "test", "path": "/metadata/annotations/none", "value": (Value::Null)}),
                json!({"op": "move", "from": "/metadata/annotations", "path": "/metadata/annotations/a"}),
                json!({"op": "replace", "path": "/metadata/annotations/none", "value": "1"}),
                json!({"op": "add", "path": "/metadata/finalizers", "value": []}),
                json!({"op": "add", "path": "/metadata/finalizers/-", "value": "e.com/h"}),
                json!({"op": "add", "path": "/metadata/finalizers/0", "value": "e.com/i"}),
                json!({"op": "remove", "path": "/metadata/finalizers/-1"}),
                json!({"op": "add", "path": "/metadata/finalizers/01", "value": "e.com/j"}),
            ];
            operations.push(self.chance.pick(&steps).clone());
        }
        self.push_patch(item, JSON, Value::Array(operations));
    }
}
