//! Targets for files that a user writes: the kubeconfig and the file of `--config`.

use std::ffi::OsString;
use std::io::Write;

use kube::config::Kubeconfig;
use kube_endpoint_controllers::{CommandLine, CommandLineError, Settings, connect};
use tempfile::NamedTempFile;

/// Reads a kubeconfig, and makes a client of it unless it names commands or files.
pub fn kubeconfig(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(kubeconfig) = Kubeconfig::from_yaml(&text)
        && reaches_out(&kubeconfig)
    {
        return;
    }
    let file = file(bytes);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return };
    if let Err(error) = runtime.block_on(connect(Some(file.path()), None)) {
        let error = error.to_string();
        assert!(!error.contains('\n'), "an error has several lines: {error}");
        assert!(error.len() < 1000 + 2 * bytes.len(), "an error is long: {error}");
    }
}

/// Returns true if a client of this kubeconfig would run a command or read another file.
fn reaches_out(kubeconfig: &Kubeconfig) -> bool {
    let of_users = kubeconfig.auth_infos.iter().filter_map(|named| named.auth_info.as_ref()).any(|user| {
        user.exec.is_some()
            || user.auth_provider.is_some()
            || user.token_file.is_some()
            || user.client_certificate.is_some()
            || user.client_key.is_some()
    });
    let clusters = kubeconfig.clusters.iter().filter_map(|named| named.cluster.as_ref());
    of_users || clusters.into_iter().any(|cluster| cluster.certificate_authority.is_some())
}

/// Reads the file of `--config`.
pub fn config_file(bytes: &[u8]) {
    let file = file(bytes);
    let words = ["kube-endpoint-manager".into(), "--config".into(), file.path().into()];
    match CommandLine::read(words, Vec::<(OsString, OsString)>::new()) {
        Ok(command_line) => {
            if let Err(error) = Settings::try_from(&command_line.options) {
                let _ = command_line.locate(&error);
            }
        }
        Err(CommandLineError::File(error)) => {
            assert!(!error.to_string().contains('\n'), "an error has several lines: {error}");
        }
        Err(_) => {}
    }
}

fn file(content: &[u8]) -> NamedTempFile {
    let file = NamedTempFile::new().and_then(|mut file| file.write_all(content).map(|()| file));
    match file {
        Ok(file) => file,
        Err(error) => panic!("no temporary file: {error}"),
    }
}
