/* SPDX-License-Identifier: MIT */
/*
 * A stand-in for libonnxruntime_providers_shared.so, where a package of ONNX Runtime does not have it: it keeps what
 * ONNX Runtime gives to providers of the kind that is no plug-in. There are none then.
 */
#define EXPORT __attribute__((visibility("default")))

static void *host;

EXPORT void Provider_SetHost(void *p) { host = p; }
EXPORT void *Provider_GetHost(void) { return host; }
