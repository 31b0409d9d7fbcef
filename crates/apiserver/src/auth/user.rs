//! Who asks.

use std::collections::BTreeMap;

/// An authenticated identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    /// The name: `alice`, `system:serviceaccount:NAMESPACE:NAME`.
    pub name: String,
    /// A unique id, where the authenticator knows one.
    pub uid: String,
    /// Groups, `system:authenticated` included.
    pub groups: Vec<String>,
    /// What else the authenticator says.
    pub extra: BTreeMap<String, Vec<String>>,
}
