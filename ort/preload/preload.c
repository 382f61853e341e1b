/* SPDX-License-Identifier: MIT */
/*
 * libqnpu_ort.so: for hosts of ONNX Runtime that cannot name a plug-in, as its binding for Node.js and servers with a
 * list of providers of their own. It stands in front of OrtGetApiBase(), loaded before the host with LD_PRELOAD or
 * RTLD_GLOBAL, and every session that the host makes gets the QNPU provider behind those that the host asks for.
 * Everything else is ONNX Runtime's own.
 *
 * QNPU_ORT_OPTIONS="cores=2;cache=/var/cache/qnpu" has options of the provider.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <onnxruntime_c_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define PROVIDER "QNPUExecutionProvider"
#define ABI 23
#define MAX_OPTIONS 16
/* More than the functions that any version has; the table of a later version than the headers' is longer than OrtApi.
 */
#define TABLE_BYTES 8192

static const OrtApiBase *base; /* ONNX Runtime's */
static const OrtApi *api;      /* of version ABI */
static OrtApiBase own_base;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Tables that were handed out, one for each of ONNX Runtime's. */
static struct {
  const OrtApi *real;
  char own[TABLE_BYTES] __attribute__((aligned(16)));
} tables[4];

/* ---- finding ONNX Runtime ---- */

static int find_library(struct dl_phdr_info *info, size_t size, void *found) {
  const char *slash = strrchr(info->dlpi_name, '/');

  (void)size;
  if (strncmp(slash ? slash + 1 : info->dlpi_name, "libonnxruntime.so", 17) != 0) return 0;
  snprintf(found, PATH_MAX, "%s", info->dlpi_name);
  return 1;
}

static const OrtApiBase *real_base(void) {
  const OrtApiBase *(*get)(void) = NULL;
  char path[PATH_MAX];
  void *library;

  if (!dl_iterate_phdr(find_library, path)) return NULL;
  library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  if (library) *(void **)&get = dlsym(library, "OrtGetApiBase");
  return get ? get() : NULL;
}

struct range {
  uintptr_t at;
  size_t bytes;
};

static int find_end(struct dl_phdr_info *info, size_t size, void *arg) {
  struct range *range = arg;

  (void)size;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + p->p_vaddr;

    if (p->p_type != PT_LOAD || range->at < begin || range->at >= begin + p->p_memsz) continue;
    range->bytes = begin + p->p_memsz - range->at;
    return 1;
  }
  return 0;
}

/* ---- sessions ---- */

/* The path of a file in the folder of this library. */
static void beside(const char *name, char path[PATH_MAX]) {
  Dl_info info;
  const char *slash = dladdr((void *)&own_base, &info) ? strrchr(info.dli_fname, '/') : NULL;

  snprintf(path, PATH_MAX, "%.*s%s", slash ? (int)(slash - info.dli_fname + 1) : 0, slash ? info.dli_fname : "", name);
}

/* Before it looks at a plug-in, ONNX Runtime loads a library that only its older kind of providers needs. Packages
 * without such providers, as that for Node.js, do not have it; then ours has its name. */
static void load_bridge(void) {
  char path[PATH_MAX];

  if (dlopen("libonnxruntime_providers_shared.so", RTLD_NOW)) return;
  beside("providers/libonnxruntime_providers_shared.so", path);
  if (!dlopen(path, RTLD_NOW)) fprintf(stderr, "libqnpu_ort.so: %s\n", dlerror());
}

/* The first device of the provider, which is registered if it is not yet. */
static OrtStatus *find_device(OrtEnv *env, const OrtEpDevice **device) {
  const OrtEpDevice *const *devices;
  char path[PATH_MAX];
  OrtStatus *status;
  size_t count;

  *device = NULL;
  for (int round = 0; round < 2; round++) {
    status = api->GetEpDevices(env, &devices, &count);
    if (status) return status;
    for (size_t i = 0; i < count && !*device; i++)
      if (strcmp(api->EpDevice_EpName(devices[i]), PROVIDER) == 0) *device = devices[i];
    if (*device || round) break;
    load_bridge();
    beside("libqnpu_ep.so", path);
    status = api->RegisterExecutionProviderLibrary(env, PROVIDER, path);
    if (status) return status;
  }
  return *device ? NULL : api->CreateStatus(ORT_EP_FAIL, "QNPU: libqnpu_ort.so is loaded, and there is no NPU");
}

/* Splits $QNPU_ORT_OPTIONS in place; returns how many there are, -1 if one has no value. */
static int split_options(char *text, const char **keys, const char **values) {
  char *save = NULL, *equals;
  int count = 0;

  for (char *item = strtok_r(text, ";", &save); item; item = strtok_r(NULL, ";", &save)) {
    equals = strchr(item, '=');
    if (!equals || count == MAX_OPTIONS) return -1;
    *equals = '\0';
    keys[count] = item;
    values[count++] = equals + 1;
  }
  return count;
}

/* A copy of a session's options with the provider; the caller releases it. */
static OrtStatus *with_provider(const OrtEnv *env, const OrtSessionOptions *options, OrtSessionOptions **out) {
  const char *keys[MAX_OPTIONS], *values[MAX_OPTIONS], *given = getenv("QNPU_ORT_OPTIONS");
  const OrtEpDevice *device;
  char text[4096];
  OrtStatus *status;
  int count;

  snprintf(text, sizeof(text), "%s", given ? given : "");
  count = split_options(text, keys, values);
  if (count < 0) return api->CreateStatus(ORT_INVALID_ARGUMENT, "QNPU_ORT_OPTIONS: NAME=VALUE;... is expected");
  status = options ? api->CloneSessionOptions(options, out) : api->CreateSessionOptions(out);
  if (status) return status;
  pthread_mutex_lock(&lock);
  status = find_device((OrtEnv *)env, &device);
  pthread_mutex_unlock(&lock);
  if (!status)
    status =
        api->SessionOptionsAppendExecutionProvider_V2(*out, (OrtEnv *)env, &device, 1, keys, values, (size_t)count);
  if (status) api->ReleaseSessionOptions(*out);
  return status;
}

static OrtStatus *ORT_API_CALL create_session(const OrtEnv *env, const ORTCHAR_T *path,
                                              const OrtSessionOptions *options, OrtSession **session) {
  OrtSessionOptions *more;
  OrtStatus *status = with_provider(env, options, &more);

  if (status) return status;
  status = api->CreateSession(env, path, more, session);
  api->ReleaseSessionOptions(more);
  return status;
}

static OrtStatus *ORT_API_CALL create_session_from_array(const OrtEnv *env, const void *model, size_t bytes,
                                                         const OrtSessionOptions *options, OrtSession **session) {
  OrtSessionOptions *more;
  OrtStatus *status = with_provider(env, options, &more);

  if (status) return status;
  status = api->CreateSessionFromArray(env, model, bytes, more, session);
  api->ReleaseSessionOptions(more);
  return status;
}

/* ---- the interface that the host sees ---- */

static const OrtApi *own_table(const OrtApi *real) {
  struct range range = {.at = (uintptr_t)real};
  const OrtApi *found = NULL;
  OrtApi *own;

  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]) && !found; i++) {
    if (tables[i].real && tables[i].real != real) continue;
    own = (OrtApi *)tables[i].own;
    found = own;
    if (tables[i].real) break;
    dl_iterate_phdr(find_end, &range);
    memcpy(own, real, range.bytes > TABLE_BYTES ? TABLE_BYTES : range.bytes);
    own->CreateSession = create_session;
    own->CreateSessionFromArray = create_session_from_array;
    tables[i].real = real;
  }
  pthread_mutex_unlock(&lock);
  return found ? found : real;
}

static const OrtApi *ORT_API_CALL get_api(uint32_t version) {
  const OrtApi *real = base->GetApi(version);

  return real && api ? own_table(real) : real;
}

EXPORT const OrtApiBase *ORT_API_CALL OrtGetApiBase(void) {
  pthread_mutex_lock(&lock);
  if (!base) {
    base = real_base();
    api = base ? base->GetApi(ABI) : NULL;
    if (base) own_base = (OrtApiBase){.GetApi = get_api, .GetVersionString = base->GetVersionString};
  }
  pthread_mutex_unlock(&lock);
  if (!base) fprintf(stderr, "libqnpu_ort.so: no libonnxruntime.so is loaded\n");
  if (base && !api)
    fprintf(stderr, "libqnpu_ort.so: ONNX Runtime %s has no plug-ins, 1.23 or later is expected\n",
            base->GetVersionString());
  return base ? &own_base : NULL;
}

/* So that Node.js takes the library with process.dlopen(). */
EXPORT void *napi_register_module_v1(void *env, void *exports) {
  (void)env;
  return exports;
}
