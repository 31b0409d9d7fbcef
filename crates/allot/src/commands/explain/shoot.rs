//! `allot explain shoot`: which profile a Shoot means, what that comes to, how each thing stands that the Shoot uses, and which
//! other profiles it could change to.

use allotment_api::catalog::{CloudProfile, KeptProfile, Shoot, Stored};
use allotment_core::catalog::{
    Candidate, Dates, Going, Offer, Offered, ProfileKind, Reference, Used, Verdict, candidates, explain_usage,
    reference, render,
};
use jiff::Timestamp;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::given::{Files, Given};
use crate::cli::{ExplainFormat, ExplainShoot, Target};
use crate::client::Platform;
use crate::commands::profiles::{self, Landscape};
use crate::exit::Outcome;
use crate::output;
use crate::platform::seams;

/// Explains one Shoot.
pub(crate) async fn run(target: &Target, arguments: ExplainShoot) -> Outcome {
    let files = (!arguments.files.is_empty()).then(|| Files::read(&arguments.files)).transpose()?;
    let platform = Platform::connect(target).await?;
    let named = arguments.namespace.clone().or_else(|| files.as_ref().and_then(|files| files.shoot.namespace()));
    let namespace = named.unwrap_or_else(|| platform.namespace.clone());
    let is_stored = files.is_none();
    let (shoot, given) = match files {
        Some(files) => files.within(&namespace)?,
        None => {
            let name = arguments.name.unwrap_or_default();
            let shoots = Api::<Stored<Shoot>>::namespaced(platform.client.clone(), &namespace);
            let shoot = profiles::get(&shoots, "Shoot", &format!("{namespace}/{name}"), &name).await?;
            (shoot, Given::default())
        }
    };
    let told = Told::of(&platform, &namespace, shoot, is_stored, given).await?;
    match arguments.output {
        ExplainFormat::Json => output::data(&output::json(&told.as_value())?),
        ExplainFormat::Yaml => output::data(&output::yaml(&told.as_value())?),
        ExplainFormat::Text => output::data(&told.as_text()),
    }
}

/// All that is told of a Shoot.
struct Told {
    namespace: String,
    shoot: Shoot,
    is_stored: bool,
    now: Timestamp,
    /// The profile that it means, or why it means none.
    profile: Result<Reference, String>,
    /// What the profile comes to; nothing where it cannot be had, which `unseen` tells.
    root: Option<Offer>,
    /// Whether the deletion of the profile, or of what it is made from, has begun.
    going: Option<Going>,
    conflicts: usize,
    used: Vec<Used>,
    candidates: Vec<Candidate>,
    unseen: Vec<String>,
    /// Which of the profile and its parent is not there.
    absent: Vec<String>,
}

impl Told {
    async fn of(
        platform: &Platform,
        namespace: &str,
        shoot: Shoot,
        is_stored: bool,
        given: Given,
    ) -> anyhow::Result<Self> {
        let profile = reference(&shoot.spec, None).map_err(|error| error.to_string());
        let mut told = Told {
            namespace: namespace.to_owned(),
            shoot,
            is_stored,
            now: seams().now(),
            profile,
            root: None,
            going: None,
            conflicts: 0,
            used: Vec::new(),
            candidates: Vec::new(),
            unseen: Vec::new(),
            absent: Vec::new(),
        };
        if let Ok(profile) = told.profile.clone() {
            told.look(platform, &profile, given).await?;
        }
        told.unseen.iter().for_each(|why| output::note(&format!("not shown: {why}")));
        Ok(told)
    }

    /// Looks at the profile, as a file has it or else the server.
    async fn look(&mut self, platform: &Platform, profile: &Reference, mut given: Given) -> anyhow::Result<()> {
        let mut there = Landscape::default();
        let private = match (profile.kind, given.private.get(&profile.name)) {
            (ProfileKind::CloudProfile, _) => None,
            (ProfileKind::PrivateCloudProfile, Some(private)) => Some(private.clone()),
            (ProfileKind::PrivateCloudProfile, None) => {
                let own = Api::<Stored<KeptProfile>>::namespaced(platform.client.clone(), &self.namespace);
                let place = format!("PrivateCloudProfile {}/{}", self.namespace, profile.name);
                there.one(&own, &profile.name, &place).await?
            }
        };
        let root = match (profile.kind, &private) {
            (ProfileKind::CloudProfile, _) => Some(profile.name.clone()),
            (ProfileKind::PrivateCloudProfile, private) => {
                private.as_ref().map(|private| private.spec.parent.name.clone())
            }
        };
        if let Some(root) = root {
            let all = Api::<Stored<CloudProfile>>::all(platform.client.clone());
            let offer = match given.cloud.remove(&root) {
                Some(offer) => Some(offer),
                None => there.one(&all, &root, &format!("CloudProfile {root}")).await?.map(Offer::new),
            };
            if let Some(offer) = offer {
                // It was read by itself, whatever the list lacks.
                let read: Vec<KeptProfile> = private.iter().cloned().chain(given.private.into_values()).collect();
                self.judge(platform, profile, private, offer, read, &mut there).await?;
            }
        }
        self.unseen = there.unseen;
        self.absent = there.absent;
        Ok(())
    }

    /// With the profile at hand: how everything stands with it, and with others. What was `read` counts instead of what is listed.
    async fn judge(
        &mut self,
        platform: &Platform,
        profile: &Reference,
        private: Option<KeptProfile>,
        offer: Offer,
        read: Vec<KeptProfile>,
        there: &mut Landscape,
    ) -> anyhow::Result<()> {
        let rendered = private.as_ref().map(|private| render(&offer.parent, &private.spec));
        self.going = Going::of(profile, private.as_ref().map(|private| &private.metadata), &offer);
        self.conflicts = rendered.as_ref().map_or(0, |rendered| rendered.conflicts.len());
        let offered = Offered {
            name: profile,
            parent: &offer.parent,
            private: private.as_ref().map(|private| &private.spec),
            rendered: rendered.as_ref().map_or(offer.parent.spec(), |rendered| &rendered.spec),
        };
        self.used = explain_usage(&self.shoot.spec, &offered, self.now);
        there.private_profiles(platform, Some(&self.namespace)).await?;
        read.into_iter().for_each(|private| there.add_private(private));
        there.add_profile(offer.clone());
        self.candidates = candidates(&there.catalog, &self.namespace, &self.shoot.spec, profile, self.now);
        self.root = Some(offer);
        Ok(())
    }

    fn refused(&self) -> usize {
        self.used.iter().filter(|used| used.verdict != Verdict::Ok).count()
    }

    /// What all of it comes to, in a sentence.
    fn sums_up(&self) -> String {
        if let (Some(going), false) = (&self.going, self.is_stored) {
            return format!("it would be refused: {going}: name another profile");
        }
        let refused = output::counted(self.refused(), "thing");
        match (&self.profile, &self.root, self.refused(), self.is_stored) {
            (Err(why), ..) => why.clone(),
            (Ok(_), None, ..) if self.absent.is_empty() => "unknown: its profile may not be seen".to_owned(),
            (Ok(_), None, _, true) => format!("{} is not there; what it uses already it keeps", self.absent.join(", ")),
            (Ok(_), None, _, false) => format!("it would be refused: {} is not there", self.absent.join(", ")),
            (Ok(_), Some(_), 0, true) => "all that it uses is given".to_owned(),
            (Ok(_), Some(_), 0, false) => "all that it asks for is given".to_owned(),
            (Ok(_), Some(_), _, true) => {
                format!("{refused} that it uses would not be given any more; what it uses already it keeps")
            }
            (Ok(_), Some(_), 1, false) => format!("it would be refused: {refused} that it asks for is not given"),
            (Ok(_), Some(_), _, false) => format!("it would be refused: {refused} that it asks for are not given"),
        }
    }

    fn as_value(&self) -> Value {
        let profile = self.profile.as_ref().ok();
        json!({
            "namespace": self.namespace,
            "name": self.shoot.name_any(),
            "stored": self.is_stored,
            "profile": profile.map(|profile| json!({"kind": profile.kind.as_str(), "name": profile.name})),
            "profileDeleting": self.going.is_some(),
            "cloudProfile": self.root.as_ref().map(|root| root.parent.name()),
            "conflicts": self.conflicts,
            "summary": self.sums_up(),
            "uses": self.used,
            "couldChangeTo": self.candidates,
            "unseen": self.unseen,
        })
    }

    fn as_text(&self) -> String {
        let name = Some(self.shoot.name_any()).filter(|name| !name.is_empty());
        let mut lines = vec![match name {
            Some(name) => format!("Shoot {}/{name}", self.namespace),
            None => format!("A Shoot without a name, in namespace {}", self.namespace),
        }];
        if let Ok(profile) = &self.profile {
            lines.push(format!("  profile    {} {}", profile.kind.as_str(), profile.name));
            if let Some(root) = self.root.as_ref().filter(|_| profile.kind == ProfileKind::PrivateCloudProfile) {
                lines.push(format!("  parent     CloudProfile {}", root.parent.name()));
            }
        }
        if let Some(going) = &self.going {
            let what = match going {
                Going::Itself(_) => "its profile",
                Going::Parent { .. } => "the CloudProfile that its profile is made from",
            };
            let waits = if self.is_stored { ", and waits for this Shoot: change over, or delete it" } else { "" };
            lines.push(format!("  deletion   {what} is being deleted{waits}"));
        }
        if self.conflicts > 0 {
            let count = output::counted(self.conflicts, "conflict");
            lines.push(format!("  conflicts  {count} with the parent, which holds: see `allot catalog diff`"));
        }
        lines.push(format!("  verdict    {}", self.sums_up()));
        let mut text = output::lines(&lines);
        if !self.used.is_empty() {
            let rows: Vec<Vec<String>> = self.used.iter().map(|used| self.row(used)).collect();
            text.push_str(&format!("\n\n{}", output::table(&["FIELD", "VALUE", "VERDICT", "DETAIL"], &rows)));
        }
        if !self.candidates.is_empty() {
            let rows: Vec<Vec<String>> = self.candidates.iter().map(candidate).collect();
            text.push_str(&format!("\n\n{}", output::table(&["COULD CHANGE TO", "ALLOWED", "DETAIL"], &rows)));
        }
        text
    }

    fn row(&self, used: &Used) -> Vec<String> {
        let until = used.dates.as_ref().and_then(|dates| dates.holds.as_ref());
        let verdict = match (used.verdict, until) {
            (Verdict::Ok, Some(date)) => format!("ok until {date}"),
            (Verdict::Ok, None) => "ok".to_owned(),
            (Verdict::Expired, Some(date)) => format!("expired on {date}"),
            (Verdict::Expired, None) => "expired".to_owned(),
            (Verdict::Unknown, _) => "unknown".to_owned(),
            (Verdict::Unusable, _) => "unusable".to_owned(),
            (Verdict::Unavailable, _) => "unavailable".to_owned(),
            (Verdict::Mismatch, _) => "does not go".to_owned(),
        };
        let mut detail = used.why.clone();
        detail.extend(used.dates.as_ref().and_then(origin));
        vec![used.path.clone(), used.value.clone(), verdict, detail.join("; ")]
    }
}

/// Where two profiles give dates: both.
fn origin(dates: &Dates) -> Option<String> {
    let (parent, private) = (dates.parent.as_ref()?, dates.private.as_ref()?);
    Some(format!("the CloudProfile says {parent}, the private profile {private}"))
}

fn candidate(candidate: &Candidate) -> Vec<String> {
    let name = format!("{} {}", candidate.kind, candidate.name);
    let detail = match (candidate.lacks.as_slice(), candidate.refused.as_slice()) {
        ([], []) => "all that it uses is given there".to_owned(),
        ([], refused) => format!("it keeps what it has; to a new Shoot is not given: {}", refused.join("; ")),
        (lacks, _) => lacks.join("; "),
    };
    vec![name, if candidate.allowed { "yes" } else { "no" }.to_owned(), detail]
}
