//! Who leads by the Lease, and who answered meanwhile. Pure: events with times go in.

use serde_json::Value;

use crate::ask::Request;

/// The time after the event of a Lease in which the leader of before may answer, in seconds.
const TOLERANCE: f64 = 0.1;

/// The pods that a Lease has named, and when. No pod while it has no holder.
#[derive(Default)]
pub(crate) struct Holders(Vec<(f64, String)>);

impl Holders {
    /// Takes an event of the Lease's watch.
    pub(crate) fn event(&mut self, at: f64, event: &Value) {
        let identity = event["object"]["spec"]["holderIdentity"].as_str().unwrap_or_default();
        self.0.push((at, pod_of(identity).to_owned()));
    }

    /// The answers of pods at a time when the Lease has named another one for longer.
    pub(crate) fn answers_of_others(&self, requests: &[Request]) -> usize {
        let is_of_another = |request: &&Request| {
            let Ok((pod, _)) = &request.answer else { return false };
            let answered = request.at + request.took / 1e3;
            let mut another_since = None;
            for (at, named) in self.0.iter().take_while(|(at, _)| *at <= answered) {
                if named.is_empty() || named == pod {
                    another_since = None;
                } else {
                    another_since.get_or_insert(*at);
                }
            }
            another_since.is_some_and(|since| answered - since > TOLERANCE)
        };
        requests.iter().filter(is_of_another).count()
    }
}

/// The pod in a holder's identity, which is `POD_UUID`.
pub(crate) fn pod_of(identity: &str) -> &str {
    identity.split('_').next().unwrap_or_default()
}

/// The longest time in which no request was sent that somebody answered, in seconds.
pub(crate) fn gap(requests: &[Request]) -> f64 {
    let mut requests: Vec<&Request> = requests.iter().collect();
    requests.sort_by(|a, b| a.at.total_cmp(&b.at));
    let (mut since, mut longest) = (requests.first().map_or(0.0, |it| it.at), 0.0_f64);
    for request in requests {
        longest = longest.max(request.at - since);
        if request.answer.is_ok() {
            since = request.at;
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(at: f64, answer: Result<&str, &str>) -> Request {
        let answer = answer.map(|pod| (pod.to_owned(), "leads".to_owned())).map_err(str::to_owned);
        Request { at, took: 10.0, answer }
    }

    #[test]
    fn an_answer_counts_if_the_lease_has_named_another_pod_for_longer() {
        let mut holders = Holders::default();
        for (at, holder) in [(0.0, "a_1"), (1.0, ""), (2.0, "b_1"), (2.5, "c_1"), (4.0, "a_2")] {
            holders.event(at, &json!({"object": {"spec": {"holderIdentity": holder}}}));
        }
        let others = |at, pod| holders.answers_of_others(&[request(at, Ok(pod))]);
        let of_a: Vec<usize> = [0.5, 1.5, 2.05, 2.2, 3.0, 4.01].map(|at| others(at, "a")).into();
        assert_eq!(of_a, [0, 0, 0, 1, 1, 0]);
        let of_b: Vec<usize> = [0.05, 0.2, 1.5, 2.2, 2.55, 3.0].map(|at| others(at, "b")).into();
        assert_eq!(of_b, [0, 1, 0, 0, 0, 1]);
        assert_eq!(holders.answers_of_others(&[request(3.0, Err("refused"))]), 0);
    }

    #[test]
    fn a_gap_lasts_until_the_next_answer_or_the_end() {
        let (good, bad) = (Ok("a"), Err("refused"));
        assert_eq!(gap(&[request(4.0, bad), request(1.0, good), request(2.0, bad)]), 3.0);
        assert_eq!(
            gap(&[request(1.0, good), request(2.0, bad), request(3.5, good), request(4.0, good)]),
            2.5
        );
        assert_eq!(gap(&[]), 0.0);
    }
}
