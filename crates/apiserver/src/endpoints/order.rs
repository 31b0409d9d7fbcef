//! Where in a JSON body the fields stand that a strict decoder complains of: clients are told of them in the
//! order in which they stand there, as Kubernetes tells of fields of built-in kinds.

use std::collections::BTreeMap;

use allotment_machinery::json::{self, Value};

/// Where a path begins first, and where it stands again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    /// Of the first member with this path.
    pub(super) first: usize,
    /// Of the second one.
    pub(super) second: usize,
}

/// The places of `paths` (`spec.list[0].name`) in a body that has been parsed already; those that are not
/// found are left out.
pub(super) fn places<'a>(body: &[u8], paths: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, Places> {
    let mut found: BTreeMap<&str, Option<Places>> = paths.map(|path| (path, None)).collect();
    let mut reader = Reader { body, at: 0, path: String::new(), found: &mut found };
    reader.read();
    found.into_iter().filter_map(|(path, places)| Some((path, places?))).collect()
}

/// What is being read.
enum Frame {
    /// An object, and how long the path to it is.
    Object(usize),
    /// A list, how long the path to it is, and the next index.
    List(usize, usize),
}

struct Reader<'a, 'b> {
    body: &'a [u8],
    at: usize,
    path: String,
    found: &'a mut BTreeMap<&'b str, Option<Places>>,
}

impl Reader<'_, '_> {
    /// Goes through the body once, without the thread's stack: bodies nest as their senders like.
    fn read(&mut self) {
        let mut frames: Vec<Frame> = Vec::new();
        while let Some(byte) = self.body.get(self.at) {
            match byte {
                b'{' => {
                    self.enter(frames.last_mut());
                    frames.push(Frame::Object(self.path.len()));
                }
                b'[' => {
                    self.enter(frames.last_mut());
                    frames.push(Frame::List(self.path.len(), 0));
                }
                b'}' | b']' => {
                    frames.pop();
                }
                b'"' => {
                    let start = self.at;
                    self.skip_string();
                    if let Some(Frame::Object(length)) = frames.last()
                        && self.is_key()
                    {
                        self.path.truncate(*length);
                        self.key(start);
                    }
                    continue;
                }
                _ => {}
            }
            if let (b',', Some(Frame::List(_, index))) = (byte, frames.last_mut()) {
                *index += 1;
            }
            self.at += 1;
        }
    }

    /// The path of what begins here: that of a list's element has its index.
    fn enter(&mut self, frame: Option<&mut Frame>) {
        if let Some(Frame::List(length, index)) = frame {
            self.path.truncate(*length);
            self.path.push_str(&format!("[{index}]"));
        }
    }

    fn skip_string(&mut self) {
        self.at += 1;
        while let Some(byte) = self.body.get(self.at) {
            self.at += match byte {
                b'\\' => 2,
                _ => 1,
            };
            if *byte == b'"' {
                return;
            }
        }
    }

    /// Whether the string that was skipped names a member.
    fn is_key(&self) -> bool {
        self.body[self.at.min(self.body.len())..].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':')
    }

    fn key(&mut self, start: usize) {
        let Ok(Value::String(key)) = json::parse(&self.body[start..self.at.min(self.body.len())]) else { return };
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(&key);
        if let Some(places) = self.found.get_mut(self.path.as_str()) {
            match places {
                None => *places = Some(Places { first: start, second: usize::MAX }),
                Some(places) if places.second == usize::MAX => places.second = start,
                Some(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_where_they_stand() {
        let body = br#"{"a":{"x":1,"x":[2,{"y":"}"}]},"b":[{"x":1},{"c\"":"{\"x\":1}","x":1}],"x":1}"#;
        let paths = ["a.x", "a.x[1].y", "b[1].x", "x", "b[0].x", "a.nope"];
        let places = places(body, paths.into_iter());
        let mut order: Vec<&str> = places.keys().copied().collect();
        order.sort_by_key(|path| places[path].first);
        assert_eq!(order, ["a.x", "a.x[1].y", "b[0].x", "b[1].x", "x"]);
        assert!(places["a.x"].second > places["a.x"].first && places["a.x"].second < places["a.x[1].y"].first);
        assert_eq!(places["x"].second, usize::MAX);
    }
}
