//! Tests sizes and colours.

use serde_json::{Value, json};

use crate::page::browser::Scheme;
use crate::page::scene::Scene;

/// Texts with a lower contrast than level AA of WCAG 2 demands: 4.5, and 3 for large ones.
pub(crate) const TOO_FAINT: &str = r"(() => {
    const parse = color => color.match(/[\d.]+/g).map(Number);
    const light = color => {
        const [red, green, blue] = parse(color).map(part => part / 255).map(part => part <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4);
        return .2126 * red + .7152 * green + .0722 * blue;
    };
    const behind = node => {
        for (let at = node; at; at = at.parentElement) {
            const color = getComputedStyle(at).backgroundColor;
            if ((parse(color)[3] ?? 1) === 1) return color;
        }
        return 'rgb(255, 255, 255)';
    };
    const ratio = (one, other) => (Math.max(light(one), light(other)) + .05) / (Math.min(light(one), light(other)) + .05);
    const faint = [];
    for (const node of document.querySelectorAll('body *')) {
        const isInput = node.matches('input');
        const own = isInput ? node.placeholder : [...node.childNodes].filter(child => child.nodeType === 3).map(child => child.nodeValue.trim()).join('');
        if (!own || !node.checkVisibility() || node.matches('script, style, noscript, .hidden-visually, title')) continue;
        const style = getComputedStyle(node, isInput ? '::placeholder' : null);
        const size = parseFloat(style.fontSize), isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
        const found = ratio(node instanceof SVGElement ? style.fill : style.color, behind(node));
        if (found < (isLarge ? 3 : 4.5)) faint.push(`${own}: ${found.toFixed(2)}`);
    }
    return faint;
})()";

/// Elements that are wider than the window.
const TOO_WIDE: &str = r"[...document.querySelectorAll('body *')].filter(node => node.checkVisibility() && !node.closest('pre, .hidden-visually, .skip, thead'))
    .filter(node => node.getBoundingClientRect().right > innerWidth + 1).map(node => `${node.tagName} ${node.textContent.slice(0, 60)}`)";

pub(crate) async fn nothing_is_too_wide_or_too_faint() {
    // Names that are as long as the API allows, and no place to break them.
    let long = "a".repeat(63);
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": long, "namespace": "shop", "annotations": {"service.alpha.kubernetes.io/tolerate-unready-endpoints": "w".repeat(300)}},
        "spec": {"selector": {"app": "nothing"}, "ports": [{"port": 80}], "clusterIP": "10.96.0.78"},
    });
    let scene = Scene::with(&[service]).await;
    let page = &scene.page;
    let mut backgrounds = Vec::new();
    for service in ["", "frontend", "cart", "payments", &long] {
        let hash = if service.is_empty() { "#/".to_owned() } else { format!("#/service/shop/{service}") };
        page.value(&format!("location.hash = '{hash}'")).await;
        let shown = if service.is_empty() {
            "!document.getElementById('overview').hidden".to_owned()
        } else {
            format!(
                "document.getElementById('explanation').innerText.includes('What to do') && document.querySelector('h1#service-title').innerText.endsWith('/{service}')"
            )
        };
        page.wait_until(&hash, &shown).await;
        for (width, scheme) in
            [(1280, Scheme::Light), (390, Scheme::Light), (390, Scheme::Dark), (1280, Scheme::Dark)]
        {
            page.emulate(width, 800, scheme, false).await;
            let place = format!("{hash} at {width} pixels, {scheme:?}");
            page.wait_until(
                &place,
                &format!("innerWidth === {width} && document.documentElement.scrollWidth <= {width}"),
            )
            .await;
            assert_eq!(page.value(TOO_WIDE).await, json!([]), "{place}");
            assert_eq!(page.value(TOO_FAINT).await, json!([]), "{place}");
            backgrounds.push(page.value("getComputedStyle(document.body).backgroundColor").await);
        }
    }
    let of = |scheme: &[usize]| -> Vec<&Value> { scheme.iter().map(|at| &backgrounds[*at]).collect() };
    assert_eq!(of(&[0, 1]), of(&[1, 0]));
    assert_eq!(of(&[2, 3]), of(&[3, 2]));
    assert_ne!(backgrounds[0], backgrounds[3], "light and dark differ");
    assert_eq!(page.console().await, Vec::<String>::new());
    scene.end().await;
}

/// Providers name a node for its address, region and domain.
pub(crate) async fn the_name_of_a_node_breaks_once_at_most() {
    let node = "ip-10-200-112-134.eu-central-1.compute.internal";
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "far", "namespace": "shop"},
        "spec": {"selector": {"app": "far"}, "ports": [{"port": 80}]},
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "far-7dfbff9db-5rhkn", "namespace": "shop", "labels": {"app": "far"}},
        "spec": {"nodeName": node, "containers": [{"name": "far", "image": "far:1"}]},
        "status": {"phase": "Running", "podIP": "10.244.1.7", "podIPs": [{"ip": "10.244.1.7"}, {"ip": "fd00:10:244:1::7"}],
                   "conditions": [{"type": "Ready", "status": "True"}]},
    });
    let scene = Scene::with(&[service, pod]).await;
    let page = &scene.page;
    page.value("location.hash = '#/service/shop/far'").await;
    page.wait_until(
        "the pod",
        &format!("document.querySelector('#explanation .pods')?.innerText.includes('{node}')"),
    )
    .await;
    let cell = "[...document.querySelectorAll('.pods td')].find(cell => cell.dataset.label === 'Node')";
    let lines = format!(
        "(() => {{ const range = document.createRange(); range.selectNodeContents({cell}); return range.getClientRects().length; }})()"
    );
    for (width, most) in [(1280, 2), (390, 2)] {
        page.emulate(width, 800, Scheme::Light, false).await;
        page.wait_until("the width", &format!("innerWidth === {width}")).await;
        let lines = page.value(&lines).await.as_u64().unwrap();
        assert!((1..=most).contains(&lines), "{lines} lines at {width} pixels");
    }
    scene.end().await;
}

pub(crate) async fn what_is_too_wide_or_too_faint_is_found() {
    let scene = Scene::sample().await;
    let page = &scene.page;
    page.emulate(390, 800, Scheme::Light, false).await;
    page.value("(() => { const one = document.querySelector('#controllers-title'); one.textContent = 'x'.repeat(400); one.style.color = '#ccc'; one.style.whiteSpace = 'nowrap'; })()").await;
    assert_eq!(page.value(TOO_WIDE).await.as_array().unwrap().len(), 1);
    assert_eq!(page.value(TOO_FAINT).await.as_array().unwrap().len(), 1);
    scene.end().await;
}
