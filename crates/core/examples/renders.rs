//! How fast private profiles are rendered when their parent changes:
//! `cargo run --release -p allotment-core --example renders [PRIVATE [TYPES [VERSIONS]]]`. Every private profile extends a
//! date, adds an image version, a machine type and a region, and has one conflict. All renders are kept, as a landscape
//! keeps them; nothing is written.
#![expect(clippy::print_stdout, reason = "figures are what it is for")]
#![expect(clippy::disallowed_methods, reason = "it measures real time")]

use std::time::Instant;

use allotment_api::catalog::{CloudProfileSpec, PrivateCloudProfileSpec};
use allotment_core::catalog::{Parent, PrivateWrite, Rendered, render, settled, validate_private_profile};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

/// The program's allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Images of the parent; each has as many versions as are asked for.
const IMAGES: usize = 10;
/// Private profiles that are judged for the figure of one admission.
const JUDGED: usize = 500;

type Failure = Box<dyn std::error::Error>;

fn parent(types: usize, versions: usize) -> Result<CloudProfileSpec, Failure> {
    let date = |number: usize| format!("20{}-06-01T00:00:00Z", 30 + number % 10);
    let kubernetes: Vec<Value> = (0..versions)
        .map(|number| json!({"version": format!("1.{}.{}", 20 + number / 5, number % 5), "expirationDate": date(number)}))
        .collect();
    let image = |index: usize| {
        let version = |number: usize| {
            json!({"version": format!("15.{number}.20260101"), "expirationDate": date(number),
                "architectures": ["amd64", "arm64"], "cri": [{"name": "containerd"}]})
        };
        json!({"name": format!("image-{index}"), "versions": (0..versions).map(version).collect::<Vec<Value>>()})
    };
    let machine = |number: usize| {
        json!({"name": format!("m5.{number}xlarge"), "cpu": number + 1, "gpu": "0", "memory": format!("{}Gi", 4 * (number + 1)),
            "usable": true, "architecture": "amd64"})
    };
    let zone =
        |region: usize, zone: usize| json!({"name": format!("region-{region}-{zone}"), "unavailableMachineTypes": []});
    let region = |number: usize| json!({"name": format!("region-{number}"), "zones": (0..3).map(|at| zone(number, at)).collect::<Vec<Value>>()});
    Ok(serde_json::from_value(json!({"type": "aws", "kubernetes": {"versions": kubernetes},
        "machineImages": (0..IMAGES).map(image).collect::<Vec<Value>>(),
        "machineTypes": (0..types).map(machine).collect::<Vec<Value>>(),
        "regions": (0..20).map(region).collect::<Vec<Value>>(),
        "volumeTypes": [{"name": "gp3", "class": "standard", "usable": true}], "providerConfig": {"some": ["thing"]}}))?)
}

fn private(index: usize, types: usize, versions: usize) -> Result<PrivateCloudProfileSpec, Failure> {
    let (version, machine) = (index % versions, index % types);
    Ok(serde_json::from_value(json!({"parent": "central",
        "kubernetes": {"versions": [{"version": format!("1.{}.{}", 20 + version / 5, version % 5),
            "expirationDate": "2045-01-01T00:00:00Z"}]},
        "machineImages": [{"name": format!("image-{}", index % IMAGES), "versions": [
            {"version": format!("15.{version}.20260101"), "expirationDate": "2045-01-01T00:00:00Z"},
            {"version": format!("16.{index}"), "expirationDate": "2045-01-01T00:00:00Z"}]}],
        "machineTypes": [{"name": format!("own-{index}"), "cpu": "8", "gpu": "0", "memory": "16Gi"},
            {"name": format!("m5.{machine}xlarge"), "cpu": "1m", "gpu": "0", "memory": "1Gi"}],
        "regions": [{"name": format!("own-{index}"), "zones": [{"name": "a"}]}]}))?)
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let count = arguments.next().transpose()?.unwrap_or(5_000);
    let types = arguments.next().transpose()?.unwrap_or(500).max(1);
    let versions = arguments.next().transpose()?.unwrap_or(40).max(1);
    let spec = parent(types, versions)?;
    let size = serde_json::to_vec(&spec)?.len();
    println!(
        "a parent of {types} machine types and {IMAGES} images with {versions} versions each, {size} bytes; {count} private"
    );
    let all: Vec<PrivateCloudProfileSpec> =
        (0..count).map(|index| private(index, types, versions)).collect::<Result<_, _>>()?;

    let begun = Instant::now();
    let parent = Parent::new("central", spec);
    let prepared = begun.elapsed();
    let rendered: Vec<Rendered> = all.iter().map(|one| render(&parent, one)).collect();
    let elapsed = begun.elapsed();
    let conflicts: usize = rendered.iter().map(|one| one.conflicts.len()).sum();
    let faults: usize = rendered.iter().map(|one| one.faults.len()).sum();
    if conflicts != count || faults != 0 {
        return Err(format!("{conflicts} conflicts and {faults} faults, and one conflict each is right").into());
    }
    println!(
        "rendered in {:.0} ms by one thread: {:.1} ms for the parent, {:.1} µs for each private profile",
        elapsed.as_secs_f64() * 1e3,
        prepared.as_secs_f64() * 1e3,
        (elapsed - prepared).as_secs_f64() * 1e6 / count.max(1) as f64
    );

    let begun = Instant::now();
    let bytes =
        rendered.iter().map(|one| serde_json::to_vec(&one.spec).map(|text| text.len())).sum::<Result<usize, _>>()?;
    println!("written as {} MB of JSON in {:.0} ms", bytes / 1_000_000, begun.elapsed().as_secs_f64() * 1e3);

    let now: Timestamp = "2027-01-01T00:00:00Z".parse()?;
    let write = PrivateWrite { parent: &parent, old: None, removed: &[], in_use: &|_, _| false, now };
    let begun = Instant::now();
    for one in all.iter().take(JUDGED) {
        let left = settled(one, &write);
        let found = validate_private_profile(left.as_ref().unwrap_or(one), &write);
        if let Some(error) = found.errors.first() {
            return Err(error.to_string().into());
        }
    }
    let judged = count.clamp(1, JUDGED);
    println!("judged, conflicts told: {:.1} µs each", begun.elapsed().as_secs_f64() * 1e6 / judged as f64);
    Ok(())
}
