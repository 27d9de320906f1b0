//! Tests of the files that a kubeconfig replaces, and of the way it does so.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use tempfile::TempDir;

use super::*;

/// Returns a kubeconfig for an address, as the embedded API server makes it.
fn kubeconfig(server: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: embedded\n  cluster: {{server: \"{server}\"}}\nusers:\n- name: \
         embedded\n  user: {{token: \"secret\"}}\ncontexts:\n- name: embedded\n  context: {{cluster: embedded, user: embedded, \
         namespace: default}}\ncurrent-context: embedded\n"
    )
}

fn what(content: &Content) -> &str {
    match content {
        Content::Empty => "empty",
        Content::Ours(_) => "ours",
        Content::Other(why) => why,
    }
}

#[test]
fn only_a_marked_file_without_other_entries_is_ours() {
    let check =
        |text: &[u8], want: &str| assert_eq!(what(&content(text)), want, "{}", String::from_utf8_lossy(text));
    let ours = marked(&kubeconfig("http://127.0.0.1:1"));
    check(ours.as_bytes(), "ours");
    check(b"", "empty");
    check(b" \n", "empty");
    // `kubectl config` drops comments, and writes YAML in another form.
    check(ours.trim_start_matches(COMMENT).as_bytes(), "ours");
    let by_kubectl = "apiVersion: v1\nclusters:\n- cluster:\n    server: http://127.0.0.1:1\n  name: embedded\ncontexts:\n- \
                      context:\n    cluster: embedded\n    namespace: shop\n    user: embedded\n  name: embedded\n\
                      current-context: embedded\nextensions:\n- extension:\n    writtenBy: --embedded\n  name: \
                      kube-endpoint-manager\nkind: Config\npreferences: {}\nusers:\n- name: embedded\n  user:\n    token: t\n";
    check(by_kubectl.as_bytes(), "ours");
    check(kubeconfig("http://127.0.0.1:1").as_bytes(), "is a kubeconfig that --embedded did not write");
    let with_comment = format!("{COMMENT}{}", kubeconfig("http://127.0.0.1:1"));
    check(with_comment.as_bytes(), "is a kubeconfig that --embedded did not write");
    let added = ours.replace("users:\n", "users:\n- {name: prod, user: {token: p}}\n");
    check(added.as_bytes(), "also has the entry \"prod\", which --embedded did not write");
    for other in ["notes", "{}", "[1, 2]", "clusters: []\n", "a: b: c", "clusters: 7", "\u{0}"] {
        check(other.as_bytes(), "is no kubeconfig");
    }
    check(b"\xff\xfe", "is no kubeconfig");
}

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("k")
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.0.path())
            .unwrap()
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

async fn write(path: &Path, server: &str) -> Result<(), KubeconfigError> {
    Place::look(path).await?.write(&kubeconfig(server)).await
}

/// An address at which nobody listens.
const GONE: &str = "http://127.0.0.1:1";

#[tokio::test]
async fn a_file_whose_server_is_gone_is_replaced_and_is_private() {
    let folder = Folder::new();
    let path = folder.path();
    for before in [None, Some(String::new()), Some(marked(&kubeconfig(GONE)))] {
        if let Some(before) = &before {
            fs::write(&path, before).unwrap();
            let all = std::os::unix::fs::PermissionsExt::from_mode(0o666);
            fs::set_permissions(&path, all).unwrap();
        }
        write(&path, "http://127.0.0.1:2").await.unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), marked(&kubeconfig("http://127.0.0.1:2")));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(folder.names(), ["k"]);
    }
}

#[tokio::test]
async fn a_file_of_somebody_else_is_kept() {
    let folder = Folder::new();
    let path = folder.path();
    let own = kubeconfig("https://prod.example:6443");
    fs::write(&path, &own).unwrap();
    let inode = fs::metadata(&path).unwrap().ino();
    let error = write(&path, GONE).await.unwrap_err().to_string();
    let want = format!(
        "{} exists and is a kubeconfig that --embedded did not write, so it is not replaced; choose another place with \
         --embedded-kubeconfig, or remove the file",
        path.display()
    );
    assert_eq!(error, want);
    assert_eq!(fs::read_to_string(&path).unwrap(), own);
    assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
    assert_eq!(folder.names(), ["k"]);
}

#[tokio::test]
async fn a_link_stays_and_its_target_is_replaced_or_kept() {
    let folder = Folder::new();
    let target = folder.0.path().join("target");
    symlink(&target, folder.path()).unwrap();
    // The link points to nothing at first.
    for server in [GONE, "http://127.0.0.1:2"] {
        write(&folder.path(), server).await.unwrap();
        assert!(fs::symlink_metadata(folder.path()).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&target).unwrap(), marked(&kubeconfig(server)));
        assert_eq!(folder.names(), ["k", "target"]);
    }
    fs::write(&target, "notes").unwrap();
    let error = write(&folder.path(), GONE).await.unwrap_err();
    assert!(matches!(&error, KubeconfigError::NotOurs { why, .. } if why == "is no kubeconfig"), "{error}");
    assert_eq!(fs::read_to_string(&target).unwrap(), "notes");
}

/// Opening a pipe would wait until somebody reads from it.
#[tokio::test]
async fn a_pipe_and_a_socket_are_kept_and_a_device_is_written_to() {
    let folder = Folder::new();
    let private = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, folder.path(), rustix::fs::FileType::Fifo, private, 0).unwrap();
    let refused = |error: KubeconfigError| {
        let why =
            "exists and is a pipe, a socket or a block device, so it is not replaced; choose another place";
        assert!(error.to_string().contains(why), "{error}");
    };
    refused(write(&folder.path(), GONE).await.unwrap_err());
    fs::remove_file(folder.path()).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(folder.path()).unwrap();
    refused(write(&folder.path(), GONE).await.unwrap_err());
    write(Path::new("/dev/null"), GONE).await.unwrap();
}

#[tokio::test]
async fn a_folder_at_the_path_is_kept() {
    let folder = Folder::new();
    fs::create_dir(folder.path()).unwrap();
    let error = write(&folder.path(), GONE).await.unwrap_err();
    assert!(
        matches!(&error, KubeconfigError::Io { why, .. } if why.kind() == ErrorKind::IsADirectory),
        "{error}"
    );
}

#[tokio::test]
async fn a_file_that_appears_after_the_look_is_looked_at() {
    let folder = Folder::new();
    let place = Place::look(&folder.path()).await.unwrap();
    fs::write(folder.path(), "notes").unwrap();
    let error = place.write(&kubeconfig(GONE)).await.unwrap_err();
    assert!(matches!(error, KubeconfigError::NotOurs { .. }), "{error}");
    assert_eq!(fs::read_to_string(folder.path()).unwrap(), "notes");
    // A file that disappears is no obstacle.
    fs::write(folder.path(), marked(&kubeconfig(GONE))).unwrap();
    let place = Place::look(&folder.path()).await.unwrap();
    fs::remove_file(folder.path()).unwrap();
    place.write(&kubeconfig("http://127.0.0.1:2")).await.unwrap();
    assert_eq!(folder.names(), ["k"]);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_another_process_has_locked_is_kept() {
    let folder = Folder::new();
    let before = marked(&kubeconfig(GONE));
    fs::write(folder.path(), &before).unwrap();
    let locked = File::open(folder.path()).unwrap();
    locked.lock().unwrap();
    assert!(!replace(&folder.path(), before.as_bytes(), "new").unwrap());
    assert_eq!(fs::read_to_string(folder.path()).unwrap(), before);
    drop(locked);
    assert!(replace(&folder.path(), before.as_bytes(), "new").unwrap());
    assert_eq!(fs::read_to_string(folder.path()).unwrap(), "new");
}

/// Three threads replace a file, or create it, at the same time: one succeeds.
#[test]
fn of_several_that_replace_a_file_at_the_same_time_one_succeeds() {
    for before in [String::new(), marked(&kubeconfig(GONE))] {
        let folder = Folder::new();
        if !before.is_empty() {
            fs::write(folder.path(), &before).unwrap();
        }
        let texts = ["one", "two", "three"];
        let replaced: Vec<bool> = std::thread::scope(|scope| {
            let all =
                texts.map(|text| scope.spawn(|| replace(&folder.path(), before.as_bytes(), text).unwrap()));
            all.into_iter().map(|it| it.join().unwrap()).collect()
        });
        let winner = texts.iter().zip(&replaced).filter(|(_, replaced)| **replaced).map(|(text, _)| *text);
        assert_eq!(winner.collect::<Vec<_>>(), [fs::read_to_string(folder.path()).unwrap()], "{replaced:?}");
    }
}

#[tokio::test]
async fn a_server_runs_if_it_is_embedded_and_accepts_the_token() {
    use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, ListenOptions, User};
    let user = User { name: "admin".to_owned(), groups: Vec::new() };
    let server = EmbeddedApiServer::builder().token("secret", user).require_token().build().unwrap();
    let options = ListenOptions { tls: true, ..ListenOptions::default() };
    let listener = server.listen_with(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let folder = Folder::new();
    let url = listener.url();
    let text = server.kubeconfig_of(&listener);
    let place = Place::look(&folder.path()).await.unwrap();
    place.write(&text).await.unwrap();
    let error = write(&folder.path(), GONE).await.unwrap_err();
    assert!(
        matches!(&error, KubeconfigError::InUse { server, .. } if *server == format!("{url}/")),
        "{error}"
    );
    assert!(!error.to_string().contains("secret"), "{error}");
    assert_eq!(fs::read_to_string(folder.path()).unwrap(), marked(&text));
    // Another server has got the port.
    fs::write(folder.path(), marked(&text.replace("secret", "of another one"))).unwrap();
    write(&folder.path(), GONE).await.unwrap();
    // The server has ended.
    fs::write(folder.path(), marked(&text)).unwrap();
    listener.shutdown().await;
    write(&folder.path(), GONE).await.unwrap();
}

#[tokio::test]
async fn a_server_that_does_not_answer_runs_and_one_of_something_else_does_not() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let kubeconfig = Kubeconfig::from_yaml(&kubeconfig(&url)).unwrap();
    // The kernel accepts connections for the listener, and nobody answers.
    assert_eq!(running_server(&kubeconfig).await, Some(format!("{url}/")));
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
            tokio::io::AsyncWriteExt::write_all(&mut stream, answer).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    assert_eq!(running_server(&kubeconfig).await, None);
}
