//! Ranges of addresses and ports, with their allocated values.

use std::collections::BTreeSet;
use std::net::IpAddr;

/// The fewest addresses of a range, as upstream's, and the binary logarithm of the most.
const FEWEST: u128 = 8;
const MOST_BITS: u8 = 20;
/// The fewest numbers of a static band.
const FEWEST_STATIC: u128 = 16;

/// The reason why ranges of addresses cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    #[error("{0:?} is not a range of IP addresses such as 10.96.0.0/16 or fd00:10:96::/112")]
    NotACidr(String),
    /// The address has bits after its prefix.
    #[error("{given} is an address within a range; the range is {range}")]
    HostBits { given: String, range: String },
    #[error("{0} has fewer than {FEWEST} addresses; choose a range with a prefix of at most /{1}")]
    TooSmall(String, u8),
    #[error("{0} has too many addresses; choose a range with a prefix of at least /{1}")]
    TooLarge(String, u8),
    #[error("{0} and {1} are of the same IP family; two ranges have to be one of IPv4 and one of IPv6")]
    SameFamily(String, String),
    #[error("{0} ranges were given; one or two are possible, of IPv4 and IPv6")]
    WrongNumber(usize),
}

/// The numbers between two bounds. It allocates them in ascending order, starting after the last
/// allocated one. The first numbers may be a static band for those that clients ask for: it
/// allocates one of them only when all others are taken.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    first: u128,
    last: u128,
    /// The first number after the static band.
    dynamic: u128,
    next: u128,
    taken: BTreeSet<u128>,
}

impl Pool {
    /// Creates a pool in which all numbers from `first` to `last` are free.
    pub(super) fn new(first: u128, last: u128) -> Self {
        Self { first, last, dynamic: first, next: first, taken: BTreeSet::new() }
    }

    /// Makes the first numbers of a range of `size` numbers a static band: one `share`th of the
    /// range, between 16 and `most`. A range with 16 numbers or fewer has none.
    pub(super) fn with_static_band(mut self, size: u128, share: u128, most: u128) -> Self {
        let band = if size <= FEWEST_STATIC { 0 } else { (size / share).clamp(FEWEST_STATIC, most) };
        self.dynamic = self.first + band;
        self.next = self.dynamic;
        self
    }

    pub(super) fn contains(&self, number: u128) -> bool {
        (self.first..=self.last).contains(&number)
    }

    /// Allocates one number. Returns false if it is allocated already. This also records a number
    /// outside the range, since a loaded Service may have one.
    pub(super) fn take(&mut self, number: u128) -> bool {
        self.taken.insert(number)
    }

    /// Allocates the next free number. Returns `None` if the range is full.
    pub(super) fn take_next(&mut self) -> Option<u128> {
        let free = |from: u128, to: u128| (from..=to).find(|n| !self.taken.contains(n));
        let number = free(self.next, self.last)
            .or_else(|| free(self.dynamic, self.next))
            .or_else(|| free(self.first, self.dynamic))?;
        self.taken.insert(number);
        self.next = if (self.dynamic..self.last).contains(&number) { number + 1 } else { self.dynamic };
        Some(number)
    }

    pub(super) fn release(&mut self, number: u128) {
        self.taken.remove(&number);
    }
}

/// The addresses of a range, with those that are allocated.
#[derive(Clone, Debug)]
pub struct Addresses {
    network: IpAddr,
    prefix: u8,
    pool: Pool,
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => u128::from(u32::from(a)),
        IpAddr::V6(a) => u128::from(a),
    }
}

impl Addresses {
    /// Returns all addresses of a CIDR except its first and, for IPv4, its last.
    ///
    /// # Errors
    ///
    /// If the text is no CIDR, or if the range has fewer than 8 addresses or more than 2²⁰, as
    /// upstream.
    pub fn parse(cidr: &str) -> Result<Self, RangeError> {
        let wrong = || RangeError::NotACidr(cidr.to_owned());
        let (address, prefix) = cidr.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let prefix: u8 = prefix.parse().map_err(|_| wrong())?;
        let bits: u8 = if address.is_ipv4() { 32 } else { 128 };
        let host_bits = bits.checked_sub(prefix).ok_or_else(wrong)?;
        if host_bits > MOST_BITS {
            return Err(RangeError::TooLarge(cidr.to_owned(), bits - MOST_BITS));
        }
        let size = 1u128 << host_bits;
        if size < FEWEST {
            return Err(RangeError::TooSmall(cidr.to_owned(), bits - FEWEST.ilog2() as u8));
        }
        let base = number(address) & !(size - 1);
        let network = address_of(base, address.is_ipv4());
        if network != address {
            let range = format!("{network}/{prefix}");
            return Err(RangeError::HostBits { given: cidr.to_owned(), range });
        }
        let last = base + size - 1 - u128::from(address.is_ipv4());
        Ok(Self { network, prefix, pool: Pool::new(base + 1, last) })
    }

    /// Reserves the first addresses for Services that ask for one, as a kube-apiserver does
    /// (KEP-3070): a sixteenth of the range, between 16 and 256.
    pub(super) fn with_static_band(mut self) -> Self {
        let bits = if self.is_ipv4() { 32 } else { 128 };
        self.pool = self.pool.with_static_band(1 << (bits - self.prefix), 16, 256);
        self
    }

    /// Returns true if the range is IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.network.is_ipv4()
    }

    /// Returns true if an address belongs to the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        let bits = if self.is_ipv4() { 32 } else { 128 };
        address.is_ipv4() == self.is_ipv4()
            && (number(address) ^ number(self.network)) >> (bits - self.prefix) == 0
    }

    /// Returns true if an address belongs to both ranges.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains(other.network) || other.contains(self.network)
    }

    /// Allocates an address that a client requested. The error has the words of the real allocator.
    /// For an address of another network, a kube-apiserver since 1.33 says "the provided network
    /// does not match the current range"; this names the range, as earlier ones do.
    pub(super) fn take(&mut self, address: IpAddr) -> Result<(), String> {
        let number = number(address);
        if !self.contains(address) || !self.pool.contains(number) {
            return Err(format!(
                "the provided IP ({address}) is not in the valid range. The range of valid IPs is {}/{}",
                self.network, self.prefix
            ));
        }
        if self.pool.take(number) { Ok(()) } else { Err("provided IP is already allocated".to_owned()) }
    }

    /// Allocates the next free address. Returns `None` if there is none.
    pub fn take_next(&mut self) -> Option<IpAddr> {
        let number = self.pool.take_next()?;
        Some(address_of(number, self.is_ipv4()))
    }

    /// Marks an address as allocated.
    pub fn occupy(&mut self, address: IpAddr) {
        self.pool.take(number(address));
    }

    /// Makes an address free again.
    pub fn release(&mut self, address: IpAddr) {
        self.pool.release(number(address));
    }
}

fn address_of(number: u128, ipv4: bool) -> IpAddr {
    match u32::try_from(number) {
        Ok(number) if ipv4 => IpAddr::V4(number.into()),
        _ => IpAddr::V6(number.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_count_up_and_wrap() {
        let mut range = Addresses::parse("10.0.0.0/29").unwrap();
        let mut take = || range.take_next().map(|a| a.to_string());
        for last in 1..=6 {
            assert_eq!(take(), Some(format!("10.0.0.{last}")));
        }
        assert_eq!(take(), None);
        range.release("10.0.0.3".parse().unwrap());
        assert_eq!(range.take_next().unwrap().to_string(), "10.0.0.3");
    }

    #[test]
    fn the_static_band_is_used_last() {
        let first = |cidr: &str| {
            let mut range = Addresses::parse(cidr).unwrap().with_static_band();
            range.take_next().unwrap().to_string()
        };
        // The figures are those of KEP-3070 and of upstream's tests.
        assert_eq!(first("10.96.0.0/12"), "10.96.1.1");
        assert_eq!(first("10.96.0.0/16"), "10.96.1.1");
        assert_eq!(first("10.96.0.0/20"), "10.96.1.1");
        assert_eq!(first("10.96.0.0/22"), "10.96.0.65");
        assert_eq!(first("10.96.0.0/24"), "10.96.0.17");
        assert_eq!(first("10.96.0.0/27"), "10.96.0.17");
        assert_eq!(first("10.96.0.0/28"), "10.96.0.1", "so small a range has no band");
        assert_eq!(first("fd00:10:96::/112"), "fd00:10:96::101");

        let mut range = Addresses::parse("10.0.0.0/27").unwrap().with_static_band();
        assert_eq!(range.take("10.0.0.10".parse().unwrap()), Ok(()), "a client asks for it");
        let taken: Vec<String> = std::iter::from_fn(|| range.take_next()).map(|a| a.to_string()).collect();
        let upper = 17..=30;
        let expected = upper.chain((1..=16).filter(|last| *last != 10)).map(|last| format!("10.0.0.{last}"));
        assert_eq!(taken, expected.collect::<Vec<_>>());
        for freed in ["10.0.0.3", "10.0.0.20"] {
            range.release(freed.parse().unwrap());
        }
        assert_eq!(range.take_next().unwrap().to_string(), "10.0.0.20");
        assert_eq!(range.take_next().unwrap().to_string(), "10.0.0.3");
    }

    #[test]
    fn requested_addresses_are_checked() {
        let mut range = Addresses::parse("fd00:10:96::/112").unwrap();
        assert_eq!(range.take("fd00:10:96::5".parse().unwrap()), Ok(()));
        assert!(range.take("fd00:10:96::5".parse().unwrap()).unwrap_err().contains("already allocated"));
        for outside in ["fd00:10:97::5", "fd00:10:96::", "10.96.0.1"] {
            let why = range.take(outside.parse().unwrap()).unwrap_err();
            let named = format!(
                "the provided IP ({outside}) is not in the valid range. The range of valid IPs is fd00:10:96::/112"
            );
            assert_eq!(why, named);
        }
    }

    #[test]
    fn a_range_that_cannot_be_used_is_refused_with_what_to_do() {
        let refused = [
            "",
            "10.0.0.0",
            "10.0.0.0/33",
            "x/8",
            "10.0.0.1/24",
            "10.0.0.0/30",
            "0.0.0.0/0",
            "fd00::/64",
            "fd00::1/112",
        ]
        .map(|bad| Addresses::parse(bad).unwrap_err().to_string());
        insta::assert_snapshot!(refused.join("\n"), @r#"
        "" is not a range of IP addresses such as 10.96.0.0/16 or fd00:10:96::/112
        "10.0.0.0" is not a range of IP addresses such as 10.96.0.0/16 or fd00:10:96::/112
        "10.0.0.0/33" is not a range of IP addresses such as 10.96.0.0/16 or fd00:10:96::/112
        "x/8" is not a range of IP addresses such as 10.96.0.0/16 or fd00:10:96::/112
        10.0.0.1/24 is an address within a range; the range is 10.0.0.0/24
        10.0.0.0/30 has fewer than 8 addresses; choose a range with a prefix of at most /29
        0.0.0.0/0 has too many addresses; choose a range with a prefix of at least /12
        fd00::/64 has too many addresses; choose a range with a prefix of at least /108
        fd00::1/112 is an address within a range; the range is fd00::/112
        "#);
        for good in ["10.0.0.0/12", "10.0.0.8/29", "fd00::/108", "fd00::8/125"] {
            assert!(Addresses::parse(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn ranges_overlap_if_one_is_in_the_other() {
        let overlap = |one: &str, other: &str| {
            let (one, other) = (Addresses::parse(one).unwrap(), Addresses::parse(other).unwrap());
            assert_eq!(one.overlaps(&other), other.overlaps(&one));
            one.overlaps(&other)
        };
        assert!(overlap("10.240.0.0/12", "10.244.0.0/14") && overlap("10.0.0.0/16", "10.0.0.0/16"));
        assert!(!overlap("10.0.0.0/16", "10.1.0.0/16") && !overlap("10.0.0.0/16", "fd00::/112"));
    }
}
