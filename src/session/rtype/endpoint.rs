//! Where connections come from: the key that tells endpoints apart.

use std::net::SocketAddr;

use crate::session::drops;

/// An endpoint as a key of a [`crate::storage::Index`]: equal for the same canonical address and port, and only then.
///
/// 1.2.3.4 and ::ffff:1.2.3.4 are one address. A link-local address is another one on another link, so its scope
/// counts; what a flow label says does not.
pub type EndpointKey = (u128, u64);

/// The key of an endpoint.
pub fn endpoint_key(endpoint: SocketAddr) -> EndpointKey {
    let scope = match endpoint {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(endpoint) => endpoint.scope_id(),
    };
    (drops::key(endpoint.ip()), u64::from(scope) << 16 | u64::from(endpoint.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_per_canonical_endpoint() {
        let key = |text: &str| endpoint_key(text.parse().unwrap());
        assert_eq!(key("1.2.3.4:5"), key("[::ffff:1.2.3.4]:5"));
        let others = [
            "1.2.3.4:6",
            "1.2.3.5:5",
            "[::1.2.3.4]:5",
            "[fe80::1]:5",
            "[fe80::1%2]:5",
            "[fe80::1%3]:5",
            "[fe80::2]:5",
            "[fe80::1]:6",
            "[fe80::6]:1",
        ];
        let keys: std::collections::BTreeSet<EndpointKey> = others.iter().map(|text| key(text)).collect();
        assert_eq!(keys.len(), others.len());
        assert!(!keys.contains(&key("1.2.3.4:5")));
    }
}
