//! Serves the API on loopback and prints the path of a kubeconfig:
//! `serve [ADDRESS] [FILE.json ...]`.
//!
//! The default address is `127.0.0.1:0`, which picks a free port. The files hold objects or lists
//! as JSON, as `kubectl get -A services,pods,endpointslices -o json` writes them; the server loads
//! them unchanged. Ctrl-C stops the server.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use kube_endpoint_embedded_apiserver::EmbeddedApiServer;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut objects = Vec::new();
    for argument in std::env::args().skip(1) {
        match argument.parse() {
            Ok(given) => address = given,
            Err(_) => objects.push(serde_json::from_slice(&std::fs::read(&argument)?)?),
        }
    }
    let server = EmbeddedApiServer::builder().start_time(now()).load(objects).build()?;
    let listener = server.listen(address).await?;
    let path = kubeconfig_path(listener.address().port());
    std::fs::write(&path, server.kubeconfig(listener.address()))?;
    println!("serving on http://{}", listener.address());
    println!("export KUBECONFIG={}", path.display());
    tokio::signal::ctrl_c().await?;
    listener.shutdown().await;
    std::fs::remove_file(&path)?;
    Ok(())
}

/// kubectl shows how old objects are.
#[expect(clippy::disallowed_methods, reason = "people look at this server with kubectl")]
fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

fn kubeconfig_path(port: u16) -> PathBuf {
    std::env::temp_dir().join(format!("embedded-apiserver-{port}.kubeconfig"))
}
