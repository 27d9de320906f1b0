//! Ranges of addresses and ports, with their allocated values.

use std::collections::BTreeSet;
use std::net::IpAddr;

/// The text is not a CIDR.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a range of IP addresses such as 10.96.0.0/16")]
pub struct RangeError(pub String);

/// The numbers between two bounds. It allocates them in ascending order, starting after the last
/// allocated one.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    first: u128,
    last: u128,
    next: u128,
    taken: BTreeSet<u128>,
}

impl Pool {
    /// Creates a pool in which all numbers from `first` to `last` are free.
    pub(super) fn new(first: u128, last: u128) -> Self {
        Self { first, last, next: first, taken: BTreeSet::new() }
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
        let number = free(self.next, self.last).or_else(|| free(self.first, self.next.min(self.last)))?;
        self.taken.insert(number);
        self.next = if number == self.last { self.first } else { number + 1 };
        Some(number)
    }

    pub(super) fn release(&mut self, number: u128) {
        self.taken.remove(&number);
    }
}

/// The addresses of one family.
#[derive(Clone, Debug)]
pub(super) struct Addresses {
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
    pub(super) fn parse(cidr: &str) -> Result<Self, RangeError> {
        let wrong = || RangeError(cidr.to_owned());
        let (address, prefix) = cidr.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let prefix: u8 = prefix.parse().map_err(|_| wrong())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        // At least one address must remain, and the size must fit a u128.
        if prefix == 0 || prefix > bits || bits - prefix < 2 {
            return Err(wrong());
        }
        let size = 1u128 << (bits - prefix);
        let base = number(address) & !(size - 1);
        let last = base + size - 1 - u128::from(address.is_ipv4());
        let network = address_of(base, address.is_ipv4());
        Ok(Self { network, prefix, pool: Pool::new(base + 1, last) })
    }

    /// Returns true if the range is IPv4.
    pub(super) fn is_ipv4(&self) -> bool {
        self.network.is_ipv4()
    }

    /// Allocates an address that a client requested. The error has the words of the real allocator.
    pub(super) fn take(&mut self, address: IpAddr) -> Result<(), String> {
        let number = number(address);
        let bits = if self.is_ipv4() { 32 } else { 128 };
        let base = self::number(self.network);
        if address.is_ipv4() != self.is_ipv4() || (number ^ base) >> (bits - self.prefix) != 0 {
            return Err("the provided network does not match the current range".to_owned());
        }
        if !self.pool.contains(number) {
            return Err(format!(
                "the provided IP ({address}) is not in the valid range. The range of valid IPs is {}/{}",
                self.network, self.prefix
            ));
        }
        if self.pool.take(number) { Ok(()) } else { Err("provided IP is already allocated".to_owned()) }
    }

    pub(super) fn take_next(&mut self) -> Option<IpAddr> {
        let number = self.pool.take_next()?;
        Some(address_of(number, self.is_ipv4()))
    }

    pub(super) fn occupy(&mut self, address: IpAddr) {
        self.pool.take(number(address));
    }

    pub(super) fn release(&mut self, address: IpAddr) {
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
    fn requested_addresses_are_checked() {
        let mut range = Addresses::parse("fd00:10:96::/112").unwrap();
        assert_eq!(range.take("fd00:10:96::5".parse().unwrap()), Ok(()));
        assert!(range.take("fd00:10:96::5".parse().unwrap()).unwrap_err().contains("already allocated"));
        assert!(range.take("fd00:10:97::5".parse().unwrap()).unwrap_err().contains("does not match"));
        assert!(range.take("fd00:10:96::".parse().unwrap()).unwrap_err().contains("not in the valid range"));
        for bad in ["", "10.0.0.0", "10.0.0.0/33", "x/8", "10.0.0.0/31"] {
            assert!(Addresses::parse(bad).is_err(), "{bad}");
        }
    }
}
