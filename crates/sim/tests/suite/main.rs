//! Seeds, clean and with bugs planted.
//!
//! A seed that fails is repeated with `SEED=N cargo test -p allotment-sim one_seed -- --ignored --nocapture`.

mod clean;
mod planted;
