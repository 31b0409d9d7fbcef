//! The smallest sequence that parts in the same way: steps, parameters and members of bodies are left out
//! as long as it does.

use allotment_machinery::json::Value;
use anyhow::Result;

use crate::run::{Bench, Outcome, Parting};
use crate::sequence::{Body, Sequence, Step, StepKind};

/// How many runs shrinking may cost.
const MOST_RUNS: usize = 400;

/// Makes `sequence`, which parted as `parting` says, smaller. Gives what is left, and how that parts.
///
/// # Errors
/// A server does not answer.
pub async fn shrink(
    bench: &mut Bench,
    words: &mut impl FnMut() -> String,
    sequence: Sequence,
    parting: Parting,
) -> Result<(Sequence, Parting)> {
    let mut best = (sequence, parting);
    let mut runs = 0;
    loop {
        let before = best.0.clone();
        for candidate in 0.. {
            // What can be left out is listed anew after each success: positions have moved.
            let Some(smaller) = smaller(&best.0).nth(candidate) else { break };
            let mut smaller = smaller;
            loop {
                runs += 1;
                if runs > MOST_RUNS {
                    return Ok(best);
                }
                let outcome = bench.run(&smaller, &words()).await?;
                match outcome {
                    Outcome::Parted(parting) if parting.signature() == best.1.signature() => {
                        best = (smaller, parting);
                    }
                    _ => break,
                }
                let Some(next) = self::smaller(&best.0).nth(candidate) else { break };
                smaller = next;
            }
        }
        if best.0 == before {
            return Ok(best);
        }
    }
}

/// What is one thing less than `sequence`, large things first.
fn smaller(sequence: &Sequence) -> impl Iterator<Item = Sequence> + '_ {
    let length = sequence.steps.len();
    let halves = [length / 2, length / 4].into_iter().filter(|size| *size > 1).flat_map(move |size| {
        (0..length.saturating_sub(size)).step_by(size).map(move |start| without(sequence, start, size))
    });
    let steps = (0..length).map(move |index| without(sequence, index, 1));
    let within = sequence.steps.iter().enumerate().flat_map(move |(index, step)| {
        smaller_steps(step).into_iter().map(move |step| {
            let mut sequence = sequence.clone();
            sequence.steps[index] = step;
            sequence
        })
    });
    let keeps = |smaller: &Sequence| !smaller.steps.is_empty() && waits(smaller) == waits(sequence);
    halves.chain(steps).chain(within).filter(keeps)
}

/// The steps that wait, and those that make what is waited for. They stay: without them the others meet a server
/// that is not ready, which is another difference.
fn waits(sequence: &Sequence) -> Vec<usize> {
    let last = sequence.steps.iter().rposition(|step| matches!(step.kind, StepKind::Until(_)));
    let ahead = sequence.steps.iter().take(last.map_or(0, |last| last + 1));
    ahead.filter(|step| step.method == "POST" || matches!(step.kind, StepKind::Until(_))).map(|step| step.id).collect()
}

fn without(sequence: &Sequence, start: usize, count: usize) -> Sequence {
    let mut steps = sequence.steps.clone();
    steps.drain(start..(start + count).min(steps.len()));
    Sequence { steps }
}

fn smaller_steps(step: &Step) -> Vec<Step> {
    let mut all = Vec::new();
    for (index, (_, value)) in step.query.iter().enumerate() {
        // What keeps a step to the objects of its own run stays.
        if !value.contains("${r}") && step.kind != StepKind::Watch {
            let mut step = step.clone();
            step.query.remove(index);
            all.push(step);
        }
    }
    for index in 0..step.headers.len() {
        let mut step = step.clone();
        step.headers.remove(index);
        all.push(step);
    }
    if let Body::Json(body) = &step.body {
        all.extend(smaller_values(body).into_iter().map(|body| Step { body: Body::Json(body), ..step.clone() }));
    }
    all
}

fn smaller_values(value: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    match value {
        Value::Object(map) => {
            for (key, member) in map.iter() {
                // Whose an object is stays.
                if key == "run" || (key == "name" && member.as_str().is_some_and(|name| name.contains("${"))) {
                    continue;
                }
                let mut less = map.clone();
                less.remove(key);
                all.push(Value::Object(less));
            }
            for (key, member) in map.iter() {
                for smaller in smaller_values(member) {
                    let mut less = map.clone();
                    less.insert(key, smaller);
                    all.push(Value::Object(less));
                }
            }
        }
        Value::Array(items) => {
            for index in 0..items.len() {
                let mut less = items.clone();
                less.remove(index);
                all.push(Value::Array(less));
            }
            for (index, item) in items.iter().enumerate() {
                for smaller in smaller_values(item) {
                    let mut less = items.clone();
                    less[index] = smaller;
                    all.push(Value::Array(less));
                }
            }
        }
        _ => {}
    }
    all
}

#[cfg(test)]
mod tests {
    use allotment_machinery::json;

    use super::*;

    fn sequence() -> Sequence {
        let body = Body::Json(json!({"metadata": {"labels": {"run": "${r}", "app": "x"}}, "list": [1, {"a": 2}]}));
        let query = vec![("labelSelector".to_owned(), "run=${r}".to_owned()), ("limit".to_owned(), "1".to_owned())];
        let step =
            |id| Step { id, method: "POST".to_owned(), body: body.clone(), query: query.clone(), ..Step::default() };
        Sequence { steps: vec![step(1), step(2)] }
    }

    #[test]
    fn every_candidate_is_another_and_the_same_one_less() {
        let original = sequence();
        for candidate in smaller(&original) {
            assert_ne!(candidate, original);
            assert!(format!("{candidate:?}").len() < format!("{original:?}").len());
        }
        assert!(smaller(&original).count() > 10);
    }

    #[test]
    fn what_keeps_a_run_to_itself_stays() {
        for candidate in smaller(&sequence()) {
            for step in &candidate.steps {
                assert!(step.query.iter().any(|(_, value)| value == "run=${r}"));
                let labels = match &step.body {
                    Body::Json(body) => body.at(&["metadata", "labels"]),
                    _ => None,
                };
                assert!(labels.is_none_or(|labels| labels.get("run").is_some()));
            }
        }
    }

    #[test]
    fn what_is_waited_for_stays() {
        let mut original = sequence();
        original.steps[1].kind = StepKind::Until(200);
        original.steps.push(Step { id: 3, method: "GET".to_owned(), ..Step::default() });
        for candidate in smaller(&original) {
            let ids: Vec<usize> = candidate.steps.iter().map(|step| step.id).collect();
            assert!(ids.starts_with(&[1, 2]), "{ids:?}");
        }
    }
}
