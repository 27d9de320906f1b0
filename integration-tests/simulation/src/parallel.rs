//! Uses all cores.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Calls a function for each number of a range, on all cores and in their order, until `is_enough`
/// returns true. Returns the first number for which it was not called.
pub fn on_all_cores(
    numbers: Range<u64>,
    is_enough: impl Fn() -> bool + Sync,
    call: impl Fn(u64) + Sync,
) -> u64 {
    let next = AtomicU64::new(numbers.start);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while !is_enough() {
                    let taken = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
                        (next < numbers.end).then_some(next + 1)
                    });
                    let Ok(number) = taken else { break };
                    call(number);
                }
            });
        }
    });
    next.into_inner()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn each_number_below_the_returned_one_is_called_once() {
        let check = |enough: usize| {
            let called = Mutex::new(Vec::new());
            let next =
                on_all_cores(5..100, || called.lock().len() >= enough, |number| called.lock().push(number));
            let called = called.into_inner();
            assert_eq!(called.len() as u64, next - 5);
            assert_eq!(called.into_iter().collect::<BTreeSet<_>>(), (5..next).collect());
            next
        };
        assert_eq!(check(usize::MAX), 100);
        assert_eq!(check(0), 5);
        assert!((15..100).contains(&check(10)));
    }
}
