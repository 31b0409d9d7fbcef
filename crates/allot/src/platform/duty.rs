//! What a replica of `allot controllers` does at the moment, for probes and metrics. Whoever reaches the webhooks' listener may
//! ask: it tells numbers, and no names.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What a replica does at the moment, and how often it did something.
#[derive(Clone, Debug, Default)]
pub(super) struct Duty(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    leads: AtomicBool,
    serves: AtomicBool,
    terms: AtomicU64,
    answered: AtomicU64,
    refused_to_read: AtomicU64,
    panics: AtomicU64,
}

impl Duty {
    /// It holds the Lease and acts, or does not any more.
    pub(super) fn set_leads(&self, leads: bool) {
        if leads && !self.0.leads.load(Ordering::Relaxed) {
            self.0.terms.fetch_add(1, Ordering::Relaxed);
        }
        self.0.leads.store(leads, Ordering::Relaxed);
    }

    /// It serves logical clusters, or does not any more.
    pub(super) fn set_serves(&self, serves: bool) {
        self.0.serves.store(serves, Ordering::Relaxed);
    }

    /// Whether it serves logical clusters.
    pub(super) fn serves(&self) -> bool {
        self.0.serves.load(Ordering::Relaxed)
    }

    /// A review was answered, or could not be read.
    pub(super) fn reviewed(&self, answered: bool) {
        let count = if answered { &self.0.answered } else { &self.0.refused_to_read };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// A review could not be answered by a fault of the program.
    pub(super) fn panicked(&self) {
        self.0.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// As Prometheus reads it.
    pub(super) fn metrics(&self) -> String {
        let Counts { leads, serves, terms, answered, refused_to_read, panics } = &*self.0;
        let gauge = |value: &AtomicBool| u8::from(value.load(Ordering::Relaxed));
        let count = |value: &AtomicU64| value.load(Ordering::Relaxed);
        format!(
            "# HELP allot_controllers_leads Whether this replica holds the Lease and acts.\n\
             # TYPE allot_controllers_leads gauge\nallot_controllers_leads {}\n\
             # HELP allot_controllers_serves_clusters Whether this replica serves logical clusters.\n\
             # TYPE allot_controllers_serves_clusters gauge\nallot_controllers_serves_clusters {}\n\
             # HELP allot_controllers_terms_total Terms that this replica began.\n\
             # TYPE allot_controllers_terms_total counter\nallot_controllers_terms_total {}\n\
             # HELP allot_reviews_total Admission reviews, by whether they could be read.\n\
             # TYPE allot_reviews_total counter\nallot_reviews_total{{read=\"true\"}} {}\n\
             allot_reviews_total{{read=\"false\"}} {}\n\
             # HELP allot_review_panics_total Reviews that were not answered by a fault of the program.\n\
             # TYPE allot_review_panics_total counter\nallot_review_panics_total {}\n",
            gauge(leads),
            gauge(serves),
            count(terms),
            count(answered),
            count(refused_to_read),
            count(panics),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_tell_what_it_does_and_did() {
        let duty = Duty::default();
        duty.set_leads(true);
        duty.set_leads(true);
        duty.set_leads(false);
        duty.set_serves(true);
        duty.reviewed(true);
        let text = duty.metrics();
        for line in [
            "allot_controllers_leads 0",
            "allot_controllers_serves_clusters 1",
            "allot_controllers_terms_total 1",
            "allot_reviews_total{read=\"true\"} 1",
            "allot_reviews_total{read=\"false\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }
}
