//! The command as users run it: `allot up` as a process, clients over TLS.

mod access;
mod credentials;
mod deletion;
mod folder;
mod harness;
mod kube_rs;
mod prefixes;
mod requests;
