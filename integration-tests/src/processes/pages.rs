//! The pages that a replica serves.

use std::net::{Ipv4Addr, TcpListener};

use http::Request;
use http_body_util::BodyExt;
use kube::Config;
use kube::client::Body;
use kube_endpoint_manager_core::client_from_config;

use super::server::{SCRAPER, user_token};

/// A port of the loopback address that is free now.
///
/// # Panics
///
/// If there is none.
pub fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// The pages of a replica that listens on the loopback address. Each request has a connection of its own, as a probe of the
/// kubelet has.
#[derive(Clone, Copy, Debug)]
pub struct Pages {
    port: u16,
}

impl Pages {
    /// The pages on a port.
    pub fn on(port: u16) -> Self {
        Self { port }
    }

    /// The flags that make a replica serve them.
    pub fn flags(&self) -> [String; 2] {
        [format!("--secure-port={}", self.port), "--bind-address=127.0.0.1".to_owned()]
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Reads a page without credentials. Returns the status and the body.
    ///
    /// # Errors
    ///
    /// If there is no answer.
    pub async fn read(&self, path: &str) -> Result<(u16, String), Box<dyn std::error::Error + Send + Sync>> {
        self.request(path, None).await
    }

    /// The sum of all series of a metric; none if it does not exist.
    ///
    /// # Errors
    ///
    /// If there is no answer, or another one than 200.
    pub async fn metric(&self, name: &str) -> Result<Option<f64>, Box<dyn std::error::Error + Send + Sync>> {
        let (status, page) = self.request("/metrics", Some(user_token(SCRAPER))).await?;
        if status != 200 {
            return Err(format!("/metrics: {status}: {page}").into());
        }
        Ok(sum(&page, name))
    }

    async fn request(
        &self,
        path: &str,
        token: Option<String>,
    ) -> Result<(u16, String), Box<dyn std::error::Error + Send + Sync>> {
        let mut config = Config::new(format!("https://127.0.0.1:{}", self.port).parse()?);
        config.accept_invalid_certs = true;
        config.auth_info.token = token.map(Into::into);
        let client = client_from_config(config).await?;
        let answer = client.send(Request::get(path).body(Body::empty())?).await?;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await?.to_bytes();
        Ok((status, String::from_utf8(body.to_vec())?))
    }
}

/// The sum of the series of a metric on a page in Prometheus' text format.
fn sum(page: &str, name: &str) -> Option<f64> {
    let values = page.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        (rest.starts_with(['{', ' '])).then(|| rest.rsplit(' ').next()?.parse::<f64>().ok()).flatten()
    });
    values.reduce(|sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_of_a_metric_are_added() {
        let page = "# TYPE lost counter\nlost{reason=\"a b\"} 2\nlost{reason=\"c\"} 3\nlost_more 7\nidle 0\n";
        assert_eq!(sum(page, "lost"), Some(5.0));
        assert_eq!(sum(page, "idle"), Some(0.0));
        assert_eq!(sum(page, "los"), None);
    }
}
