//! Verdicts on slices that were made from pods, for a Service that has no selector any more.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use kube_endpoint_core_model::maker::Maker;
use kube_endpoint_core_model::slice::EndpointConditions;
use kube_endpoint_core_model::well_known::ANNOTATION_OVER_CAPACITY;
use kube_endpoint_core_model::{AddressType, Endpoint, EndpointPort, EndpointSlice, Endpoints};
use kube_endpoint_mirroring::OrphanVerdict::{self, AskWhoWrote, Kept, Redirected, Replaced};
use kube_endpoint_mirroring::{KeptOrphans, KeptReason, OrphanInputs, judge_orphans, kept_events};

/// Returns a slice of ready endpoints; an address that ends in `!` is not ready.
fn slice(name: &str, port: i32, addresses: &[&str]) -> Arc<EndpointSlice> {
    let endpoint = |address: &&str| Endpoint {
        addresses: vec![address.trim_end_matches('!').into()],
        conditions: EndpointConditions { ready: Some(!address.ends_with('!')), ..Default::default() },
        ..Endpoint::default()
    };
    let is_ipv6 = addresses.iter().any(|address| address.contains(':'));
    let mut slice = EndpointSlice {
        address_type: if is_ipv6 { AddressType::IPv6 } else { AddressType::IPv4 },
        endpoints: addresses.iter().map(endpoint).collect(),
        ports: vec![EndpointPort { port: Some(port), ..EndpointPort::default() }],
        ..EndpointSlice::default()
    };
    slice.metadata.name = name.into();
    Arc::new(slice)
}

fn controller() -> Maker {
    Maker::Controller("kube-controller-manager".into())
}

/// The verdict on one slice at port 80 beside mirrored slices.
struct Case {
    orphan: Arc<EndpointSlice>,
    mirrored: Vec<Arc<EndpointSlice>>,
    skipped: usize,
    truncated: bool,
    writer: Option<Maker>,
}

fn case(orphan: &[&str], mirrored: &[&str]) -> Case {
    Case {
        orphan: slice("pods", 80, orphan),
        mirrored: vec![slice("mirrored", 80, mirrored)],
        skipped: 0,
        truncated: false,
        writer: Some(controller()),
    }
}

fn check(what: &str, case: Case, want: OrphanVerdict) {
    let mut endpoints = Endpoints::default();
    if case.truncated {
        endpoints.metadata.annotations = [(ANNOTATION_OVER_CAPACITY, "truncated")].into_iter().collect();
    }
    let orphans = [case.orphan];
    let inputs = OrphanInputs {
        orphans: &orphans,
        endpoints: &endpoints,
        mirrored: &case.mirrored,
        skipped: case.skipped,
        writer: case.writer.as_ref(),
    };
    assert_eq!(judge_orphans(&inputs), [want], "{what}");
}

#[test]
fn a_slice_is_deleted_only_if_the_mirrored_ones_replace_it() {
    let name = || "kube-controller-manager".into();
    let user = || Some(Maker::SomebodyElse("kubectl".into()));
    check("all ready endpoints are held", case(&["a", "b"], &["b", "c", "a"]), Replaced);
    check("unready ones need not be", case(&["a", "b!"], &["a"]), Replaced);
    check("a slice without endpoints", case(&[], &["a"]), Replaced);
    let several = vec![slice("one", 80, &["a"]), slice("two", 80, &["b"])];
    check("over several slices", Case { mirrored: several, ..case(&["a", "b"], &[]) }, Replaced);
    let out_of_date = || Kept(KeptReason::OutOfDate(name()));
    check("one is missing", case(&["a", "b"], &["a"]), out_of_date());
    check("one is mirrored as not ready", case(&["a"], &["a!"]), out_of_date());
    let other_port = vec![slice("mirrored", 81, &["a"])];
    check("at another port", Case { mirrored: other_port, ..case(&["a"], &[]) }, out_of_date());
    check(
        "truncated",
        Case { truncated: true, ..case(&["a", "b"], &["a"]) },
        Kept(KeptReason::Truncated(name())),
    );
    check("truncated, but this one is held", Case { truncated: true, ..case(&["a"], &["a"]) }, Replaced);
    check("not asked yet", Case { writer: None, ..case(&["a"], &["b"]) }, AskWhoWrote);
    check("not asked, not needed", Case { writer: None, ..case(&["a"], &["a"]) }, Replaced);
    check(
        "a user points elsewhere",
        Case { writer: user(), ..case(&["a"], &["b"]) },
        Redirected("kubectl".into()),
    );
    let unknown = Some(Maker::Unknown);
    check("nobody knows", Case { writer: unknown, ..case(&["a"], &["b"]) }, Kept(KeptReason::WriterUnknown));
    let skipped = || Kept(KeptReason::AddressesSkipped);
    check("addresses skipped", Case { skipped: 1, writer: user(), ..case(&["a"], &["b"]) }, skipped());
    check("addresses skipped, all held", Case { skipped: 1, ..case(&["a"], &["a"]) }, skipped());
    let family = |address_type| Kept(KeptReason::AddressTypeNotMirrored(address_type));
    check("the other family", Case { writer: user(), ..case(&["::1"], &["b"]) }, family(AddressType::IPv6));
    check("nothing", Case { mirrored: vec![], writer: user(), ..case(&[], &[]) }, family(AddressType::IPv4));
}

#[test]
fn a_slice_that_somebody_else_has_a_part_in_is_kept() {
    let kept = |reason| Kept(reason);
    let user = Maker::SomebodyElse("kubectl".into());
    for deleted in [Replaced, Redirected("kubectl".into())] {
        assert_eq!(deleted.clone().confirmed(&controller()), deleted);
        assert_eq!(deleted.clone().confirmed(&user), kept(KeptReason::OfSomebodyElse("kubectl".into())));
        let uncertain = Maker::Uncertain("curl".into());
        assert_eq!(deleted.clone().confirmed(&uncertain), kept(KeptReason::MakerUncertain("curl".into())));
        assert_eq!(deleted.confirmed(&Maker::Unknown), kept(KeptReason::MakerUnknown));
    }
    let skipped = || kept(KeptReason::AddressesSkipped);
    for maker in [controller(), user, Maker::Uncertain("curl".into()), Maker::Unknown] {
        assert_eq!(skipped().confirmed(&maker), skipped());
    }
}

#[test]
fn a_reason_is_reported_when_it_is_new_for_some_slice() {
    let kept = |slices: &[(&str, KeptReason)]| -> KeptOrphans {
        slices.iter().map(|(name, reason)| ((*name).into(), reason.clone())).collect()
    };
    let check = |before: &KeptOrphans, now: &KeptOrphans, want: &[&str]| {
        let messages: Vec<String> = kept_events(before, now).into_iter().map(|event| event.message).collect();
        let prefix = "EndpointSlices that were made from pods are kept: ";
        let want: Vec<String> = want.iter().map(|message| format!("{prefix}{message}")).collect();
        assert_eq!(messages, want);
    };
    let stale = KeptReason::OutOfDate("kcm".into());
    let skipped = KeptReason::AddressesSkipped;
    let none = KeptOrphans::default();
    let one = kept(&[("a", stale.clone())]);
    let both = kept(&[("a", stale), ("b", skipped.clone())]);
    let about_skipped = "some addresses of the Endpoints cannot be mirrored (b)";
    let about_stale = "the Endpoints, last written by kcm, lack ready endpoints of them (a)";
    check(&none, &one, &[about_stale]);
    check(&one, &one, &[]);
    check(&one, &both, &[about_skipped]);
    check(&both, &one, &[]);
    check(&kept(&[("a", skipped.clone())]), &one, &[about_stale]);
    check(&one, &none, &[]);
    let names: Vec<String> = (10..23).map(|number| format!("s{number}")).collect();
    let many = names.iter().map(|name| (name.as_str().into(), skipped.clone())).collect();
    check(
        &none,
        &many,
        &["some addresses of the Endpoints cannot be mirrored \
        (s10, s11, s12, s13, s14, s15, s16, s17, s18, s19 and 3 more)"],
    );
}

#[test]
fn every_reason_reads_as_the_end_of_a_message() {
    let reasons = [
        KeptReason::AddressTypeNotMirrored(AddressType::IPv6),
        KeptReason::AddressesSkipped,
        KeptReason::Truncated("kube-controller-manager".into()),
        KeptReason::OutOfDate("kube-controller-manager".into()),
        KeptReason::WriterUnknown,
    ];
    insta::assert_snapshot!(reasons.map(|reason| reason.to_string()).join("\n"));
}
