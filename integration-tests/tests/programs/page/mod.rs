//! Tests the status page of the real binary in headless Chromium. The harness ignores the tests if
//! chromium or chromedriver is missing.
//!
//! `KEM_SCREENSHOTS=FOLDER` makes the test of the pictures write those of the documentation.

mod appearance;
mod browser;
mod scene;
mod screenshots;
mod webdriver;

use kube_endpoint_integration_tests::programs::Tests;
use kube_endpoint_integration_tests::{programs, tests};
use serde_json::{Value, json};

use browser::{Scheme, parents};
use scene::Scene;
use webdriver::Key;

pub(crate) fn tests() -> Vec<Tests> {
    vec![
        tests!(programs::nothing => screenshots::the_pictures_of_the_documentation_are_small),
        tests!(programs::browser =>
            async the_printed_address_opens_a_page_that_follows_changes,
            async an_explanation_opens_by_keyboard_alone,
            async commands_are_copied,
            async hostile_text_is_shown_as_text,
            async a_manager_that_is_gone_is_shown,
            async a_browser_that_is_not_signed_in_is_told_what_to_do,
            async a_browser_that_is_dropped_leaves_no_process,
            async appearance::nothing_is_too_wide_or_too_faint,
            async appearance::what_is_too_wide_or_too_faint_is_found,
            async appearance::the_name_of_a_node_breaks_once_at_most,
            async screenshots::pictures_show_the_sample_cluster,
        ),
    ]
}

/// Returns an expression that is true if the list of problems names a Service with a code.
fn lists(service: &str, code: &str) -> String {
    format!(
        "[...document.querySelectorAll('#problems tbody tr')].some(row => row.innerText.includes('{service}') && row.innerText.includes('{code}'))"
    )
}

/// Returns an expression that is true if an element with this tag and text has the focus.
fn has_focus(tag: &str, text: &str) -> String {
    format!("document.activeElement.matches('{tag}') && document.activeElement.innerText === '{text}'")
}

async fn the_printed_address_opens_a_page_that_follows_changes() {
    let scene = Scene::sample().await;
    let page = &scene.page;
    assert_eq!(page.text("location.href").await, scene.address());
    let tiles = page.text("document.getElementById('totals').innerText").await;
    assert!(tiles.contains("Services\n9"), "{tiles}");
    let controllers = page.text("document.getElementById('controllers').innerText").await;
    assert!(controllers.contains("endpointslice-mirroring-controller"), "{controllers}");

    assert_eq!(page.value(&lists("shop/frontend-typo", "EP012")).await, true);
    let ports = json!([{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}]);
    scene.patch_service("frontend-typo", json!({"spec": {"ports": ports}})).await;
    page.wait_until(
        "the repaired Service has no such problem",
        &format!("!{}", lists("shop/frontend-typo", "EP012")),
    )
    .await;
    // The latency is that of this change: the start has none.
    let drawn = "[...document.querySelectorAll('.plot')].every(one => one.querySelector('path.line, .area'))";
    page.wait_until("each plot shows data", drawn).await;
    assert_eq!(page.console().await, Vec::<String>::new());
    scene.end().await;
}

async fn an_explanation_opens_by_keyboard_alone() {
    let scene = Scene::sample().await;
    let page = &scene.page;
    page.press(&[Key::Tab]).await;
    assert_eq!(page.focused().await, "a Skip to the content");
    let mut order = Vec::new();
    while order.last().is_none_or(|last| last != "a shop/frontend-typo") {
        page.press(&[Key::Tab]).await;
        order.push(page.focused().await);
        assert!(order.len() < 20, "{order:#?}");
    }
    insta::assert_snapshot!(order.join("\n"), @r"
    a Endpoints status
    input Explain a Service: namespace/name
    a EP012 port-name-not-found
    a shop/frontend-typo
    ");
    let outline = page.text("getComputedStyle(document.activeElement).outlineStyle").await;
    assert_eq!(outline, "solid", "the focus is visible");

    page.press(&[Key::Enter]).await;
    let title = "Service shop/frontend-typo";
    page.wait_until("the heading has the focus", &has_focus("h1", title)).await;
    let remedy = r#"document.body.innerText.includes("Set the Service's targetPort to")"#;
    page.wait_until("the remedy is shown", remedy).await;
    let told = "document.getElementById('explanation').innerText.split('no container port named').length - 1";
    assert_eq!(page.value(told).await, 1, "the finding is told once");
    let said = "document.getElementById('said').textContent.startsWith('down: 0 of 6 pods receive traffic')";
    page.wait_until("a screen reader is told", said).await;
    // The status arrives every 2 seconds, the explanation every 5; neither takes the focus away.
    let updates = "performance.getEntriesByType('resource').filter(one => one.name.includes('/api/services/')).length >= 3";
    page.wait_until("the explanation is up to date", updates).await;
    assert_eq!(page.value(&has_focus("h1", title)).await, true);
    page.press(&[Key::Escape]).await;
    page.wait_until("the link has the focus again", &has_focus("a", "shop/frontend-typo")).await;
    page.driver().back().await;
    page.wait_until("Back returns to the explanation", &has_focus("h1", title)).await;
    assert!(page.text("location.hash").await.ends_with("#/service/shop/frontend-typo"));

    // In the chooser the test goes down to the second of three, and presses Enter.
    page.value("document.getElementById('service').focus()").await;
    page.type_text("shop/d").await;
    page.wait_until("Services are offered", "document.querySelectorAll('#found li').length === 3").await;
    page.press(&[Key::Down, Key::Down]).await;
    let active =
        "document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).innerText";
    assert_eq!(page.text(active).await, "shop/db-primary");
    page.press(&[Key::Enter]).await;
    page.wait_until("it is explained", &has_focus("h1", "Service shop/db-primary")).await;
    // A single value of a plot. The overview takes the focus once it is shown.
    page.press(&[Key::Escape]).await;
    page.wait_until("the overview is shown", "!document.getElementById('overview').hidden").await;
    page.value("document.querySelector('#plot-writes svg').focus()").await;
    page.press(&[Key::Home]).await;
    let text = page.text("document.activeElement.getAttribute('aria-valuetext')").await;
    assert!(text.starts_with("14 min 50 s ago: endpoints-controller "), "{text}");
    assert_eq!(page.console().await, Vec::<String>::new());
    scene.end().await;
}

async fn commands_are_copied() {
    let scene = Scene::sample().await;
    let page = &scene.page;
    page.value("location.hash = '#/service/shop/frontend'").await;
    page.wait_until("a command is shown", "document.querySelector('.command button') !== null").await;
    let command = page.text("document.querySelector('.command code').innerText").await;
    assert!(command.starts_with("kubectl -n shop describe pod frontend-"), "{command}");
    let label = page.text("document.querySelector('.command button').ariaLabel").await;
    assert_eq!(label, format!("Copy {command}"));
    let told = "void (window.told = [], say = (before => text => { told.push(text); before(text) })(say))";
    page.value(told).await;
    // The test's own clipboard: that of the machine belongs to its user.
    page.value("void (navigator.clipboard.writeText = async text => { window.copied = text })").await;
    page.value("document.querySelector('.command button').focus()").await;
    page.press(&[Key::Enter]).await;
    page.wait_until("the command is copied", "typeof window.copied === 'string'").await;
    assert_eq!(page.text("window.copied").await, command);
    page.wait_until("a screen reader is told", "told.includes('Copied.')").await;
    // A browser may have no clipboard for the page.
    page.value("void (navigator.clipboard.writeText = async () => { throw new Error('refused') })").await;
    page.press(&[Key::Enter]).await;
    page.wait_until("the command is selected", "told.includes('The command is selected.')").await;
    assert_eq!(page.text("getSelection().toString()").await, command);
    assert_eq!(page.console().await, Vec::<String>::new());
    scene.end().await;
}

async fn hostile_text_is_shown_as_text() {
    const HOSTILE: &str = "\u{202e}<img src=x onerror=\"document.title='taken over'\"><script>document.title='taken over'</script>\u{1b}[2J";
    let object = |kind: &str, rest: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": kind});
        object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        object
    };
    let service = object(
        "Service",
        json!({
            // With a uid it counts as stored, so nobody validates it.
            "metadata": {"name": "hostile", "namespace": "shop", "uid": "uid-hostile"},
            "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.77", "clusterIPs": ["10.96.0.77"], "ipFamilies": ["IPv4"],
                "selector": {"app": "dns"}, "ports": [{"port": 80, "targetPort": 80, "protocol": "TCP"}], "trafficDistribution": HOSTILE},
        }),
    );
    let scene = Scene::with(&[service]).await;
    let page = &scene.page;
    let shown =
        |place: &str| format!("document.querySelector('{place}').innerText.includes({})", json!("onerror="));
    page.wait_until("the problem quotes the field", &shown("#problems")).await;
    page.value("location.hash = '#/service/shop/hostile'").await;
    page.wait_until("the explanation quotes the field", &shown("#explanation")).await;
    let hidden = "/[\\u001b\\u202e]/.test(document.body.innerText)";
    assert_eq!(page.value(hidden).await, false);
    page.wait_until("escapes stand for them", &shown("#explanation").replace("onerror=", r"\\u{202e}")).await;
    // A name in the address is text, too.
    page.value("location.hash = '#/service/shop/' + encodeURIComponent('<img src=x>')").await;
    page.wait_until(
        "the unknown name is shown",
        "document.querySelector('#explanation').innerText.includes('There is no Service shop/<img src=x>')",
    )
    .await;
    assert_eq!(page.value("document.querySelectorAll('img, #main script').length").await, 0);
    assert!(!page.text("document.title").await.contains("taken over"));

    // Should markup get in by mistake, the policy stops it. The console reports that, and the
    // unknown Service.
    let markup = "(document.getElementById('notes').innerHTML = '<p style=\"color: red\"><img src=x onerror=\"document.title=1\">')";
    assert_eq!(page.console().await.iter().filter(|line| !line.contains("404")).count(), 0);
    page.value(markup).await;
    page.value("document.head.append(Object.assign(document.createElement('script'), {textContent: 'document.title = 1'}))").await;
    let log = page.console().await.join("\n");
    assert!(log.contains("script-src") && log.contains("style-src") && log.contains("img-src"), "{log}");
    assert_ne!(page.text("document.title").await, "1");
    scene.end().await;
}

async fn a_manager_that_is_gone_is_shown() {
    let mut scene = Scene::sample().await;
    scene.page.emulate(1280, 800, Scheme::Light, false).await;
    scene.kill_manager().await;
    let page = &scene.page;
    page.wait_until("the page reconnects", "document.getElementById('state').textContent === 'Reconnecting'")
        .await;
    assert!(page.text("document.getElementById('notes').innerText").await.contains("manager"));
    assert_eq!(page.value("!!document.querySelector('#problems table')").await, true, "what was known stays");
    let animation = "getComputedStyle(document.getElementById('state'), '::before').animationName";
    assert_eq!(page.text(animation).await, "blink");
    for scheme in [Scheme::Light, Scheme::Dark] {
        page.emulate(1280, 800, scheme, true).await;
        assert_eq!(page.text(animation).await, "none", "nothing moves for one who prefers that");
        assert_eq!(page.value(appearance::TOO_FAINT).await, json!([]));
    }
    scene.end().await;
}

async fn a_browser_that_is_not_signed_in_is_told_what_to_do() {
    let scene = Scene::sample().await;
    let page = &scene.page;
    // The page of the kubectl plugin answers so to a browser without its cookie.
    page.value("void (fetch = async () => new Response('No cookie.', { status: 401 }))").await;
    page.value("void ask()").await;
    page.wait_until(
        "the refusal is shown",
        "document.getElementById('state').textContent === 'Not signed in'",
    )
    .await;
    let notes = page.text("document.getElementById('notes').innerText").await;
    assert!(notes.contains("Open the address that kubectl diagnose-svc ui printed last"), "{notes}");
    assert_eq!(page.value(appearance::TOO_FAINT).await, json!([]));
    page.open(scene.address()).await;
    page.wait_until("the page is live again", "document.getElementById('state').textContent === 'Live'")
        .await;
    scene.end().await;
}

async fn a_browser_that_is_dropped_leaves_no_process() {
    let scene = Scene::sample().await;
    let processes = scene.page.processes();
    assert!(processes.len() > 2, "chromedriver, the browser and its processes: {processes:?}");
    // A panic drops the scene in the same way.
    drop(scene);
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(10);
    while processes.iter().any(|id| parents().contains_key(id)) {
        assert!(tokio::time::Instant::now() < deadline, "still there: {processes:?}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
