//! Seeds, clean and with bugs planted.
//!
//! A seed that fails is repeated with `cargo run -p allotment-sim --example seed -- N`.

mod clean;
mod planted;
