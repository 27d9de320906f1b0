//! Tests right and wrong manifests of a person.

use super::*;
use serde_json::json;

fn kinds_of(text: &str) -> Result<String, String> {
    let objects = read(text.as_bytes()).map_err(|error| error.to_string())?;
    Ok(objects.iter().map(Object::type_name).collect::<Vec<_>>().join(", "))
}

#[test]
fn json_and_yaml_lists_and_single_objects_are_read() {
    let check = |text: &str, want: &str| assert_eq!(kinds_of(text).as_deref(), Ok(want), "{text}");
    check(
        r#"{"kind":"List","apiVersion":"v1","items":[{"kind":"Node","apiVersion":"v1","metadata":{"name":"a"}}]}"#,
        "Node of v1",
    );
    let two = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n---\n# nothing\n---\napiVersion: v1\nkind: Service\nmetadata:\n  name: b\n";
    check(two, "Node of v1, Service of v1");
    check(&two.replace('\n', "\r\n"), "Node of v1, Service of v1");
    check(&format!("\u{feff}{two}"), "Node of v1, Service of v1");
    for bytes in [u16::to_le_bytes, u16::to_be_bytes] {
        let file: Vec<u8> = format!("\u{feff}{two}").encode_utf16().flat_map(bytes).collect();
        assert_eq!(read(&file), read(two.as_bytes()));
    }
    check(r#"{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a"}}]}"#, "Pod of v1");
    // As in a dump of kubectl.
    check(r#"{"kind":"PodList","apiVersion":"v1","items":null}"#, "");
    let listed = |text: &str| read_contents(text.as_bytes()).unwrap().listed;
    let empty = listed(r#"{"kind":"PodList","apiVersion":"v1","items":[]}"#);
    assert_eq!(Vec::from_iter(empty), ["Pod of v1"]);
    assert_eq!(listed(two).len(), 0);
    let json = r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"a"}}"#;
    check(&format!("{json}\n{json}"), "Node of v1, Node of v1");
    check(&format!("{json}\n---\n{two}"), "Node of v1, Node of v1, Service of v1");
    check("", "");
    check("# only a comment\n---\n", "");
    // A server decides if an object needs a name.
    check("apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: c-}", "Job of batch/v1");
    check("apiVersion: x.io/v1\nkind: AllowList\nmetadata: {name: c}", "AllowList of x.io/v1");
}

#[test]
fn what_is_no_manifest_is_named() {
    let errors = [
        "{\"kind\":\n ",
        "kind: Node\nmetadata: {name: [}\n",
        "kind: Node\n\tname: a\n",
        "kind: Node\n---\nkind: [a\n",
        "kind: Node\nkind: Pod\n",
        "kind: Node\n",
        "apiVersion: v1\nmetadata: {name: a}\n",
        "{\"kind\":\"List\",\"apiVersion\":\"v1\"}",
        "just words",
        "[{}]",
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: {{ .Values.name }}\n",
        "{{- if .Values.service }}\nkind: Service\n{{- end }}\n",
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n",
        "namePrefix: x-\nresources:\n- deployment.yaml\n",
    ]
    .map(|text| kinds_of(text).unwrap_err());
    assert!(errors.iter().all(|error| !error.contains('\n')));
    insta::assert_snapshot!(errors.join("\n"), @r#"
        line 2: this is not JSON: EOF while parsing a value
        line 2: this is not YAML: mismatched bracket '[' closed by '}'
        line 1: this is not YAML: while scanning a plain scalar, found a tab
        line 3: this is not YAML: unclosed bracket '['
        line 2: the key "kind" is already set above
        this object lacks apiVersion; its fields are "kind"
        this object lacks kind; its fields are "apiVersion", "metadata"
        a List needs items
        this object lacks apiVersion and kind; it has no fields
        this object lacks apiVersion and kind; it has no fields
        line 4: `{{` begins an action of a template; take what `helm template` prints
        line 1: `{{` begins an action of a template; take what `helm template` prints
        this is a file of Kustomize, not an object; take what `kubectl kustomize FOLDER` prints
        this is a file of Kustomize, not an object; take what `kubectl kustomize FOLDER` prints
        "#);
}

#[test]
fn what_is_no_text_is_named() {
    let want = "this is not text in UTF-8, nor in UTF-16 with its mark at the start";
    // The second has an odd number of bytes, and the third half of a pair.
    for file in [&b"kind: \xc3\x28"[..], b"\xff\xfek\0i", b"\xff\xfe\0\xd8"] {
        assert_eq!(read(file).unwrap_err().to_string(), want);
    }
}

#[test]
fn a_long_text_is_read_and_repetition_is_limited() {
    // More nodes than the parser takes by default.
    let many = format!("kind: Long\napiVersion: v1\nitems:\n{}", "- 1\n".repeat(250_001));
    assert_eq!(read(many.as_bytes()).unwrap()[0].value["items"].as_array().unwrap().len(), 250_001);
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let of = format!("*a{}", level - 1);
        bomb += &format!("a{level}: &a{level} [{}]\n", vec![of; 10].join(", "));
    }
    assert!(matches!(read(bomb.as_bytes()), Err(ManifestError::Syntax { .. })));
}

fn created(object: Value) -> Result<Value, String> {
    let resource = resource::by_kind(object.text("apiVersion"), object.text("kind")).unwrap();
    create(resource, object).map_err(|status| Refusal(&status).to_string())
}

#[test]
fn an_object_gets_the_defaults_and_keeps_its_status() {
    let service = created(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {}, "ipFamilyPolicy": "PreferDualStack", "ports": [{"port": 80, "targetPort": ""}]}}));
    let service = service.unwrap();
    assert_eq!(service["metadata"]["namespace"], "default");
    assert_eq!(
        service["spec"],
        json!({"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack", "type": "ClusterIP",
            "internalTrafficPolicy": "Cluster", "sessionAffinity": "None",
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]})
    );
    let pod = created(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"},
        "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]},
        "status": {"podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}}));
    let pod = pod.unwrap();
    assert_eq!(pod["spec"]["containers"][0]["ports"][0]["protocol"], "TCP");
    assert_eq!(pod["status"]["podIPs"], json!([{"ip": "10.0.0.1"}]));
    assert_eq!((&pod["status"]["phase"], pod["metadata"].has("resourceVersion")), (&json!("Pending"), false));
    let node = created(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}}));
    assert_eq!(node.unwrap()["status"]["conditions"][0]["status"], "True");
}

#[test]
fn what_a_server_refuses_is_refused_in_its_words() {
    let refused = |object: Value| created(object).unwrap_err();
    let service = |name: &str, ports: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": ports}});
    insta::assert_snapshot!(
        [
            refused(service("x", json!([{"port": 70000, "targetPort": 80}]))),
            refused(service("X", json!([{"port": 1}, {"port": 1}]))),
            refused(service("x", json!("80"))),
            refused(service("x", json!([{"port": 80, "prot": "TCP"}]))),
            refused(json!({"apiVersion": "v1", "kind": "Pod"})),
            refused(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                "spec": {"containers": [{"name": "c", "image": "i"}]}, "status": {"podIP": "10.0.0.256"}})),
        ]
        .join("\n"),
        @r#"
        The Service "x" is invalid: spec.ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive
        The Service "X" is invalid: 
        * metadata.name: Invalid value: "X": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
        * spec.ports[0].name: Required value
        * spec.ports[1].name: Required value
        * spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":1,"TargetPort":0,"NodePort":0}
        Service in version "v1" cannot be handled as a Service: json: cannot unmarshal string into Go struct field ServiceSpec.spec.ports of type []v1.ServicePort
        Service in version "v1" cannot be handled as a Service: strict decoding error: unknown field "spec.ports[0].prot"
        The Pod "" is invalid: 
        * metadata.name: Required value: name or generateName is required
        * spec.containers: Required value
        The Pod "p" is invalid: status.podIPs[0]: Invalid value: "10.0.0.256": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
        "#
    );
}
