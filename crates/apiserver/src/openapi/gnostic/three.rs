//! Fields of `OpenAPIv3.proto`, as far as our documents and the schemas of definitions use them.

use super::{Field, Shape};

/// `Schema`
pub(in super::super) static SCHEMA: Shape = Shape {
    fields: &[
        ("nullable", 1, Field::Flag),
        ("externalDocs", 6, Field::Message(&EXTERNAL_DOCS)),
        ("example", 7, Field::Any),
        ("title", 9, Field::Text),
        ("multipleOf", 10, Field::Double),
        ("maximum", 11, Field::Double),
        ("exclusiveMaximum", 12, Field::Flag),
        ("minimum", 13, Field::Double),
        ("exclusiveMinimum", 14, Field::Flag),
        ("maxLength", 15, Field::Integer),
        ("minLength", 16, Field::Integer),
        ("pattern", 17, Field::Text),
        ("maxItems", 18, Field::Integer),
        ("minItems", 19, Field::Integer),
        ("uniqueItems", 20, Field::Flag),
        ("maxProperties", 21, Field::Integer),
        ("minProperties", 22, Field::Integer),
        ("required", 23, Field::Texts),
        ("enum", 24, Field::Anys),
        ("type", 25, Field::Text),
        ("allOf", 26, Field::OrReferences(&SCHEMA)),
        ("oneOf", 27, Field::OrReferences(&SCHEMA)),
        ("anyOf", 28, Field::OrReferences(&SCHEMA)),
        ("not", 29, Field::Message(&SCHEMA)),
        ("items", 30, Field::Within(1, &Field::OrReference(&SCHEMA))),
        ("properties", 31, Field::Named(1, &Field::OrReference(&SCHEMA))),
        ("additionalProperties", 32, Field::OrFlag(&Field::OrReference(&SCHEMA))),
        ("default", 33, Field::Scalar),
        ("description", 34, Field::Text),
        ("format", 35, Field::Text),
    ],
    extensions: 36,
};

static EXTERNAL_DOCS: Shape =
    Shape { fields: &[("description", 1, Field::Text), ("url", 2, Field::Text)], extensions: 3 };

static MEDIA_TYPE: Shape = Shape { fields: &[("schema", 1, Field::OrReference(&SCHEMA))], extensions: 5 };

static PARAMETER: Shape = Shape {
    fields: &[
        ("name", 1, Field::Text),
        ("in", 2, Field::Text),
        ("description", 3, Field::Text),
        ("required", 4, Field::Flag),
        ("schema", 10, Field::OrReference(&SCHEMA)),
    ],
    extensions: 14,
};

static REQUEST_BODY: Shape = Shape {
    fields: &[
        ("description", 1, Field::Text),
        ("content", 2, Field::Named(1, &Field::Message(&MEDIA_TYPE))),
        ("required", 3, Field::Flag),
    ],
    extensions: 4,
};

static RESPONSE: Shape = Shape {
    fields: &[("description", 1, Field::Text), ("content", 3, Field::Named(1, &Field::Message(&MEDIA_TYPE)))],
    extensions: 5,
};

static OPERATION: Shape = Shape {
    fields: &[
        ("tags", 1, Field::Texts),
        ("description", 3, Field::Text),
        ("operationId", 5, Field::Text),
        ("parameters", 6, Field::OrReferences(&PARAMETER)),
        ("requestBody", 7, Field::OrReference(&REQUEST_BODY)),
        ("responses", 8, Field::Named(2, &Field::OrReference(&RESPONSE))),
    ],
    extensions: 13,
};

/// `PathItem`
pub(in super::super) static PATH_ITEM: Shape = Shape {
    fields: &[
        ("get", 4, Field::Message(&OPERATION)),
        ("put", 5, Field::Message(&OPERATION)),
        ("post", 6, Field::Message(&OPERATION)),
        ("delete", 7, Field::Message(&OPERATION)),
        ("patch", 10, Field::Message(&OPERATION)),
        ("parameters", 13, Field::OrReferences(&PARAMETER)),
    ],
    extensions: 14,
};

static INFO: Shape = Shape { fields: &[("title", 1, Field::Text), ("version", 6, Field::Text)], extensions: 7 };

static SECURITY_SCHEME: Shape = Shape {
    fields: &[
        ("type", 1, Field::Text),
        ("description", 2, Field::Text),
        ("name", 3, Field::Text),
        ("in", 4, Field::Text),
    ],
    extensions: 9,
};

/// `Components`, but for the schemas, which are its field 1.
pub(in super::super) static COMPONENTS: Shape =
    Shape { fields: &[("securitySchemes", 7, Field::Named(1, &Field::OrReference(&SECURITY_SCHEME)))], extensions: 10 };

/// The beginning of `Document`; paths are its field 4, components 5.
pub(in super::super) static DOCUMENT: Shape =
    Shape { fields: &[("openapi", 1, Field::Text), ("info", 2, Field::Message(&INFO))], extensions: 9 };
