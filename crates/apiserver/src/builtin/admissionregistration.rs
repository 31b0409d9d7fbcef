//! Webhooks and policies of admission. This server asks no webhook and judges by no policy yet, and one that it
//! stored would look as if it were enforced; so it is refused, in words that say so. The kinds are there all the
//! same: who lists or watches them finds none, and a configuration without webhooks is one.

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};

use crate::builtin::print::cells;
use crate::builtin::rules::look::list;
use crate::builtin::rules::{Errors, Rules};

/// Their group.
pub(crate) const GROUP: &str = "admissionregistration.k8s.io";

const NO_WEBHOOKS: &str = "this server does not call admission webhooks yet, so it would not be enforced; leave it out, or enforce the rule elsewhere";
const NO_POLICIES: &str = "this server does not evaluate admission policies yet, so it would not be enforced; leave it out, or enforce the rule elsewhere";

/// ValidatingWebhookConfigurations.
pub(crate) const VALIDATING_WEBHOOKS: Rules = webhooks("admissionregistration/v1.ValidatingWebhookConfiguration");
/// MutatingWebhookConfigurations.
pub(crate) const MUTATING_WEBHOOKS: Rules = webhooks("admissionregistration/v1.MutatingWebhookConfiguration");
/// ValidatingAdmissionPolicies.
pub(crate) const VALIDATING_POLICY: Rules = policy("admissionregistration/v1.ValidatingAdmissionPolicy");
/// What says where they are in force.
pub(crate) const VALIDATING_BINDING: Rules = policy("admissionregistration/v1.ValidatingAdmissionPolicyBinding");
/// MutatingAdmissionPolicies.
pub(crate) const MUTATING_POLICY: Rules = policy("admissionregistration/v1.MutatingAdmissionPolicy");
/// What says where they are in force.
pub(crate) const MUTATING_BINDING: Rules = policy("admissionregistration/v1.MutatingAdmissionPolicyBinding");

const fn webhooks(message: &'static str) -> Rules {
    Rules {
        counts: true,
        validate: refuse_webhooks,
        cells: Some(|object, now| {
            vec![cells::name(object), Value::from(list(object, "webhooks").len() as i64), cells::age(object, now)]
        }),
        ..Rules::of(message)
    }
}

const fn policy(message: &'static str) -> Rules {
    Rules { counts: true, validate: refuse_policy, ..Rules::of(message) }
}

fn refuse_webhooks(configuration: &Map, errors: &mut Errors) {
    for index in 0..list(configuration, "webhooks").len() {
        errors.push(FieldError::forbidden(&Path::new("webhooks").index(index), NO_WEBHOOKS));
    }
}

fn refuse_policy(_: &Map, errors: &mut Errors) {
    errors.push(FieldError::forbidden(&Path::new("spec"), NO_POLICIES));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::rules::judged;

    #[track_caller]
    fn check(rules: &Rules, new: &str, expect: &[&str]) {
        let new = allotment_machinery::json::parse(new.as_bytes()).expect("is JSON");
        judged::check(rules, None, new, expect);
    }

    #[test]
    fn what_would_not_be_enforced_is_refused_and_what_enforces_nothing_is_not() {
        let told = format!("webhooks[0]: Forbidden: {NO_WEBHOOKS}");
        for rules in [VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS] {
            check(&rules, r#"{"webhooks":[{"name":"a.example.com"}]}"#, &[&told]);
            check(&rules, r#"{"webhooks":[]}"#, &[]);
            check(&rules, "{}", &[]);
        }
        let told = format!("spec: Forbidden: {NO_POLICIES}");
        for rules in [VALIDATING_POLICY, VALIDATING_BINDING, MUTATING_POLICY, MUTATING_BINDING] {
            check(&rules, "{}", &[&told]);
        }
    }
}
