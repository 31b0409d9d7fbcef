//! Ports for programs that have to be told theirs, and for those that come back to the same one.
//!
//! A port that the system chose and that nobody holds any more may be chosen again the next moment, by any
//! listener or connection of the machine. These lie below the range that the system chooses from.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, bail};

/// Where Linux tells what range it chooses from.
const CHOSEN: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// Where that range begins if it is not told.
const CHOSEN_FROM: u16 = 32_768;
/// How many ports below it are given away.
const COUNT: u16 = 12_000;
/// The first of the ports that anybody may listen on.
const UNPRIVILEGED: u16 = 1024;

/// Counts through the ports from a place of this process's own, so that processes side by side do not meet.
static NEXT: LazyLock<AtomicUsize> =
    LazyLock::new(|| AtomicUsize::new(usize::try_from(RandomState::new().hash_one(0)).unwrap_or_default() >> 1));

/// Ports of loopback that nobody listens on, each given away once by this process.
///
/// # Errors
/// All of them are taken.
pub fn unused<const N: usize>() -> Result<[u16; N]> {
    let end = std::fs::read_to_string(CHOSEN).ok().and_then(|text| text.split_whitespace().next()?.parse().ok());
    let end = end.unwrap_or(CHOSEN_FROM).max(UNPRIVILEGED + COUNT);
    let mut ports = [0; N];
    for port in &mut ports {
        *port = unused_below(end)?;
    }
    Ok(ports)
}

fn unused_below(end: u16) -> Result<u16> {
    for _ in 0..COUNT {
        let place = NEXT.fetch_add(1, Ordering::Relaxed) % usize::from(COUNT);
        let port = end - COUNT + u16::try_from(place)?;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("all ports from {} to {end} of loopback are taken", end - COUNT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_given_away_once_and_none_that_the_system_may_choose() {
        let [first, second] = unused().unwrap();
        assert_ne!(first, second);
        let chosen = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        assert!(first < chosen && second < chosen, "the system chose {chosen}, not above {first} and {second}");
    }

    #[test]
    fn a_port_that_somebody_listens_on_is_passed_over() {
        let [port] = unused().unwrap();
        let _held = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        let given: Vec<u16> = (0..COUNT).filter_map(|_| unused_below(port + 1).ok()).collect();
        assert!(given.len() > usize::from(COUNT) / 2 && !given.contains(&port), "{port} of {}", given.len());
    }
}
