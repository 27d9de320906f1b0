//! Tests completion as kubectl asks for it.

use kube_endpoint_embedded_apiserver::{Fault, FaultRule};

use crate::server::{Shop, stderr, stdout};

/// Completes the last word. The flags of the place are before it, as in a command line.
async fn complete(shop: &Shop, words: &[&str]) -> String {
    let kubeconfig = shop.kubeconfig.path().to_str().unwrap();
    let before = ["__complete", "--kubeconfig", kubeconfig, "--namespace=shop"];
    let output = shop.run_exactly(&[&before[..], words].concat()).await;
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    stdout(&output)
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_the_cluster_are_completed() {
    let shop = Shop::start(Vec::new()).await;
    for (words, want) in [
        (&["explain", "fro"][..], "frontend\nfrontend-typo\n:4\n"),
        (&["explain", "svc/nob"], "svc/nobody\n:4\n"),
        (&["explain", "pod/db-"], "pod/db-0\npod/db-1\npod/db-2\n:4\n"),
        (&["explain", "po"], "pod/\texplain a pod\n:6\n"),
        (&["explain", "-n", "sh"], "shop\n:4\n"),
        (&["explain", "--context", ""], "embedded\n:4\n"),
        (&["lint", "-o", "sa"], "sarif\tSARIF 2.1.0, for lint\n:4\n"),
        (&["render", "-f", ""], ":0\n"),
    ] {
        assert_eq!(complete(&shop, words).await, want, "{words:?}");
    }
}

/// The user is typing: an error would garble the line.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_completes_to_nothing() {
    let refuse = Fault::Refuse { status: 403, retry_after: None };
    let shop = Shop::start(vec![FaultRule::new(refuse, |_| true)]).await;
    assert_eq!(complete(&shop, &["explain", "fro"]).await, ":4\n");
    assert_eq!(complete(&shop, &["explain", "--context", "none", "fro"]).await, ":4\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_are_printed() {
    let shop = Shop::start(Vec::new()).await;
    let output = shop.run_exactly(&["completion", "kubectl"]).await;
    assert_eq!(stdout(&output), "#!/usr/bin/env sh\nexec kubectl-diagnose_svc __complete \"$@\"\n");
    for (shell, want) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef kubectl-diagnose_svc"),
        ("fish", "complete -c"),
        ("powershell", "Register-ArgumentCompleter -Native -CommandName 'kubectl-diagnose_svc'"),
    ] {
        let output = shop.run_exactly(&["completion", shell]).await;
        assert!(stdout(&output).contains(want), "{shell}");
    }
    let output = shop.run_exactly(&["completion", "tcsh"]).await;
    assert_eq!(output.status.code(), Some(2));
}
