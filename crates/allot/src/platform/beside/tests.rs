//! Which addresses are told. All else is tested beside kube-apiserver, and terms by themselves in `landscape`.

use super::*;

#[test]
fn nobody_is_told_an_address_that_means_all() {
    let check = |address: &str, expect: Result<(), Code>| {
        let address = address.parse().expect("an address");
        let seen = check_reachable("--listen", address, "--url").map_err(|failure| failure.code);
        assert_eq!(seen, expect, "{address}");
    };
    check("127.0.0.1:9443", Ok(()));
    check("[::1]:0", Ok(()));
    check("0.0.0.0:9443", Err(Code::Usage));
    check("[::]:0", Err(Code::Usage));
}
