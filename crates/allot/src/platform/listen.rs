//! Takes the data folder and the address, in the order in which neither is touched if the other cannot
//! be had.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use allotment_store::{Embedded, Options};
use tokio::net::TcpListener;

use super::files::DataFolder;
use super::store_failure;
use crate::exit::{Code, Failure};

/// Where a new platform serves if it is not told.
const DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7443);

/// Opens the store and binds the address.
///
/// A folder that holds a platform is locked first, since a second process on it should hear that, not
/// that its address is taken. A new folder is made last, so that a taken address leaves nothing behind.
pub(super) async fn claim(folder: &DataFolder, asked: Option<SocketAddr>) -> Result<(TcpListener, Embedded), Failure> {
    if folder.is_new() {
        let listener = bind(wanted(asked, None)).await?;
        folder.create()?;
        let store = open(folder).await?;
        return Ok((listener, store));
    }
    let before = folder.address()?;
    let store = open(folder).await?;
    let listener = bind(wanted(asked, before)).await?;
    Ok((listener, store))
}

/// The address asked for; port 0, or nothing asked for, means the one before.
fn wanted(asked: Option<SocketAddr>, before: Option<SocketAddr>) -> SocketAddr {
    match (asked, before) {
        (Some(asked), Some(before)) if asked.port() == 0 && asked.ip() == before.ip() => before,
        (Some(asked), _) => asked,
        (None, Some(before)) => before,
        (None, None) => DEFAULT,
    }
}

async fn open(folder: &DataFolder) -> Result<Embedded, Failure> {
    Embedded::open(&folder.store(), Options::default()).await.map_err(store_failure)
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Failure::new(
            Code::AddressInUse,
            format!(
                "--listen: {address} is in use; stop what listens there, or choose another (port 0 takes a free one)"
            ),
        ),
        _ => Failure::new(Code::Failed, format!("--listen: cannot listen on {address}: {error}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_platform_stays_where_it_was_unless_told_otherwise() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let check = |asked: Option<&str>, before: Option<&str>, expect: &str| {
            assert_eq!(wanted(asked.map(at), before.map(at)), at(expect), "{asked:?} after {before:?}");
        };
        check(None, None, "127.0.0.1:7443");
        check(None, Some("127.0.0.1:40001"), "127.0.0.1:40001");
        check(Some("127.0.0.1:0"), None, "127.0.0.1:0");
        check(Some("127.0.0.1:0"), Some("127.0.0.1:40001"), "127.0.0.1:40001");
        check(Some("127.0.0.1:9"), Some("127.0.0.1:40001"), "127.0.0.1:9");
        check(Some("[::1]:0"), Some("127.0.0.1:40001"), "[::1]:0");
    }
}
