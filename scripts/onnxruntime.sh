#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Puts ONNX Runtime into the cache, to build the plug-in (ort/) and to test it: the C headers from Debian's unstable
# suite, which has the first version with the plug-in interface, and the library of the same version from the npm
# registry, because Debian's own needs a newer C library than Debian 12 has. Nothing else of the project needs either.
# Beside it, to test with: a newer library, which has what is not in that version yet.
#
# Prints the path of an env file: ORT_VERSION, ORT_INCLUDE (folder of headers), ORT_LIBRARY (folder of
# libonnxruntime.so.1), ORT_PROVIDERS (folder of the library that it loads for plug-ins, which the registry's package
# does not have), ORT_NODE_MODULES (for JavaScript); ORT_NEWER_LIBRARY and ORT_NEWER_NODE_MODULES.
#
# The status is 75 where an archive cannot be fetched, 1 for everything else.
#
#   onnxruntime.sh        fetch what is missing, print the env file's path
#   onnxruntime.sh --env  only print the path; fails where there is none

NPU_STEP=onnxruntime
NPU_APT_SUITE=sid
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

# The version of headers and library, that of Debian's packages with the SHA-256 of their archives, and the SHA-512 of
# the archives in the registry; the same of the newer library.
VERSION=1.23.2
DEBIAN=1.23.2+dfsg-6.1
HEADERS_SHA256=4630a94adb36dc056feb124e51c6e952e2cab5188bc093a25bee8a7e1ac5196d
PROVIDERS_SHA256=fd45bc8f62f9063f99463d9ae5e80cf30cf44ef6d16cbb260371db053a9b4d4a
NODE_SHA512=OBTsG0W8ddBVOeVVVychpVBS87A9YV5sa2hJ6lc025T97Le+J4v++PwSC4XFs1C62SWyNdof0Mh4KvnZgtt4aw==
COMMON_SHA512=5LFsC9Dukzp2WV6kNHYLNzp8sT6V02IubLCbzw2Xd6X5GOlr65gAX6xiJwyi2URJol/s71gaQLC5F2C25AAR2w==
NEWER=1.30.0
NEWER_NODE_SHA512=twhs1C2C/BFkz1yc5OY0KIU2GUq6DURO7hD4bx5Q2Qy3nAMJwRXW8xU3NVczE29VA9lolLOYepoD8fjTGOfIqw==
NEWER_COMMON_SHA512=7fdVWjAID1dVhH/G8qK3APARunV4VkBFoCQAP7qp4Wkab0mrorvmc+sqiT+mKXOzDqdjN5j+/Z9nb4gzNPWcyA==

ROOT=$NPU_CACHE/onnxruntime/$VERSION-$NEWER
INCOMING=$NPU_CACHE/onnxruntime/incoming

same_sum() { # WHAT FOUND EXPECTED
    [ "$2" = "$3" ] || die "wrong checksum of $1: $2" "expected: $3; nothing of it is used"
}

# unreachable MESSAGE...: as die.
unreachable() {
    (die "$@") || exit 75
}

# fetch_deb PACKAGE SHA256 WHAT
fetch_deb() {
    local deb
    (apt_refresh) || exit 75
    mkdir -p "$INCOMING/$1"
    say "downloading $1 $DEBIAN ($3) from Debian's unstable suite"
    (cd "$INCOMING/$1" && apt_private download "$1=$DEBIAN" </dev/null) ||
        unreachable "Debian's unstable suite does not give $1 $DEBIAN" \
            "it has: $(apt_ask madison "$1" | awk -F' *[|] *' '{ print $2 }' | xargs)" \
            "$0 has the version and the sums; the headers of a later one will do (docs/reference/onnxruntime.md)"
    deb=$(echo "$INCOMING/$1"/*.deb)
    same_sum "$deb" "$(sha256sum "$deb" | cut -d' ' -f1)" "$2"
    dpkg-deb -x "$deb" "$INCOMING/tree"
}

# fetch_npm FOLDER VERSION PACKAGE SHA512 MEMBER...: these parts of a package's archive; none of its scripts is run.
fetch_npm() {
    local folder=$INCOMING/tree/$1/$3 version=$2 package=$3 sum=$4 archive
    shift 4
    mkdir -p "$INCOMING/npm" "$folder"
    say "downloading $package $version from the npm registry"
    archive=$(cd "$INCOMING/npm" && npm pack --silent --ignore-scripts "$package@$version" </dev/null) ||
        unreachable "cannot download $package $version by npm" \
            "is there a network, and a registry (npm config get registry)?"
    archive=$INCOMING/npm/$archive
    same_sum "$archive" "$(openssl dgst -sha512 -binary "$archive" | base64 -w0)" "$sum"
    tar -C "$folder" --strip-components=1 -xzf "$archive" "${@/#/package/}"
}

fetch() {
    need_program openssl
    command -v npm >/dev/null || die "npm is not installed" "run: make setup"
    rm -rf "$INCOMING"
    fetch_deb libonnxruntime-dev "$HEADERS_SHA256" "headers of the plug-in interface"
    fetch_deb libonnxruntime-providers "$PROVIDERS_SHA256" "what ONNX Runtime loads for plug-ins"
    mkdir "$INCOMING/tree/providers"
    mv "$INCOMING"/tree/usr/lib/*/libonnxruntime_providers_shared.so "$INCOMING/tree/providers/"
    fetch_npm node_modules "$VERSION" onnxruntime-node "$NODE_SHA512" package.json dist bin/napi-v6/linux/x64
    fetch_npm node_modules "$VERSION" onnxruntime-common "$COMMON_SHA512" package.json dist
    fetch_npm newer/node_modules "$NEWER" onnxruntime-node "$NEWER_NODE_SHA512" package.json dist bin/napi-v6/linux/x64
    fetch_npm newer/node_modules "$NEWER" onnxruntime-common "$NEWER_COMMON_SHA512" package.json dist
    rm -rf "$ROOT"
    mv "$INCOMING/tree" "$ROOT"
    rm -rf "$INCOMING"
    write_whole "$ROOT/npu.env" <<ENV
ORT_VERSION=$VERSION
ORT_INCLUDE=$ROOT/usr/include/onnxruntime
ORT_LIBRARY=$ROOT/node_modules/onnxruntime-node/bin/napi-v6/linux/x64
ORT_PROVIDERS=$ROOT/providers
ORT_NODE_MODULES=$ROOT/node_modules
ORT_NEWER_LIBRARY=$ROOT/newer/node_modules/onnxruntime-node/bin/napi-v6/linux/x64
ORT_NEWER_NODE_MODULES=$ROOT/newer/node_modules
ENV
    say "ONNX Runtime $VERSION and $NEWER are in $ROOT"
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
