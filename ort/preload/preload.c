/* SPDX-License-Identifier: MIT */
/*
 * libqnpu_ort.so: for hosts of ONNX Runtime that cannot name a plug-in, as its binding for Node.js and servers with a
 * list of providers of their own. It stands in front of OrtGetApiBase(), loaded before the host with LD_PRELOAD or
 * RTLD_GLOBAL. Sessions that the host makes with CreateSession and CreateSessionFromArray, or with the forms of these
 * that take a container of prepacked weights, get the QNPU provider behind those that the host asks for. Everything
 * else is ONNX Runtime's own.
 *
 * QNPU_ORT_OPTIONS="cores=2;cache=/var/cache/qnpu" has options of the provider; device=N chooses the card.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <onnxruntime_c_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define PROVIDER "QNPUExecutionProvider"
#define DEVICE_ENTRY "ep.qnpuexecutionprovider.device" /* among a session's own */
#define CARD_KEY "qnpu_device"                         /* in the metadata of an OrtEpDevice: the number of its card */
#define ABI 23
#define MAX_OPTIONS 16
/* More than the functions that any version has; the table of a later version than the headers' is longer than OrtApi.
 */
#define TABLE_BYTES 8192

static const OrtApiBase *base; /* ONNX Runtime's */
static const OrtApi *api;      /* of version ABI */
static OrtApiBase own_base;
/* Guards what is above and the tables. Nothing else is called while it is held: ONNX Runtime and the dynamic linker
 * come back to OrtGetApiBase(), and may wait for a thread that is there. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Held while the provider is registered, so that it happens once. */
static pthread_mutex_t registering = PTHREAD_MUTEX_INITIALIZER;

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

/* Why the plug-in has no card; what was loaded of it stays. */
static OrtStatus *no_card(const char *plugin) {
  void *library = dlopen(plugin, RTLD_LAZY | RTLD_NOLOAD);
  const char *(*reason)(void) = NULL;
  char text[PATH_MAX];

  if (library) *(void **)&reason = dlsym(library, "qnpu_ep_no_card");
  snprintf(text, sizeof(text), "QNPU: libqnpu_ort.so is loaded, and there is no NPU%s%s", reason ? ": " : "",
           reason ? reason() : "");
  return api->CreateStatus(ORT_EP_FAIL, text);
}

/* The device of the card with this number, or the first where it is NULL; *cards is how many the provider has. */
static OrtStatus *choose_device(OrtEnv *env, const char *card, const OrtEpDevice **device, size_t *cards) {
  const OrtEpDevice *const *devices;
  const char *number;
  OrtStatus *status;
  size_t count;

  *device = NULL;
  *cards = 0;
  status = api->GetEpDevices(env, &devices, &count);
  if (status) return status;
  for (size_t i = 0; i < count; i++) {
    if (strcmp(api->EpDevice_EpName(devices[i]), PROVIDER) != 0) continue;
    ++*cards;
    number = api->GetKeyValue(api->EpDevice_EpMetadata(devices[i]), CARD_KEY);
    if (!*device && (!card || (number && strcmp(number, card) == 0))) *device = devices[i];
  }
  return NULL;
}

/* The same, of the provider that is registered if it is not yet. It is an error if there is no such device. */
static OrtStatus *find_device(OrtEnv *env, const char *card, const OrtEpDevice **device) {
  char text[PATH_MAX];
  OrtStatus *status;
  size_t cards;

  pthread_mutex_lock(&registering);
  status = choose_device(env, card, device, &cards);
  if (!status && cards == 0) {
    load_bridge();
    beside("libqnpu_ep.so", text);
    status = api->RegisterExecutionProviderLibrary(env, PROVIDER, text);
    if (!status) status = choose_device(env, card, device, &cards);
  }
  pthread_mutex_unlock(&registering);
  if (status || *device) return status;
  if (cards == 0) return beside("libqnpu_ep.so", text), no_card(text);
  snprintf(text, sizeof(text), "QNPU: option device=%.40s: the number of a card from 0 to %zu is expected", card,
           cards - 1);
  return api->CreateStatus(ORT_INVALID_ARGUMENT, text);
}

/* Options as the provider gets them. */
struct given {
  char *text; /* has all of them */
  const char *keys[MAX_OPTIONS], *values[MAX_OPTIONS];
  size_t count;
};

/* Reads $QNPU_ORT_OPTIONS; the caller frees the text. False: it has no such form. */
static bool read_options(struct given *given) {
  const char *text = getenv("QNPU_ORT_OPTIONS");
  char *save = NULL, *equals;

  *given = (struct given){.text = strdup(text ? text : "")};
  if (!given->text) return false;
  for (char *item = strtok_r(given->text, ";", &save); item; item = strtok_r(NULL, ";", &save)) {
    equals = strchr(item, '=');
    if (!equals || given->count == MAX_OPTIONS) return false;
    *equals = '\0';
    given->keys[given->count] = item;
    given->values[given->count++] = equals + 1;
  }
  return true;
}

/* The card that is asked for, in $QNPU_ORT_OPTIONS or else among the session's entries; NULL where none is. */
static OrtStatus *find_card(const struct given *given, const OrtSessionOptions *options, char entry[64],
                            const char **card) {
  OrtStatus *status;
  size_t size = 64;
  int has = 0;

  *card = NULL;
  for (size_t i = 0; i < given->count; i++)
    if (strcmp(given->keys[i], "device") == 0) *card = given->values[i];
  if (*card) return NULL;
  status = api->HasSessionConfigEntry(options, DEVICE_ENTRY, &has);
  if (!status && has) status = api->GetSessionConfigEntry(options, DEVICE_ENTRY, entry, &size);
  if (!status && has) *card = entry;
  return status;
}

/* Adds the provider to a session's options. */
static OrtStatus *add_provider(OrtEnv *env, const struct given *given, OrtSessionOptions *options) {
  const OrtEpDevice *device = NULL;
  char entry[64];
  const char *card;
  OrtStatus *status = find_card(given, options, entry, &card);

  if (!status) status = find_device(env, card, &device);
  if (status) return status;
  return api->SessionOptionsAppendExecutionProvider_V2(options, env, &device, 1, given->keys, given->values,
                                                       given->count);
}

/* A copy of a session's options with the provider; the caller releases it. */
static OrtStatus *with_provider(const OrtEnv *env, const OrtSessionOptions *options, OrtSessionOptions **out) {
  struct given given;
  OrtStatus *status;

  if (!read_options(&given)) {
    status = api->CreateStatus(ORT_INVALID_ARGUMENT, "QNPU_ORT_OPTIONS: NAME=VALUE;..., at most 16, is expected");
  } else {
    status = options ? api->CloneSessionOptions(options, out) : api->CreateSessionOptions(out);
    if (!status) {
      status = add_provider((OrtEnv *)env, &given, *out);
      if (status) api->ReleaseSessionOptions(*out);
    }
  }
  free(given.text);
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

static OrtStatus *ORT_API_CALL create_session_prepacked(const OrtEnv *env, const ORTCHAR_T *path,
                                                        const OrtSessionOptions *options,
                                                        OrtPrepackedWeightsContainer *weights, OrtSession **session) {
  OrtSessionOptions *more;
  OrtStatus *status = with_provider(env, options, &more);

  if (status) return status;
  status = api->CreateSessionWithPrepackedWeightsContainer(env, path, more, weights, session);
  api->ReleaseSessionOptions(more);
  return status;
}

static OrtStatus *ORT_API_CALL create_session_from_array_prepacked(const OrtEnv *env, const void *model, size_t bytes,
                                                                   const OrtSessionOptions *options,
                                                                   OrtPrepackedWeightsContainer *weights,
                                                                   OrtSession **session) {
  OrtSessionOptions *more;
  OrtStatus *status = with_provider(env, options, &more);

  if (status) return status;
  status = api->CreateSessionFromArrayWithPrepackedWeightsContainer(env, model, bytes, more, weights, session);
  api->ReleaseSessionOptions(more);
  return status;
}

/* ---- the interface that the host sees ---- */

static const OrtApi *own_table(const OrtApi *real) {
  struct range range = {.at = (uintptr_t)real};
  const OrtApi *found = NULL;
  OrtApi *own;

  dl_iterate_phdr(find_end, &range);
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]) && !found; i++) {
    if (tables[i].real && tables[i].real != real) continue;
    own = (OrtApi *)tables[i].own;
    found = own;
    if (tables[i].real) break;
    memcpy(own, real, range.bytes > TABLE_BYTES ? TABLE_BYTES : range.bytes);
    own->CreateSession = create_session;
    own->CreateSessionFromArray = create_session_from_array;
    own->CreateSessionWithPrepackedWeightsContainer = create_session_prepacked;
    own->CreateSessionFromArrayWithPrepackedWeightsContainer = create_session_from_array_prepacked;
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
  const OrtApiBase *real;
  const OrtApi *real_api;
  bool known;

  pthread_mutex_lock(&lock);
  known = base != NULL;
  pthread_mutex_unlock(&lock);
  if (known) return &own_base;
  real = real_base();
  if (!real) {
    fprintf(stderr, "libqnpu_ort.so: no libonnxruntime.so is loaded\n");
    return NULL;
  }
  real_api = real->GetApi(ABI);
  if (!real_api)
    fprintf(stderr, "libqnpu_ort.so: ONNX Runtime %s has no plug-ins, 1.23 or later is expected\n",
            real->GetVersionString());
  pthread_mutex_lock(&lock);
  if (!base) {
    api = real_api;
    own_base = (OrtApiBase){.GetApi = get_api, .GetVersionString = real->GetVersionString};
    base = real;
  }
  pthread_mutex_unlock(&lock);
  return &own_base;
}

/* So that Node.js takes the library with process.dlopen(). */
EXPORT void *napi_register_module_v1(void *env, void *exports) {
  (void)env;
  return exports;
}
