//! Where a command reads: a cluster, or files.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::ensure;
use clap::Args;
use jiff::Timestamp;
use kube::Client;
use kube_endpoint_explain::{FileContents, Options};
use kube_endpoint_explain_reader::{Reader, Resource};

use crate::args::{Global, Scope};
use crate::commands::{current_time, reader};
use crate::config_flags::ConfigFlags;
use crate::connect::{Connection, connect};
use crate::files::{DEFAULT_NAMESPACE, Files};
use crate::output::print_note;

/// The files of a command that may read them in place of a cluster.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FileFlags {
    /// Read this file or folder and no cluster: manifests, the output of `kubectl get -o
    /// yaml|json`, a folder of `kubectl cluster-info dump`, a must-gather; `-` is standard input;
    /// may be repeated
    #[arg(long, short, value_name = "FILE")]
    filename: Vec<PathBuf>,
    /// The time up to which ages count, such as 2026-01-31T12:00:00Z [default: the newest time in
    /// the files]
    #[arg(long, requires = "filename", value_name = "TIME")]
    at: Option<Timestamp>,
}

impl FileFlags {
    /// Returns true if files are read.
    pub(crate) fn names_files(&self) -> bool {
        !self.filename.is_empty()
    }
}

/// A cluster, or files.
pub(crate) struct Place {
    pub(crate) client: Client,
    pub(crate) reader: Reader,
    /// The namespace of the command line, or that of the context.
    namespace: String,
    files: Option<Arc<Files>>,
    /// The contents of the files, for the explanations.
    contents: Option<Arc<FileContents>>,
    /// The time of the files.
    at: Option<Timestamp>,
}

impl Place {
    /// Reads the files, or else connects to the cluster, without a request to its server.
    ///
    /// # Errors
    ///
    /// An error if a file cannot be read, or there is no usable kubeconfig.
    pub(crate) async fn open(global: &Global, flags: &FileFlags) -> anyhow::Result<Self> {
        if flags.filename.is_empty() {
            return Ok(Self::of_cluster(connect(&global.config).await?));
        }
        let of_cluster = ConfigFlags { namespace: None, ..global.config.clone() };
        ensure!(
            of_cluster == ConfigFlags::default(),
            "with -f no cluster is read: leave out the options of kubectl other than --namespace"
        );
        let namespace = global.config.namespace.clone();
        let files = Files::read(&flags.filename, namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE))?;
        files.notes.iter().for_each(|note| print_note(note));
        if let (None, Some(newest)) = (flags.at, files.newest) {
            print_note(&format!(
                "Ages count up to {newest}, the newest time in the files; --at gives another one."
            ));
        }
        let at = flags.at.or(files.newest);
        let files = Arc::new(files);
        let client = files.client();
        Ok(Self {
            reader: reader(client.clone()).of_files(),
            client,
            namespace: namespace.unwrap_or_default(),
            contents: Some(files.contents()),
            files: Some(files),
            at: Some(at.unwrap_or_else(current_time)),
        })
    }

    pub(crate) fn of_cluster(connection: Connection) -> Self {
        let client = connection.client.kube().clone();
        let namespace = connection.namespace;
        Self { reader: reader(client.clone()), client, namespace, files: None, contents: None, at: None }
    }

    /// Returns true if a second reading may see more than the first one.
    pub(crate) fn may_change(&self) -> bool {
        self.files.is_none()
    }

    /// Returns the time up to which ages count.
    pub(crate) fn now(&self) -> Timestamp {
        self.at.unwrap_or_else(current_time)
    }

    /// Returns the options with which objects of this place are explained.
    pub(crate) fn options(&self, options: &Options) -> Options {
        let mut options = options.clone();
        options.files.clone_from(&self.contents);
        options
    }

    /// Returns the namespace of the command, or `None` for all. Files are read whole, unless the
    /// command line names a namespace.
    pub(crate) fn scope(&self, scope: &Scope) -> Option<&str> {
        scope.namespace(&self.namespace).filter(|namespace| !namespace.is_empty())
    }

    /// Returns the namespace of an object: that of the command, or of files the only one that may
    /// be meant.
    pub(crate) fn namespace_of(&self, kind: Resource, name: &str) -> String {
        match &self.files {
            Some(files) if self.namespace.is_empty() => {
                files.namespace_with(kind, name).unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
            }
            _ => self.namespace.clone(),
        }
    }
}
