//! Fields of `OpenAPIv2.proto`, as far as our documents and the schemas of definitions use them.

use allotment_machinery::json::Value;

use super::{Field, Shape, bytes, encode, write};

/// `Schema`
pub(in super::super) static SCHEMA: Shape = Shape {
    fields: &[
        ("$ref", 1, Field::Text),
        ("format", 2, Field::Text),
        ("title", 3, Field::Text),
        ("description", 4, Field::Text),
        ("default", 5, Field::Any),
        ("multipleOf", 6, Field::Double),
        ("maximum", 7, Field::Double),
        ("exclusiveMaximum", 8, Field::Flag),
        ("minimum", 9, Field::Double),
        ("exclusiveMinimum", 10, Field::Flag),
        ("maxLength", 11, Field::Integer),
        ("minLength", 12, Field::Integer),
        ("pattern", 13, Field::Text),
        ("maxItems", 14, Field::Integer),
        ("minItems", 15, Field::Integer),
        ("uniqueItems", 16, Field::Flag),
        ("maxProperties", 17, Field::Integer),
        ("minProperties", 18, Field::Integer),
        ("required", 19, Field::Texts),
        ("enum", 20, Field::Anys),
        ("additionalProperties", 21, Field::OrFlag(&Field::Message(&SCHEMA))),
        ("type", 22, Field::WrappedText),
        ("items", 23, Field::Within(1, &Field::Message(&SCHEMA))),
        ("allOf", 24, Field::Messages(&SCHEMA)),
        ("properties", 25, Field::Named(1, &Field::Message(&SCHEMA))),
        ("externalDocs", 29, Field::Message(&EXTERNAL_DOCS)),
        ("example", 30, Field::Any),
    ],
    extensions: 31,
};

static EXTERNAL_DOCS: Shape =
    Shape { fields: &[("description", 1, Field::Text), ("url", 2, Field::Text)], extensions: 3 };

static BODY_PARAMETER: Shape = Shape {
    fields: &[
        ("description", 1, Field::Text),
        ("name", 2, Field::Text),
        ("in", 3, Field::Text),
        ("required", 4, Field::Flag),
        ("schema", 5, Field::Message(&SCHEMA)),
    ],
    extensions: 6,
};

static QUERY_PARAMETER: Shape = Shape {
    fields: &[
        ("required", 1, Field::Flag),
        ("in", 2, Field::Text),
        ("description", 3, Field::Text),
        ("name", 4, Field::Text),
        ("type", 6, Field::Text),
        ("uniqueItems", 20, Field::Flag),
    ],
    extensions: 23,
};

static PATH_PARAMETER: Shape = Shape {
    fields: &[
        ("required", 1, Field::Flag),
        ("in", 2, Field::Text),
        ("description", 3, Field::Text),
        ("name", 4, Field::Text),
        ("type", 5, Field::Text),
        ("uniqueItems", 19, Field::Flag),
    ],
    extensions: 22,
};

static RESPONSE: Shape = Shape {
    // A schema stands within a choice of it and of one of files.
    fields: &[("description", 1, Field::Text), ("schema", 2, Field::Within(1, &Field::Message(&SCHEMA)))],
    extensions: 5,
};

static OPERATION: Shape = Shape {
    fields: &[
        ("tags", 1, Field::Texts),
        ("description", 3, Field::Text),
        ("operationId", 5, Field::Text),
        ("produces", 6, Field::Texts),
        ("consumes", 7, Field::Texts),
        ("parameters", 8, Field::Each(&Field::OldParameter)),
        ("responses", 9, Field::Named(1, &Field::OrReference(&RESPONSE))),
        ("schemes", 10, Field::Texts),
    ],
    extensions: 13,
};

/// `PathItem`
pub(in super::super) static PATH_ITEM: Shape = Shape {
    fields: &[
        ("get", 2, Field::Message(&OPERATION)),
        ("put", 3, Field::Message(&OPERATION)),
        ("post", 4, Field::Message(&OPERATION)),
        ("delete", 5, Field::Message(&OPERATION)),
        ("patch", 8, Field::Message(&OPERATION)),
        ("parameters", 9, Field::Each(&Field::OldParameter)),
    ],
    extensions: 10,
};

static INFO: Shape = Shape { fields: &[("title", 1, Field::Text), ("version", 2, Field::Text)], extensions: 7 };

/// `StringArray`: the scopes of a way to sign in; ours have none.
static SCOPES: Shape = Shape { fields: &[], extensions: 0 };

static API_KEY: Shape = Shape {
    fields: &[
        ("type", 1, Field::Text),
        ("name", 2, Field::Text),
        ("in", 3, Field::Text),
        ("description", 4, Field::Text),
    ],
    extensions: 5,
};

/// `Document`, but for the paths, its field 8, and the definitions, its field 9.
pub(in super::super) static DOCUMENT: Shape = Shape {
    fields: &[
        ("swagger", 1, Field::Text),
        ("info", 2, Field::Message(&INFO)),
        ("security", 12, Field::Each(&Field::Named(1, &Field::Message(&SCOPES)))),
        ("securityDefinitions", 13, Field::Named(1, &Field::Within(2, &Field::Message(&API_KEY)))),
    ],
    extensions: 16,
};

/// `ParametersItem`: a parameter of the body, of the query or of the path, or a reference to one.
pub(super) fn parameter(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(target) = value.get("$ref") {
        let mut reference = Vec::new();
        write(1, &Field::Text, target, &mut reference);
        bytes(2, &reference, &mut out);
        return out;
    }
    let mut parameter = Vec::new();
    match value.get("in").and_then(Value::as_str) {
        Some("body") => bytes(1, &encode(&BODY_PARAMETER, value), &mut parameter),
        place => {
            let mut other = Vec::new();
            match place {
                Some("path") => bytes(4, &encode(&PATH_PARAMETER, value), &mut other),
                _ => bytes(3, &encode(&QUERY_PARAMETER, value), &mut other),
            }
            bytes(2, &other, &mut parameter);
        }
    }
    bytes(1, &parameter, &mut out);
    out
}
