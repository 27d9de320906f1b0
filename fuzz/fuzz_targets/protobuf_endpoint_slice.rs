#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kube_endpoint_fuzz_targets::protobuf_endpoint_slice(bytes));
