//! Takes pictures of the page with the sample cluster.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::page::browser::Scheme;
use crate::page::scene::Scene;

/// The maximum number of bytes of a picture in the documentation.
const MOST_BYTES: u64 = 120_000;

/// How long the sample cluster changes before the pictures of the documentation, so that the plots
/// show something.
const CHANGING: Duration = Duration::from_secs(150);

pub(crate) async fn pictures_show_the_sample_cluster() {
    let scene = Scene::sample().await;
    let folder = std::env::var_os("KEM_SCREENSHOTS").map(PathBuf::from);
    if folder.is_some() {
        change_for(&scene, CHANGING).await;
    }
    let page = &scene.page;
    let mut pictures = Vec::new();
    for (name, width, scheme, service) in [
        ("status-page-light", 1280, Scheme::Light, None),
        ("status-page-dark", 1280, Scheme::Dark, None),
        ("status-page-narrow", 390, Scheme::Light, None),
        ("status-page-explanation", 1280, Scheme::Light, Some("frontend")),
    ] {
        let hash = service.map_or("#/".to_owned(), |service| format!("#/service/shop/{service}"));
        page.value(&format!("location.hash = '{hash}'")).await;
        let shown = service.map_or(
            "!document.getElementById('overview').hidden",
            |_| "!!document.getElementById('pods-title')",
        );
        page.wait_until(name, shown).await;
        page.value("document.activeElement.blur()").await;
        pictures.push((name, page.picture(width, scheme).await));
    }
    for (name, picture) in &pictures {
        assert!(picture.starts_with(b"\x89PNG"), "{name}");
        // A page without data has about 10 kB.
        assert!(picture.len() > 30_000, "{name}: {} bytes", picture.len());
    }
    if let Some(folder) = folder {
        // Cargo runs tests in the folder of their package.
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        for (name, picture) in pictures {
            std::fs::write(folder.join(name).with_extension("png"), picture).unwrap();
        }
    }
    scene.end().await;
}

pub(crate) fn the_pictures_of_the_documentation_are_small() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/images");
    let files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 4, "{files:?}");
    for file in files {
        let size = file.metadata().unwrap().len();
        assert!(size < MOST_BYTES, "{}: {size} bytes; run pngquant", file.display());
    }
}

/// Lets pods become unready and ready again, now more and now fewer of them.
async fn change_for(scene: &Scene, time: Duration) {
    let pods = ["db-1", "dns-pzh48", "cart-645579dc9f-c9hkm", "frontend-7dfbff9db-r7j2v", "dns-q8vjw"];
    let end = tokio::time::Instant::now() + time;
    let mut round = 0_usize;
    while tokio::time::Instant::now() < end {
        for pod in pods.iter().take(1 + round % pods.len()) {
            for ready in [false, true] {
                scene.set_ready(pod, ready).await;
                tokio::time::sleep(Duration::from_millis(150)).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(500 + 700 * (round as u64 * 7 % 6))).await;
        round += 1;
    }
}
