//! Starts the embedded API server with a large cluster without faults, for measurements:
//!
//! ```console
//! $ cargo run --release -p kubectl-diagnose-svc --example large_cluster -- 10000 10
//! 10000 Services with 10 pods each. Try:
//!   time kubectl diagnose-svc --kubeconfig large.kubeconfig -n team-000 explain web-00007
//! ```
#![expect(clippy::unwrap_used, reason = "an example may fail")]
#![expect(clippy::print_stdout, reason = "it talks to the user")]

#[path = "../tests/cli/large.rs"]
mod large;

const KUBECONFIG: &str = "large.kubeconfig";

#[tokio::main]
async fn main() {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse().unwrap());
    let (services, pods) = (numbers.next().unwrap_or(10_000), numbers.next().unwrap_or(10));
    let server = large::server(services, pods);
    let listener = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    std::fs::write(KUBECONFIG, server.kubeconfig(listener.address())).unwrap();
    let (name, namespace) = large::service(7);
    println!("{services} Services with {pods} pods each. Try:");
    println!("  time kubectl diagnose-svc --kubeconfig {KUBECONFIG} -n {namespace} explain {name}");
    tokio::signal::ctrl_c().await.unwrap();
    std::fs::remove_file(KUBECONFIG).unwrap();
}
