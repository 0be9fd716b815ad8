#!/bin/sh
# rustdoc that accepts the options which stable Rust does not have. Cargo starts it as RUSTDOC. If cargo itself had RUSTC_BOOTSTRAP, it would
# compile every dependency again.
exec env RUSTC_BOOTSTRAP=1 rustdoc "$@"
