//! How much may stand in a profile or a Shoot. Landscapes have some 1,500 machine types, 300 volume types and regions, 100 versions
//! of an image; the bounds leave room for several times that, and end what no landscape has: each entry costs every private
//! profile, Shoot and reader of it. An object as a whole is bounded by its API server.

/// Characters of a name, a version and other words: what names of objects may have.
pub(super) const TEXT: u32 = 253;
/// Characters of a date or a quantity.
pub(super) const SHORT: u32 = 64;
/// Characters of certificates: twice what operating systems trust (some 140, 220 KB).
pub(super) const BUNDLE: u32 = 512 * 1024;
/// Kubernetes versions, or versions of one image.
pub(super) const VERSIONS: u32 = 1_000;
/// Machine images.
pub(super) const IMAGES: u32 = 500;
/// Machine types, on offer or missing in a zone.
pub(super) const MACHINE_TYPES: u32 = 5_000;
/// Volume types, on offer or missing in a zone.
pub(super) const VOLUME_TYPES: u32 = 1_000;
/// Regions.
pub(super) const REGIONS: u32 = 1_000;
/// Zones of a region or a worker pool, or volumes of a machine.
pub(super) const ZONES: u32 = 100;
/// Worker pools of a Shoot.
pub(super) const WORKERS: u32 = 1_000;
/// What there is a handful of: architectures, container runtimes, labels, restrictions, types of providers.
pub(super) const FEW: u32 = 100;
