//! The columns of tables of built-in kinds (`k8s.io/kubernetes/pkg/printers`), from a table of texts. What
//! stands in the cells is left to each kind.

use crate::registry::Column;

const TABLE: &str = include_str!("columns.txt");

/// What `~name` stands for.
const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources \
    may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for \
    creation idempotence and configuration definition. Cannot be updated. More info: \
    https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

/// What `~created` stands for.
const CREATED: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is \
    not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is \
    represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The columns of a collection; name and time of creation where the table does not have it, as kinds have
/// them that have no printer of their own.
pub(crate) fn of(plural: &str, group: &str) -> Vec<Column> {
    let key = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
    let part = TABLE.split("\n=").skip(1).find_map(|part| part.strip_prefix(key.as_str())?.strip_prefix('\n'));
    let lines = part.unwrap_or("Name|s|0|~name\nCreated At|d|0|~created").lines();
    lines.filter_map(column).collect()
}

fn column(line: &str) -> Option<Column> {
    let mut parts = line.splitn(4, '|');
    let (name, kind, priority, text) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let kind = match kind {
        "i" => "integer",
        "b" => "boolean",
        "d" => "date",
        _ => "string",
    };
    let (description, json_path) = match text {
        "~name" => (NAME.to_owned(), ".metadata.name"),
        "~created" => (CREATED.to_owned(), ".metadata.creationTimestamp"),
        text => (text.replace("\\n", "\n"), ""),
    };
    Some(Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        format: if text == "~name" { "name".to_owned() } else { String::new() },
        description,
        priority: priority.parse().ok()?,
        json_path: json_path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_column() {
        for line in TABLE.lines().filter(|line| !line.starts_with(['#', '='])) {
            assert!(column(line).is_some(), "{line}");
        }
    }

    #[test]
    fn collections_have_their_own_columns_or_those_of_all() {
        let names = |plural, group| of(plural, group).into_iter().map(|column| column.name).collect::<Vec<_>>();
        assert_eq!(names("leases", "coordination.k8s.io"), ["Name", "Holder", "Age"]);
        assert_eq!(names("nothing", "example.com"), ["Name", "Created At"]);
    }
}
