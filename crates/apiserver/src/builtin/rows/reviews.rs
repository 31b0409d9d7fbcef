//! The rows of reviews, which are answered and never stored.

use std::sync::Arc;

use super::{Row, row};
use crate::auth::{
    LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectReview, SelfSubjectRulesReview, SubjectAccessReview,
    TokenReview,
};
use crate::registry::{Connect, Strategy};

const CREATE: &[&str] = &["create"];

pub(super) fn rows() -> Vec<Row> {
    let (authentication, authorization) = ("authentication.k8s.io", "authorization.k8s.io");
    let review = |group, message, plural, connect: Arc<dyn Connect>| Row {
        namespaced: false,
        verbs: CREATE,
        connect: Some(connect),
        ..row(group, message, plural, Review)
    };
    vec![
        review(authentication, "authentication/v1.TokenReview", "tokenreviews", Arc::new(TokenReview)),
        review(
            authentication,
            "authentication/v1.SelfSubjectReview",
            "selfsubjectreviews",
            Arc::new(SelfSubjectReview),
        ),
        review(
            authorization,
            "authorization/v1.SubjectAccessReview",
            "subjectaccessreviews",
            Arc::new(SubjectAccessReview),
        ),
        review(
            authorization,
            "authorization/v1.SelfSubjectAccessReview",
            "selfsubjectaccessreviews",
            Arc::new(SelfSubjectAccessReview),
        ),
        Row {
            namespaced: true,
            ..review(
                authorization,
                "authorization/v1.LocalSubjectAccessReview",
                "localsubjectaccessreviews",
                Arc::new(LocalSubjectAccessReview),
            )
        },
        review(
            authorization,
            "authorization/v1.SelfSubjectRulesReview",
            "selfsubjectrulesreviews",
            Arc::new(SelfSubjectRulesReview),
        ),
    ]
}

/// Reviews are not stored; there is nothing to prepare or to keep.
#[derive(Debug)]
struct Review;

impl Strategy for Review {}
