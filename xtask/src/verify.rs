//! What is checked, in which order: cheap and telling things first.

use anyhow::Result;

use crate::run::{cargo, run, step};
use crate::{assets, clients, edges, generate, golden, house, live, openapi};

/// What needs nothing but Rust.
pub(crate) fn quick() -> Result<()> {
    step("format", || run(cargo().args(["fmt", "--all", "--check"])))?;
    step("house rules", house::check)?;
    step("edges", edges::check)?;
    step("lints", || {
        run(cargo().args(["clippy", "--quiet", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    })?;
    step("tests", || run(cargo().args(["test", "--locked", "--workspace", "--no-fail-fast"])))
}

/// Everything; `soak` runs the long loops too.
pub(crate) fn full(soak: bool) -> Result<()> {
    quick()?;
    step("docs", || {
        run(cargo()
            .args(["doc", "--quiet", "--locked", "--workspace", "--no-deps", "--document-private-items"])
            .env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links"))
    })?;
    step("generated files", || generate::types(true))?;
    step("recorded replies", || golden::check(false))?;
    step("OpenAPI", openapi::check)?;
    step("clients", || clients::check(&[]))?;
    step("provider in Python", clients::example_provider)?;
    step("cases beside kube-apiserver", live::cases)?;
    step("document beside kube-apiserver", live::document)?;
    if soak {
        step("small stacks", || {
            // Only optimised builds keep to it: see the tests' own constants.
            let test = |package: &str, of: &[&str]| {
                run(cargo().args(["test", "--release", "--locked", "-p", package, "--test"]).args(of))
            };
            test("allotment-machinery", &["hostile"])?;
            test("allotment-apiserver", &["api", "hostile::"])
        })?;
        step("soak", || {
            let tests = ["test", "--locked", "--workspace", "--no-fail-fast", "--", "--include-ignored"];
            let programs = assets::kubernetes()?;
            run(cargo().args(tests).env("ALLOTMENT_SOAK", "1").env("ALLOTMENT_KUBERNETES", programs))
        })?;
        step("beside kube-apiserver", live::soak)?;
    }
    Ok(())
}

/// Formats, and writes generated files anew.
pub(crate) fn fix() -> Result<()> {
    step("format", || run(cargo().args(["fmt", "--all"])))
}
