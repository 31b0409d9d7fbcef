//! Zones of a pool: that they are there, and that they have the machine and volume types that are to be in them.

use allotment_core::catalog::{Reference, check_usage};

use super::{at, cloud, shoot};

const PROFILE: &str = "{type: t, machineTypes: [{name: m}, {name: m-lacking}], volumeTypes: [{name: v}, {name: v-lacking}], regions: [
    {name: r, zones: [{name: z}, {name: z-lacks, unavailableMachineTypes: [m-lacking], unavailableVolumeTypes: [v-lacking]}]}]}";

/// A pool: its zone, its machine type, its volume type.
#[derive(Clone, Copy, Debug)]
struct Pool(&'static str, &'static str, &'static str);

fn errors(region: &str, pool: Option<Pool>, old_region: &str, old: Option<Pool>) -> Vec<String> {
    let written = |region: &str, pool: Option<Pool>| {
        let pools = pool.map_or_else(String::new, |Pool(zone, machine, volume)| {
            format!("{{name: w, zones: [{zone}], machine: {{type: {machine}}}, volume: {{type: {volume}}}}}")
        });
        shoot(&format!("{{region: {region}, provider: {{type: t, workers: [{pools}]}}}}"))
    };
    let (new, old) = (written(region, pool), written(old_region, old));
    let name = Reference::cloud_profile("central");
    let found = check_usage(&new, Some(&old), &cloud(PROFILE), &name, at("2026-01-01T00:00:00Z"));
    found.iter().map(|error| error.to_string().replace("spec.provider.workers[w].", "")).collect()
}

#[track_caller]
fn check(found: &[String], expect: &[&str], what: impl std::fmt::Debug) {
    assert_eq!(found.len(), expect.len(), "{what:?}: {found:?}, not {expect:?}");
    for part in expect {
        assert!(found.iter().any(|error| error.contains(part)), "{what:?}: {part:?} is not in {found:?}");
    }
}

#[test]
fn each_of_three_questions_is_asked_where_one_of_its_sides_is_new() {
    for zone in ["z", "z-lacks", "z-gone"] {
        for machine in ["m", "m-lacking", "m-gone"] {
            for volume in ["v", "v-lacking", "v-gone"] {
                for (zone_new, machine_new, volume_new) in
                    (0..8).map(|bits| (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0))
                {
                    let was = |is_new: bool, now: &'static str| if is_new { "before" } else { now };
                    let old = Pool(was(zone_new, zone), was(machine_new, machine), was(volume_new, volume));
                    let new = Pool(zone, machine, volume);
                    let lacks = |what: &str| zone == "z-lacks" && what.ends_with("lacking");
                    let expect: Vec<&str> = [
                        (machine_new && machine == "m-gone", "machine.type: "),
                        (volume_new && volume == "v-gone", "volume.type: "),
                        (
                            zone_new && zone == "z-gone",
                            "zones[0]: Invalid value: \"z-gone\": region \"r\" has no such zone",
                        ),
                        (
                            (zone_new || machine_new) && lacks(machine),
                            "machine type \"m-lacking\" is not available in this zone",
                        ),
                        (
                            (zone_new || volume_new) && lacks(volume),
                            "volume type \"v-lacking\" is not available in this zone",
                        ),
                    ]
                    .into_iter()
                    .filter_map(|(is_told, text)| is_told.then_some(text))
                    .collect();
                    check(&errors("r", Some(new), "r", Some(old)), &expect, (old, new));
                }
            }
        }
    }
}

#[test]
fn zones_hang_on_their_region() {
    let gone = "region \"r-gone\" is not there any more";
    let pool = Pool("z", "m", "v");
    // What stays in a region that went stays; nothing is added there.
    check(&errors("r-gone", Some(pool), "r-gone", Some(pool)), &[], "all stays");
    check(&errors("r-gone", Some(Pool("z", "m-lacking", "v")), "r-gone", Some(pool)), &[], "another machine type");
    check(&errors("r-gone", Some(Pool("z2", "m", "v")), "r-gone", Some(pool)), &["zones[0]: "], "another zone");
    check(&errors("r-gone", Some(Pool("z2", "m", "v")), "r-gone", Some(pool)), &[gone], "another zone");
    check(&errors("r-gone", Some(pool), "r-gone", None), &[gone], "another pool");
    // A region that is not there is told once.
    check(&errors("r-gone", Some(pool), "r", Some(pool)), &["spec.region: "], "another region");
    // Of another region all zones are new.
    check(
        &errors("r", Some(Pool("z-gone", "m", "v")), "r-gone", Some(Pool("z-gone", "m", "v"))),
        &["has no such zone"],
        "a region",
    );
    let lacking = Pool("z-lacks", "m-lacking", "v-lacking");
    let both = ["machine type \"m-lacking\" is not available", "volume type \"v-lacking\" is not available"];
    check(&errors("r", Some(lacking), "r-gone", Some(lacking)), &both, "a region");
}

#[test]
fn a_data_volume_is_asked_for_in_each_zone() {
    let pool = |volumes: &str| {
        shoot(&format!(
            "{{region: r, provider: {{type: t, workers: [{{name: w, zones: [z, z-lacks], machine: {{type: m}}, {volumes}}}]}}}}"
        ))
    };
    let (old, new) =
        (pool("volume: {type: v}"), pool("volume: {type: v}, dataVolumes: [{type: v}, {type: v-lacking}]"));
    let name = Reference::cloud_profile("central");
    let found = check_usage(&new, Some(&old), &cloud(PROFILE), &name, at("2026-01-01T00:00:00Z"));
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    check(
        &found,
        &["spec.provider.workers[w].zones[1]: Invalid value: \"z-lacks\": volume type \"v-lacking\" is not available"],
        "a data volume",
    );
    assert_eq!(check_usage(&new, Some(&new), &cloud(PROFILE), &name, at("2026-01-01T00:00:00Z")), Vec::new());
}
