//! Of a CloudProfile, what is written in a form of its own: selectors of seeds, dates.

use allotment_core::catalog::{Found, correct, validate_cloud_profile};
use allotment_machinery::yaml::parse_stream;

use super::{at, cloud};

const NOW: &str = "2026-06-01T00:00:00Z";

fn texts(found: &Found) -> Vec<String> {
    found.errors.iter().map(ToString::to_string).collect()
}

#[test]
fn a_selector_of_seeds_is_judged_as_kubernetes_judges_one_of_labels() {
    let check = |selector: &str, expect: &[&str]| {
        let found = validate_cloud_profile(&cloud(&format!("{{type: t, seedSelector: {selector}}}")), None, at(NOW));
        let texts = texts(&found);
        assert_eq!(texts.len(), expect.len(), "{selector}: {texts:?}");
        for (text, part) in texts.iter().zip(expect) {
            assert!(text.starts_with(&format!("spec.seedSelector.{part}")), "{part:?} does not begin {text:?}");
        }
    };
    check("{}", &[]);
    check("{matchLabels: {a/b: c, d: ''}, providerTypes: [aws, local], more: kept}", &[]);
    check(
        "{matchExpressions: [{key: a, operator: In, values: [b]}, {key: a, operator: NotIn, values: ['']},
          {key: a, operator: Exists}, {key: a, operator: DoesNotExist, values: []}]}",
        &[],
    );
    check(
        "{matchExpressions: [{key: a, operator: Foo}, {key: a, operator: In, values: []}, {key: a, operator: NotIn},
          {key: a, operator: Exists, values: [b]}, {key: 'a b', operator: Exists}, {key: a, operator: In, values: ['x y']}]}",
        &[
            "matchExpressions[0].operator: Invalid value: \"Foo\": not a valid selector operator",
            "matchExpressions[1].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            "matchExpressions[2].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            "matchExpressions[3].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            "matchExpressions[4].key: Invalid value: \"a b\": name part must consist of",
            "matchExpressions[5].values[0]: Invalid value: \"x y\": a valid label must be",
        ],
    );
    check("{matchLabels: {'a b': c}}", &["matchLabels: Invalid value: \"a b\": name part must consist of"]);
    check("{matchLabels: {a: 'c d'}}", &["matchLabels: Invalid value: \"c d\": a valid label must be"]);
    check("{providerTypes: [aws, '']}", &["providerTypes[1]: Required value: name a provider"]);
}

#[test]
fn what_is_no_time_is_told_with_what_would_be_one() {
    for (text, expect) in [
        ("2099-08-8T23:59:59Z", "not a time by RFC 3339: write \"2099-08-08T23:59:59Z\""),
        ("2099-08-08T23:59:59,5Z", "not a time by RFC 3339: write \"2099-08-08T23:59:59.5Z\""),
        ("2099-08-08T23:59:59+24:00", "not a time by RFC 3339: write it as \"2006-01-02T15:04:05Z\""),
        ("2099-08-08t23:59:59z", "Kubernetes takes a capital T and Z only: write \"2099-08-08T23:59:59Z\""),
        ("2099-08-08t23:59:59+01:00", "Kubernetes takes a capital T and Z only: write \"2099-08-08T23:59:59+01:00\""),
        (
            "2098-12-31T23:59:60Z",
            "Kubernetes knows no leap seconds: write the second before it, \"2098-12-31T23:59:59Z\"",
        ),
        ("2098-12-31T23:58:60.x", "not a time by RFC 3339: write it as \"2006-01-02T15:04:05Z\""),
    ] {
        let profile = format!(
            "{{type: t, machineImages: [{{name: i, versions: [{{version: '1', expirationDate: '{text}'}}]}}]}}"
        );
        let path = "spec.machineImages[i].versions[1].expirationDate";
        let told = format!("{path}: Invalid value: \"{text}\": {expect}");
        assert_eq!(texts(&validate_cloud_profile(&cloud(&profile), None, at(NOW))), [told.as_str()]);
        // Who puts the manifest right says the same.
        let read = parse_stream(&format!("spec: {profile}")).expect("YAML").remove(0);
        let slips = correct(&mut { read.value });
        let is_near = expect.ends_with(&format!("write {:?}", slips.first().map_or("", |slip| slip.corrected())));
        assert_eq!(slips.len(), usize::from(is_near), "{text}");
        assert!(slips.iter().all(|slip| slip.error().to_string() == told), "{text}: {slips:?}");
    }
}
