#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Puts ONNX Runtime into the cache, to build the plug-in (ort/) and to test it: the C headers from Debian's unstable
# suite, which has the first version with the plug-in interface, and the library of the same version from the npm
# registry, because Debian's own needs a newer C library than Debian 12 has. Nothing else of the project needs either.
# Prints the path of an env file: ORT_VERSION, ORT_INCLUDE (folder of headers), ORT_LIBRARY (folder of
# libonnxruntime.so.1), ORT_PROVIDERS (folder of the library that it loads for plug-ins, which the registry's package
# does not have), ORT_NODE_MODULES (for JavaScript).
#
#   onnxruntime.sh        fetch what is missing, print the env file's path
#   onnxruntime.sh --env  only print the path; fails where there is none

NPU_STEP=onnxruntime
NPU_APT_SUITE=sid
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

# The pair: the version of both, that of Debian's packages with the SHA-256 of their archives, and the SHA-512 of the
# archives in the registry.
VERSION=1.23.2
DEBIAN=1.23.2+dfsg-6.1
HEADERS_SHA256=4630a94adb36dc056feb124e51c6e952e2cab5188bc093a25bee8a7e1ac5196d
PROVIDERS_SHA256=fd45bc8f62f9063f99463d9ae5e80cf30cf44ef6d16cbb260371db053a9b4d4a
NODE_SHA512=OBTsG0W8ddBVOeVVVychpVBS87A9YV5sa2hJ6lc025T97Le+J4v++PwSC4XFs1C62SWyNdof0Mh4KvnZgtt4aw==
COMMON_SHA512=5LFsC9Dukzp2WV6kNHYLNzp8sT6V02IubLCbzw2Xd6X5GOlr65gAX6xiJwyi2URJol/s71gaQLC5F2C25AAR2w==

ROOT=$NPU_CACHE/onnxruntime/$VERSION
INCOMING=$NPU_CACHE/onnxruntime/incoming

same_sum() { # WHAT FOUND EXPECTED
    [ "$2" = "$3" ] || die "wrong checksum of $1: $2" "expected: $3; nothing of it is used"
}

# fetch_deb PACKAGE SHA256 WHAT
fetch_deb() {
    local deb
    apt_refresh
    mkdir -p "$INCOMING/$1"
    say "downloading $1 $DEBIAN ($3) from Debian's unstable suite"
    (cd "$INCOMING/$1" && apt_private download "$1=$DEBIAN" </dev/null) ||
        die "Debian's unstable suite does not have $1 $DEBIAN any more" \
            "it has: $(apt_ask madison "$1" | awk -F' *[|] *' '{ print $2 }' | xargs)" \
            "$0 has the version and the sums; the headers of a later one will do (docs/onnxruntime.md)"
    deb=$(echo "$INCOMING/$1"/*.deb)
    same_sum "$deb" "$(sha256sum "$deb" | cut -d' ' -f1)" "$2"
    dpkg-deb -x "$deb" "$INCOMING/root"
}

# fetch_npm PACKAGE SHA512 MEMBER...: these parts of a package's archive; none of its scripts is run.
fetch_npm() {
    local package=$1 sum=$2 archive
    shift 2
    mkdir -p "$INCOMING/npm" "$INCOMING/root/node_modules/$package"
    say "downloading $package $VERSION from the npm registry"
    archive=$(cd "$INCOMING/npm" && npm pack --silent --ignore-scripts "$package@$VERSION" </dev/null) ||
        die "cannot download $package $VERSION by npm" "is there a network, and a registry (npm config get registry)?"
    archive=$INCOMING/npm/$archive
    same_sum "$archive" "$(openssl dgst -sha512 -binary "$archive" | base64 -w0)" "$sum"
    tar -C "$INCOMING/root/node_modules/$package" --strip-components=1 -xzf "$archive" "${@/#/package/}"
}

fetch() {
    need_program openssl
    command -v npm >/dev/null || die "npm is not installed" "run: make setup"
    rm -rf "$INCOMING"
    fetch_deb libonnxruntime-dev "$HEADERS_SHA256" "headers of the plug-in interface"
    fetch_deb libonnxruntime-providers "$PROVIDERS_SHA256" "what ONNX Runtime loads for plug-ins"
    mkdir "$INCOMING/root/providers"
    mv "$INCOMING"/root/usr/lib/*/libonnxruntime_providers_shared.so "$INCOMING/root/providers/"
    fetch_npm onnxruntime-node "$NODE_SHA512" package.json dist bin/napi-v6/linux/x64
    fetch_npm onnxruntime-common "$COMMON_SHA512" package.json dist
    rm -rf "$ROOT"
    mv "$INCOMING/root" "$ROOT"
    rm -rf "$INCOMING"
    cat >"$ROOT/npu.env" <<ENV
ORT_VERSION=$VERSION
ORT_INCLUDE=$ROOT/usr/include/onnxruntime
ORT_LIBRARY=$ROOT/node_modules/onnxruntime-node/bin/napi-v6/linux/x64
ORT_PROVIDERS=$ROOT/providers
ORT_NODE_MODULES=$ROOT/node_modules
ENV
    say "ONNX Runtime $VERSION is in $ROOT"
}

main() {
    if [ ! -e "$ROOT/npu.env" ]; then
        [ "${1:-}" != --env ] || die "ONNX Runtime is not in the cache" "run: make onnxruntime"
        cache_lock onnxruntime
        [ -e "$ROOT/npu.env" ] || fetch
    fi
    echo "$ROOT/npu.env"
}

main "$@"
