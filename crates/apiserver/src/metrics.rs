//! A few counters in Prometheus' text form. Labels are verbs and classes of status codes alone, so that
//! their number is bounded whatever clients ask for.

use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

const VERBS: [&str; 9] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "other"];
/// Status codes by their first digit: 2xx, 3xx, 4xx, 5xx.
const CLASSES: usize = 4;

/// The server's counters.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: [[AtomicU64; CLASSES]; VERBS.len()],
    in_flight: AtomicI64,
    panics: AtomicU64,
}

/// Counts a request as running until it is dropped.
pub(crate) struct InFlight<'a>(&'a Metrics);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// Counts a request that begins.
    pub(crate) fn begin(&self) -> InFlight<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(self)
    }

    /// Counts an answered request.
    pub(crate) fn answered(&self, verb: &str, code: u16) {
        let verb = VERBS.iter().position(|have| *have == verb).unwrap_or(VERBS.len() - 1);
        let class = usize::from(code / 100).clamp(2, CLASSES + 1) - 2;
        self.requests[verb][class].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request whose handling went wrong in a way that nobody thought of.
    pub(crate) fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// All counters in Prometheus' text form.
    pub(crate) fn text(&self, tenants: usize, revision: u64) -> String {
        let mut out = String::new();
        let mut line = |text: std::fmt::Arguments<'_>| {
            // Writing into a string cannot fail.
            let _ = writeln!(out, "{text}");
        };
        line(format_args!("# HELP apiserver_request_total Requests answered, by verb and class of status code."));
        line(format_args!("# TYPE apiserver_request_total counter"));
        for (verb, classes) in VERBS.iter().zip(&self.requests) {
            for (class, count) in
                classes.iter().enumerate().map(|(class, count)| (class + 2, count.load(Ordering::Relaxed)))
            {
                if count > 0 {
                    line(format_args!("apiserver_request_total{{verb=\"{verb}\",code=\"{class}xx\"}} {count}"));
                }
            }
        }
        let gauges = [
            ("apiserver_current_inflight_requests", "Requests being answered.", self.in_flight.load(Ordering::Relaxed)),
            ("apiserver_tenants", "Tenants served.", i64::try_from(tenants).unwrap_or(i64::MAX)),
            ("apiserver_store_revision", "The newest revision.", i64::try_from(revision).unwrap_or(i64::MAX)),
        ];
        for (name, help, value) in gauges {
            line(format_args!("# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}"));
        }
        let panics = self.panics.load(Ordering::Relaxed);
        let name = "apiserver_request_panics_total";
        line(format_args!(
            "# HELP {name} Requests whose handling failed unexpectedly.\n# TYPE {name} counter\n{name} {panics}"
        ));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_verb_and_class() {
        let metrics = Metrics::default();
        metrics.answered("get", 200);
        metrics.answered("get", 404);
        metrics.answered("brew", 599);
        let running = metrics.begin();
        let text = metrics.text(3, 7);
        for line in [
            "apiserver_request_total{verb=\"get\",code=\"2xx\"} 1",
            "apiserver_request_total{verb=\"get\",code=\"4xx\"} 1",
            "apiserver_request_total{verb=\"other\",code=\"5xx\"} 1",
            "apiserver_current_inflight_requests 1",
            "apiserver_tenants 3",
            "apiserver_store_revision 7",
        ] {
            assert!(text.lines().any(|have| have == line), "{line} in\n{text}");
        }
        drop(running);
        assert!(metrics.text(0, 0).contains("inflight_requests 0"));
    }
}
