//! Tests that the binary reports invalid input on one line that names the error and the valid
//! values, exits with code 2, and starts nothing.

use std::fs;

#[test]
fn invalid_input_is_reported_on_one_line_and_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("broken.kubeconfig"), "clusters: [").unwrap();
    fs::write(folder.path().join("contextless.kubeconfig"), "current-context: c").unwrap();
    fs::create_dir_all(folder.path().join("home/.kube")).unwrap();
    fs::write(folder.path().join("home/.kube/config"), "clusters: [").unwrap();
    fs::write(
        folder.path().join("elsewhere.kubeconfig"),
        r#"{"current-context": "c", "clusters": [{"name": "c", "cluster": {"server": "ftp://127.0.0.1"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}]}"#,
    )
    .unwrap();
    fs::write(folder.path().join("broken.json"), r#"{"kind": "Service""#).unwrap();
    fs::write(folder.path().join("nameless.yaml"), "kind: Service\n").unwrap();
    fs::write(
        folder.path().join("refused.yaml"),
        "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 0}]}\n",
    )
    .unwrap();
    let head = "apiVersion: kube-endpoint-manager.config/v1alpha1\nkind: KubeEndpointManagerConfiguration\n";
    fs::write(folder.path().join("misspelt.yaml"), format!("{head}leaderElekt: false\n")).unwrap();
    fs::write(folder.path().join("invalid.yaml"), format!("{head}maxEndpointsPerSlice: 0\n")).unwrap();
    let inputs: &[&[&str]] = &[
        &["--no-such-flag"],
        &["--embeded"],
        &["--max-endpoints-per-slice=many"],
        &["--kube-api-burst=-1"],
        &["--kube-api-qps=fast"],
        &["--secure-port=99999"],
        &["--max-endpoints-per-slice=0"],
        &["--endpointslice-updates-batch-period=5"],
        &["--controllers=deploymnt-controller"],
        &["--feature-gates=Nope=true"],
        &["--compatibility=1.20"],
        &["--leader-elect=maybe"],
        &["--leader-elect", "false"],
        &["--cluster-cidr"],
        &["--feature-gates=SliceCompactoin=true"],
        &["--config=no-such-file"],
        &["--config=misspelt.yaml"],
        &["--config=invalid.yaml"],
        &["--master=a b"],
        &["completion"],
        &["completion", "tcsh"],
        &["--leader-elect-lease-duration=5s"],
        &["--tls-cert-file=no-such-file"],
        &["--bind-address=localhost"],
        &["--logging-format=xml"],
        &["--kubeconfig=no-such-file"],
        &["--kubeconfig=broken.kubeconfig"],
        &["--kubeconfig=elsewhere.kubeconfig"],
        &["--kubeconfig=contextless.kubeconfig"],
        &["KUBECONFIG=no-such-file"],
        &["KUBECONFIG=no-such-file:contextless.kubeconfig"],
        &["HOME=home"],
        &["--embedded", "--embedded-load=no-such-file"],
        &["--embedded", "--embedded-load=broken.json"],
        &["--embedded", "--embedded-load=nameless.yaml"],
        &["--embedded", "--embedded-load=refused.yaml"],
        &["--embedded", "--embedded-address=0.0.0.0:0"],
        &["--embedded", "--embedded-kubeconfig=no/such/folder/file"],
        &["--embedded", "--embedded-kubeconfig=."],
        &["--embedded", "--embedded-kubeconfig=broken.kubeconfig"],
        &["--embedded", "--embedded-kubeconfig=elsewhere.kubeconfig"],
        &["--embedded", "--kubeconfig=broken.kubeconfig"],
        &["--embedded", "--secure-port=1", "--client-ca-file=no-such-file"],
        &["--embedded-empty"],
        &[],
    ];
    let mut reported = String::new();
    for arguments in inputs {
        let is_variable = |word: &&&str| !word.starts_with('-') && word.contains('=');
        let variables = arguments.iter().filter(is_variable).filter_map(|word| word.split_once('='));
        let mut command = crate::common::command(folder.path());
        command.args(arguments.iter().filter(|word| !is_variable(word))).envs(variables);
        let output = command.output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{arguments:?}: {error}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        assert!(!folder.path().join("embedded.kubeconfig").exists(), "{arguments:?}");
        reported += &format!("$ {}\n{error}", arguments.join(" "));
    }
    insta::assert_snapshot!(reported);
}
