use std::io::Write;

use clap::CommandFactory;

use super::*;
use crate::settings::Settings;

/// Reads options from a file with these lines after `apiVersion` and `kind`, from variables
/// (`NAME=value`) and from words.
fn read(file: Option<&str>, variables: &[&str], words: &[&str]) -> Result<CommandLine, String> {
    let mut config = tempfile::NamedTempFile::new().unwrap();
    let head = "apiVersion: kube-endpoint-manager.config/v1alpha1\nkind: KubeEndpointManagerConfiguration\n";
    config.write_all(format!("{head}{}", file.unwrap_or_default()).as_bytes()).unwrap();
    let path = config.path().to_str().unwrap().to_owned();
    let config = file.map(|_| format!("--config={path}"));
    let words = ["x".to_owned()].into_iter().chain(config).chain(words.iter().map(ToString::to_string));
    let variables = variables.iter().map(|variable| {
        let (name, value) = variable.split_once('=').unwrap();
        (name.into(), value.into())
    });
    CommandLine::read(words.map(OsString::from), variables).map_err(|error| {
        let text = error.to_string();
        text.lines().next().unwrap().replace(&path, "config.yaml")
    })
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let check = |file: &str, variables: &[&str], words: &[&str], want: &str| {
        let got = read(Some(file), variables, words).unwrap_or_else(|error| panic!("{error}")).options;
        let got = format!(
            "{:?} {} {} {:?} {}",
            got.leader_election.leader_elect,
            got.controllers.max_endpoints_per_slice,
            got.controllers.controllers.join("+"),
            got.controllers.min_resync_period,
            got.api_server.kube_api_qps,
        );
        assert_eq!(got, want, "{file:?} {variables:?} {words:?}");
    };
    check("", &[], &[], "None 100 * 43200s 20");
    check("leaderElect: false", &[], &[], "Some(false) 100 * 43200s 20");
    check("leaderElect: false", &["KEM_LEADER_ELECT=true"], &[], "Some(true) 100 * 43200s 20");
    check(
        "leaderElect: false",
        &["KEM_LEADER_ELECT=true"],
        &["--leader-elect=false"],
        "Some(false) 100 * 43200s 20",
    );
    check("leaderElect: false", &[], &["--leader-elect"], "Some(true) 100 * 43200s 20");
    check("maxEndpointsPerSlice: 5", &["KEM_MAX_ENDPOINTS_PER_SLICE=6"], &[], "None 6 * 43200s 20");
    check("maxEndpointsPerSlice: 5", &["KEM_MAX_ENDPOINTS_PER_SLICE="], &[], "None 5 * 43200s 20");
    // The list of one source replaces that of another.
    check(
        "controllers: [endpoint]",
        &[],
        &["--controllers=endpointslice,-endpoint"],
        "None 100 endpointslice+-endpoint 43200s 20",
    );
    check("controllers: [endpoint, endpointslice]", &[], &[], "None 100 endpoint+endpointslice 43200s 20");
    check(
        "controllers: [endpoint]",
        &["KEM_CONTROLLERS=-*,endpointslice"],
        &[],
        "None 100 -*+endpointslice 43200s 20",
    );
    check("controllers: []", &[], &[], "None 100  43200s 20");
    // A flag on the command line wins even if it has its default value.
    check("minResyncPeriod: 1h", &[], &["--min-resync-period=12h"], "None 100 * 43200s 20");
    check("minResyncPeriod: 1h\nkubeApiQps: 50", &["KEM_KUBE_API_QPS=-1"], &[], "None 100 * 3600s -1");
    check("kubeApiQps: 0.5", &[], &["--min_resync_period", "1m"], "None 100 * 60s 0.5");
}

#[test]
fn the_file_may_map_gates_and_turn_on_what_takes_no_value() {
    let got = read(Some("featureGates: {SliceCompaction: true, AllBeta: false}\nv: 4"), &[], &[]).unwrap();
    assert_eq!(got.options.controllers.feature_gates, ["SliceCompaction=true", "AllBeta=false"]);
    assert_eq!(got.options.logging.verbosity, 4);
    #[cfg(feature = "embedded")]
    {
        let got =
            read(Some("embedded: true\nembeddedLoad: [a.yaml, b.yaml]"), &["KEM_EMBEDDED_NO_AUTH=1"], &[])
                .unwrap();
        assert!(got.options.is_embedded() && got.options.embedded.embedded_no_auth);
        assert_eq!(got.options.embedded.embedded_load.len(), 2);
        assert!(!read(Some("embedded: false"), &[], &[]).unwrap().options.is_embedded());
        // A flag on the command line may require one that is set elsewhere.
        assert!(read(None, &["KEM_EMBEDDED=true"], &["--embedded-empty"]).unwrap().options.is_embedded());
    }
}

/// The list of fields in the errors contains those of the embedded API server.
#[cfg(feature = "embedded")]
#[test]
fn errors_name_the_place_and_what_is_valid() {
    let error = |file: Option<&str>, variables: &[&str], words: &[&str]| {
        let line = match read(file, variables, words) {
            Err(error) => error,
            Ok(command_line) => {
                let Err(error) = Settings::try_from(&command_line.options) else {
                    panic!("valid: {file:?} {variables:?} {words:?}");
                };
                let path = command_line.options.config.as_ref().map(|path| path.display().to_string());
                command_line.locate(&error).replace(&path.unwrap_or("-".into()), "config.yaml")
            }
        };
        format!("{file:?} {variables:?} {words:?}\n  {line}")
    };
    let errors = [
        error(Some("leaderElekt: false"), &[], &[]),
        error(Some("leaderElect: false\nleaderElect: true"), &[], &[]),
        error(Some("leaderElect: maybe"), &[], &[]),
        error(Some("maxEndpointsPerSlice: many"), &[], &[]),
        error(Some("maxEndpointsPerSlice: -1"), &[], &[]),
        error(Some("maxEndpointsPerSlice: 0"), &[], &[]),
        error(Some("minResyncPeriod: 5"), &[], &[]),
        error(Some("minResyncPeriod: \"5\""), &[], &[]),
        error(Some("kubeApiQps: fast"), &[], &[]),
        error(Some("controllers: endpoint"), &[], &[]),
        error(Some("controllers:\n- endpoint\n- 5"), &[], &[]),
        error(Some("controllers: [deploymnt]"), &[], &[]),
        error(Some("featureGates: {SliceCompaction: maybe}"), &[], &[]),
        error(Some("featureGates: {Nope: true}"), &[], &[]),
        error(Some("compatibility: 1.36"), &[], &[]),
        error(Some("seed:"), &[], &[]),
        error(Some("config: other.yaml"), &[], &[]),
        error(Some("help: true"), &[], &[]),
        error(Some("kind: Pod"), &[], &[]),
        error(Some("a: ["), &[], &[]),
        error(Some("a: b: c"), &[], &[]),
        error(Some(": true"), &[], &[]),
        error(Some("controllers: [[[[[[[[[a]]]]]]]]]"), &[], &[]),
        error(None, &["KEM_MAX_ENDPOINTS_PER_SLICE=many"], &[]),
        error(None, &["KEM_MAX_ENDPOINTS_PER_SLICE=0"], &[]),
        error(None, &["KEM_LEADER_ELECT=maybe"], &[]),
        error(None, &["KEM_CONFIG=no-such-file"], &[]),
        error(None, &[], &["--config=no-such-file"]),
        error(None, &[], &["--leader-elect", "false"]),
        error(None, &[], &["--leader-elekt"]),
        error(None, &[], &["--cluster-cidr"]),
        error(Some("embedded: true"), &["KEM_KUBECONFIG=file"], &[]),
        error(None, &["KEM_EMBEDDED=maybe"], &[]),
    ];
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn a_file_needs_its_version_and_kind() {
    let error = |content: &str| {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        let path = file.path().to_str().unwrap();
        let words = ["x", "--config", path].map(OsString::from);
        let error = CommandLine::read(words, []).err().map(|error| error.to_string());
        error.unwrap_or_default().replace(path, "config.yaml")
    };
    let errors =
        ["", "leaderElect: true", "apiVersion: v1", "kind: KubeEndpointManagerConfiguration", "- a", "5"]
            .map(error);
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn flags_of_kube_controller_manager_are_accepted_and_named() {
    let got = read(
        None,
        &["KEM_PORT=tcp://10.0.0.1:80"],
        &[
            "--allocate-node-cidrs=true",
            "--cluster-cidr",
            "10.0.0.0/8",
            "--root-ca-file=/ca",
            "--profiling",
            "--vmodule=-1",
        ],
    );
    let got = got.unwrap();
    let ignored: Vec<&str> = got.ignored.iter().map(|(name, _)| *name).collect();
    assert_eq!(ignored, ["allocate-node-cidrs", "cluster-cidr", "profiling", "root-ca-file", "vmodule"]);
    assert_eq!(got.unknown_variables, ["KEM_PORT"]);
}

#[test]
fn a_flag_that_is_accepted_for_compatibility_is_named_wherever_it_is_set() {
    let check = |variables: &[&str], words: &[&str], expected: bool| {
        let got = read(None, variables, words).unwrap();
        let names: Vec<&str> = got.ignored.iter().map(|(name, _)| *name).collect();
        let named = names == ["authentication-tolerate-lookup-failure"];
        assert_eq!(named, expected, "{variables:?} {words:?}: {names:?}");
    };
    check(&[], &["--authentication-tolerate-lookup-failure"], true);
    check(&["KEM_AUTHENTICATION_TOLERATE_LOOKUP_FAILURE=true"], &[], true);
    check(&[], &["--authentication-tolerate-lookup-failure=false"], false);
    check(&[], &[], false);
}

/// The flags of the static pod that kubeadm makes for kube-controller-manager.
#[test]
fn the_command_line_that_kubeadm_writes_is_accepted() {
    let words = [
        "--allocate-node-cidrs=true",
        "--authentication-kubeconfig=/etc/kubernetes/controller-manager.conf",
        "--authorization-kubeconfig=/etc/kubernetes/controller-manager.conf",
        "--bind-address=127.0.0.1",
        "--client-ca-file=/etc/kubernetes/pki/ca.crt",
        "--cluster-cidr=10.244.0.0/16",
        "--cluster-name=kubernetes",
        "--cluster-signing-cert-file=/etc/kubernetes/pki/ca.crt",
        "--cluster-signing-key-file=/etc/kubernetes/pki/ca.key",
        "--controllers=endpoint,endpointslice",
        "--kubeconfig=/etc/kubernetes/controller-manager.conf",
        "--leader-elect=true",
        "--requestheader-client-ca-file=/etc/kubernetes/pki/front-proxy-ca.crt",
        "--root-ca-file=/etc/kubernetes/pki/ca.crt",
        "--service-account-private-key-file=/etc/kubernetes/pki/sa.key",
        "--service-cluster-ip-range=10.96.0.0/12",
        "--use-service-account-credentials=true",
    ];
    let got = read(None, &[], &words).unwrap();
    assert_eq!(got.ignored.len(), 9);
    let settings = Settings::try_from(&got.options).unwrap();
    let serving = settings.serving.unwrap();
    assert_eq!(serving.bind_address, std::net::Ipv4Addr::LOCALHOST);
    let front_proxy = serving.front_proxy.unwrap();
    assert_eq!(front_proxy.client_ca_file.to_str(), Some("/etc/kubernetes/pki/front-proxy-ca.crt"));
    assert_eq!(front_proxy.headers.username, ["x-remote-user"]);
}

#[test]
fn flags_whose_default_depends_on_others_are_shown_with_the_value_in_use() {
    let check = |words: &[&str], leader_elect: &str, secure_port: &str| {
        let flags = read(None, &[], words).unwrap().flags;
        assert_eq!(
            [&*flags["leader-elect"], &*flags["secure-port"]],
            [leader_elect, secure_port],
            "{words:?}"
        );
    };
    check(&[], "true", "10270");
    check(&["--dry-run"], "false", "10270");
    check(&["--dry-run", "--leader-elect"], "false", "10270");
    check(&["--leader-elect=false", "--secure-port=0"], "false", "0");
    #[cfg(feature = "embedded")]
    check(&["--embedded"], "false", "0");
}

#[test]
fn flags_that_settings_complete_are_shown_with_the_value_in_use() {
    let check = |words: &[&str], version: &str, lease: &str| {
        let command_line = read(None, &[], words).unwrap();
        let settings = Settings::try_from(&command_line.options).unwrap();
        let flags = command_line.flags_in_use(&settings);
        assert_eq!(
            [&*flags["tls-min-version"], &*flags["leader-elect-resource-name"]],
            [version, lease],
            "{words:?}"
        );
    };
    check(&[], "VersionTLS12", "kube-endpoint-manager");
    check(
        &["--tls-min-version=VersionTLS10", "--namespaces=a"],
        "VersionTLS12",
        "kube-endpoint-manager.namespaces.a",
    );
    let words = ["--tls-min-version=VersionTLS13", "--namespaces=a"];
    check(&words, "VersionTLS13", "kube-endpoint-manager.namespaces.a");
    let identified = read(None, &[], &["--leader-elect-identity=me"]).unwrap();
    let settings = Settings::try_from(&identified.options).unwrap();
    assert_eq!(identified.flags_in_use(&settings)["leader-elect-identity"], "me");
}

#[test]
fn each_flag_has_a_field_and_a_variable_of_its_own() {
    let command = Options::command();
    let mut names: Vec<String> = fields::settable(&command).map(fields::field_name).collect();
    let mut variables: Vec<String> = fields::settable(&command).map(environment::variable).collect();
    assert!(names.contains(&"leaderElectLeaseDuration".to_owned()) && names.contains(&"v".to_owned()));
    assert!(variables.contains(&"KEM_KUBE_API_QPS".to_owned()));
    for list in [&mut names, &mut variables] {
        let before = list.len();
        list.sort();
        list.dedup();
        assert_eq!(list.len(), before);
    }
}

/// kube-controller-manager takes an empty path for one that the user did not give.
#[test]
fn an_empty_path_counts_as_not_given() {
    let flags = [
        "--kubeconfig=",
        "--tls-cert-file=",
        "--tls-private-key-file=",
        "--cert-dir=",
        "--client-ca-file=",
        "--authentication-kubeconfig=",
        "--authorization-kubeconfig=",
        "--requestheader-client-ca-file=",
    ];
    let options = read(None, &[], &flags).unwrap().options;
    let (serving, auth) = (options.serving, options.auth);
    let paths = [
        options.api_server.kubeconfig,
        serving.tls_cert_file,
        serving.tls_private_key_file,
        serving.cert_dir,
        auth.client_ca_file,
        auth.authentication_kubeconfig,
        auth.authorization_kubeconfig,
        auth.requestheader_client_ca_file,
    ];
    assert_eq!(paths, [const { None }; 8]);
}
