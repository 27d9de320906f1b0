//! A bounded cache of answers, which expire. It asks once for concurrent callers that need the same
//! answer. Refusals, however many, displace no favourable answer.

use std::collections::HashMap;
use std::hash::Hash;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use lru::LruCache;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// An answer, and how long the cache may use it. `None` keeps it out of the cache.
pub(crate) type Answer<V> = (V, Option<Duration>);

type Asking<V, E> = Shared<BoxFuture<'static, Result<V, E>>>;

/// Answers, and when they expire.
type Answers<K, V> = LruCache<K, (V, Instant)>;

struct State<K: Hash + Eq, V, E> {
    /// A key is in one of these two.
    favourable: Answers<K, V>,
    others: Answers<K, V>,
    asking: HashMap<K, Asking<V, E>>,
}

impl<K: Hash + Eq, V: Clone, E> State<K, V, E> {
    fn answer(&mut self, key: &K) -> Option<&(V, Instant)> {
        self.favourable.get(key).or_else(|| self.others.get(key))
    }

    fn forget(&mut self, key: &K) {
        self.favourable.pop(key);
        self.others.pop(key);
    }
}

/// The latest answers. The cache keeps no errors.
pub(crate) struct Cache<K: Hash + Eq, V, E> {
    state: Mutex<State<K, V, E>>,
    is_favourable: fn(&V) -> bool,
}

impl<K, V, E> Cache<K, V, E>
where
    K: Hash + Eq + Clone + Send + 'static,
    V: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    /// Returns a cache of at most `size` favourable answers and `size` others. It then drops the
    /// least recently used one of the same sort, because clients without credentials can cause any
    /// number of unfavourable answers.
    pub(crate) fn new(size: NonZeroUsize, is_favourable: fn(&V) -> bool) -> Arc<Self> {
        // An unbounded list grows with its content: an `LruCache` with a capacity allocates all of
        // it at once.
        let answers = || {
            let mut answers = LruCache::unbounded();
            answers.resize(size);
            answers
        };
        let state = State { favourable: answers(), others: answers(), asking: HashMap::new() };
        Arc::new(Self { state: Mutex::new(state), is_favourable })
    }

    /// Returns the answer for `key`: from the cache, from a question that is under way, or from the
    /// question that `ask` returns. `ask` gets the last answer if that has expired, and may refuse.
    /// The question runs in a task of its own, so that a caller that goes away does not take it
    /// from the others; a refusal starts no task. `interrupted` is the error if the task does not
    /// end.
    pub(crate) async fn get<F>(
        self: &Arc<Self>,
        key: K,
        ask: impl FnOnce(Option<V>) -> Result<F, E>,
        interrupted: E,
    ) -> Result<V, E>
    where
        F: Future<Output = Result<Answer<V>, E>> + Send + 'static,
    {
        let (asking, start) = {
            let mut state = self.state.lock();
            let now = Instant::now();
            let expired = match state.answer(&key) {
                Some((answer, end)) if now < *end => return Ok(answer.clone()),
                Some((answer, _)) => Some(answer.clone()),
                None => None,
            };
            match state.asking.get(&key) {
                Some(asking) => (asking.clone(), None),
                None => {
                    let question = ask(expired)?;
                    let (done, answer) = oneshot::channel();
                    let asking = async move { answer.await.unwrap_or(Err(interrupted)) }.boxed().shared();
                    state.asking.insert(key.clone(), asking.clone());
                    (asking, Some((question, done)))
                }
            }
        };
        // A runtime that is shutting down drops the task at once, which takes the lock.
        if let Some((question, done)) = start {
            self.start(key, question, done);
        }
        asking.await
    }

    /// Returns the number of questions that are under way.
    #[cfg(test)]
    pub(crate) fn open(&self) -> usize {
        self.state.lock().asking.len()
    }

    fn start<F>(self: &Arc<Self>, key: K, question: F, done: oneshot::Sender<Result<V, E>>)
    where
        F: Future<Output = Result<Answer<V>, E>> + Send + 'static,
    {
        // This removes the question however the task ends.
        let entry = Entry { cache: Arc::clone(self), key };
        tokio::spawn(async move {
            let answer = question.await;
            match &answer {
                Ok((value, Some(kept))) => {
                    let end = Instant::now() + *kept;
                    let mut state = entry.cache.state.lock();
                    state.forget(&entry.key);
                    let answers = match (entry.cache.is_favourable)(value) {
                        true => &mut state.favourable,
                        false => &mut state.others,
                    };
                    answers.put(entry.key.clone(), (value.clone(), end));
                }
                Ok((_, None)) => entry.cache.state.lock().forget(&entry.key),
                Err(_) => {}
            }
            drop(entry);
            drop(done.send(answer.map(|(value, _)| value)));
        });
    }
}

struct Entry<K: Hash + Eq, V, E> {
    cache: Arc<Cache<K, V, E>>,
    key: K,
}

impl<K: Hash + Eq, V, E> Drop for Entry<K, V, E> {
    fn drop(&mut self) {
        self.cache.state.lock().asking.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    struct Asked(AtomicUsize);

    impl Asked {
        /// Answers `key * 10` after a second. Negative numbers are errors, and the cache does not
        /// keep zero.
        fn ask(
            self: &Arc<Self>,
            key: i32,
        ) -> impl Future<Output = Result<Answer<i32>, &'static str>> + use<> {
            self.0.fetch_add(1, Ordering::Relaxed);
            async move {
                tokio::time::sleep(SECOND).await;
                match key {
                    ..0 => Err("negative"),
                    0 => Ok((0, None)),
                    1.. => Ok((key * 10, Some(10 * SECOND))),
                }
            }
        }

        /// Returns a question that is not refused.
        #[expect(clippy::unnecessary_wraps, reason = "the type that `Cache::get` takes")]
        fn start(
            self: &Arc<Self>,
            key: i32,
        ) -> Result<impl Future<Output = Result<Answer<i32>, &'static str>> + use<>, &'static str> {
            Ok(self.ask(key))
        }

        fn count(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    fn cache(size: usize) -> (Arc<Cache<i32, i32, &'static str>>, Arc<Asked>) {
        (Cache::new(size.try_into().unwrap(), |answer| *answer >= 1000), Arc::new(Asked(AtomicUsize::new(0))))
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_used_until_it_expires() {
        let (cache, asked) = cache(4);
        for (wait, expected) in [(0, 1), (0, 1), (9, 1), (1, 2), (0, 2)] {
            tokio::time::sleep(SECOND * wait).await;
            assert_eq!(cache.get(7, |_| asked.start(7), "interrupted").await, Ok(70));
            assert_eq!(asked.count(), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_expired_answer_is_known_until_there_is_another() {
        let (cache, _) = cache(4);
        let kept = Some(SECOND);
        for (answer, known) in [
            (Ok((1, kept)), None),
            (Err("no answer"), Some(1)),
            (Ok((2, kept)), Some(1)),
            (Ok((3, None)), Some(2)),
            (Ok((4, kept)), None),
        ] {
            let ask = |expired: Option<i32>| {
                assert_eq!(expired, known);
                Ok(async move { answer })
            };
            assert_eq!(cache.get(7, ask, "interrupted").await, answer.map(|(value, _)| value));
            tokio::time::sleep(SECOND).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn errors_and_answers_without_a_time_are_not_kept() {
        let (cache, asked) = cache(4);
        for round in 1..=2 {
            assert_eq!(cache.get(-1, |_| asked.start(-1), "interrupted").await, Err("negative"));
            assert_eq!(cache.get(0, |_| asked.start(0), "interrupted").await, Ok(0));
            assert_eq!(asked.count(), 2 * round);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_question_is_asked_once_at_a_time() {
        let (cache, asked) = cache(4);
        let all = (0..100).map(|_| cache.get(-7, |_| asked.start(-7), "interrupted"));
        assert!(futures::future::join_all(all).await.iter().all(|answer| *answer == Err("negative")));
        assert_eq!(asked.count(), 1);
        assert!(cache.state.lock().asking.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_goes_away_takes_the_answer_from_no_other() {
        let (cache, asked) = cache(4);
        let first = tokio::time::timeout(SECOND / 2, cache.get(7, |_| asked.start(7), "interrupted"));
        let second = cache.get(7, |_| asked.start(7), "interrupted");
        let (first, second) = tokio::join!(first, second);
        assert!(first.is_err());
        assert_eq!((second, asked.count()), (Ok(70), 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_panics_is_an_error_and_is_asked_again() {
        let (cache, asked) = cache(4);
        let answer = cache.get(7, |_| Ok(async { panic!("on purpose") }), "interrupted").await;
        assert_eq!(answer, Err("interrupted"));
        assert_eq!(cache.get(7, |_| asked.start(7), "interrupted").await, Ok(70));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_question_leaves_nothing_behind() {
        let (cache, asked) = cache(4);
        let refuse = |_| Err::<std::future::Ready<Result<Answer<i32>, _>>, _>("busy");
        assert_eq!(cache.get(7, refuse, "interrupted").await, Err("busy"));
        assert!(cache.state.lock().asking.is_empty());
        assert_eq!(cache.get(7, |_| asked.start(7), "interrupted").await, Ok(70));
    }

    #[tokio::test(start_paused = true)]
    async fn the_size_is_bounded() {
        let (cache, asked) = cache(2);
        for key in [1, 2, 1, 3, 1, 2] {
            assert_eq!(cache.get(key, |_| asked.start(key), "interrupted").await, Ok(key * 10));
        }
        // The answer for 3 displaced that for 2, so the cache asked for 2 again.
        assert_eq!((asked.count(), cache.state.lock().others.len()), (4, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn other_answers_displace_no_favourable_one() {
        let (cache, asked) = cache(2);
        for key in [100, 1, 2, 3, 4, 100] {
            assert_eq!(cache.get(key, |_| asked.start(key), "interrupted").await, Ok(key * 10));
        }
        assert_eq!(asked.count(), 5);
        let state = cache.state.lock();
        assert_eq!((state.favourable.len(), state.others.len()), (1, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_takes_the_place_of_one_of_the_other_sort() {
        let (cache, _) = cache(2);
        for answer in [1000, 1, 1000] {
            let ask = |_| Ok(async move { Ok((answer, Some(SECOND))) });
            assert_eq!(cache.get(7, ask, "interrupted").await, Ok(answer));
            let (favourable, others) = {
                let state = cache.state.lock();
                (state.favourable.len(), state.others.len())
            };
            assert_eq!((favourable, others), if answer == 1000 { (1, 0) } else { (0, 1) });
            tokio::time::sleep(SECOND).await;
        }
    }
}
