/* SPDX-License-Identifier: MIT */
#include "fake_onnxruntime.h"

#include <onnxruntime_c_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROVIDER "QNPUExecutionProvider"
#define ENTRY "ep.qnpuexecutionprovider.device"

struct fake_session fake_last;
int fake_registered;

struct OrtStatus {
  char text[512];
};
struct OrtEpDevice {
  const char *name, *card;
};
struct OrtSessionOptions {
  char entry[64];
  struct fake_session session;
};

static const struct OrtEpDevice devices[] = {{"CPUExecutionProvider", NULL}, {PROVIDER, "0"}, {PROVIDER, "1"}};
static const struct OrtEpDevice *const list[] = {&devices[0], &devices[1], &devices[2]};

static OrtStatus *create_status(OrtErrorCode code, const char *text) {
  OrtStatus *status = calloc(1, sizeof(*status));

  (void)code;
  snprintf(status->text, sizeof(status->text), "%s", text);
  return status;
}

static const char *get_error_message(const OrtStatus *status) { return status->text; }
static void release_status(OrtStatus *status) { free(status); }

static OrtStatus *get_ep_devices(const OrtEnv *env, const OrtEpDevice *const **out, size_t *count) {
  (void)env;
  *out = list;
  *count = fake_registered ? 3 : 1;
  return NULL;
}

static const char *ep_name(const OrtEpDevice *device) { return device->name; }
static const OrtKeyValuePairs *ep_metadata(const OrtEpDevice *device) { return (const OrtKeyValuePairs *)device; }

static const char *get_key_value(const OrtKeyValuePairs *pairs, const char *key) {
  return strcmp(key, "qnpu_device") == 0 ? ((const struct OrtEpDevice *)pairs)->card : NULL;
}

/* Through the PLT, as a library does that is not linked with -Bsymbolic. */
static OrtStatus *register_library(OrtEnv *env, const char *name, const ORTCHAR_T *path) {
  (void)env;
  (void)name;
  if (!OrtGetApiBase()->GetApi(23)) return create_status(ORT_FAIL, "no interface");
  if (!strstr(path, "/libqnpu_ep.so")) return create_status(ORT_FAIL, path);
  fake_registered++;
  return NULL;
}

static OrtStatus *create_options(OrtSessionOptions **out) {
  *out = calloc(1, sizeof(**out));
  (*out)->session.card = -1;
  return NULL;
}

static OrtStatus *clone_options(const OrtSessionOptions *from, OrtSessionOptions **out) {
  *out = malloc(sizeof(**out));
  memcpy(*out, from, sizeof(**out));
  return NULL;
}

static void release_options(OrtSessionOptions *options) { free(options); }

static OrtStatus *add_entry(OrtSessionOptions *options, const char *key, const char *value) {
  if (strcmp(key, ENTRY) != 0) return create_status(ORT_FAIL, key);
  snprintf(options->entry, sizeof(options->entry), "%s", value);
  return NULL;
}

static OrtStatus *has_entry(const OrtSessionOptions *options, const char *key, int *out) {
  *out = strcmp(key, ENTRY) == 0 && options->entry[0];
  return NULL;
}

static OrtStatus *get_entry(const OrtSessionOptions *options, const char *key, char *value, size_t *size) {
  (void)key;
  snprintf(value, *size, "%s", options->entry);
  return NULL;
}

static OrtStatus *append_provider(OrtSessionOptions *options, OrtEnv *env, const OrtEpDevice *const *given,
                                  size_t count, const char *const *keys, const char *const *values, size_t number) {
  (void)env;
  (void)keys;
  if (count != 1) return create_status(ORT_FAIL, "one device is expected");
  options->session.card = atoi(given[0]->card);
  options->session.options = number;
  if (number) snprintf(options->session.last, sizeof(options->session.last), "%s", values[number - 1]);
  return NULL;
}

static OrtStatus *make(const char *how, const OrtSessionOptions *options, OrtSession **out) {
  fake_last = options->session;
  snprintf(fake_last.how, sizeof(fake_last.how), "%s", how);
  *out = NULL;
  return NULL;
}

static OrtStatus *create_session(const OrtEnv *env, const ORTCHAR_T *path, const OrtSessionOptions *options,
                                 OrtSession **out) {
  (void)env;
  (void)path;
  return make("path", options, out);
}

static OrtStatus *create_from_array(const OrtEnv *env, const void *model, size_t bytes,
                                    const OrtSessionOptions *options, OrtSession **out) {
  (void)env;
  (void)model;
  (void)bytes;
  return make("array", options, out);
}

static OrtStatus *create_prepacked(const OrtEnv *env, const ORTCHAR_T *path, const OrtSessionOptions *options,
                                   OrtPrepackedWeightsContainer *weights, OrtSession **out) {
  (void)env;
  (void)path;
  (void)weights;
  return make("path, weights", options, out);
}

static OrtStatus *create_from_array_prepacked(const OrtEnv *env, const void *model, size_t bytes,
                                              const OrtSessionOptions *options, OrtPrepackedWeightsContainer *weights,
                                              OrtSession **out) {
  (void)env;
  (void)model;
  (void)bytes;
  (void)weights;
  return make("array, weights", options, out);
}

static const OrtApi table = {
    .CreateStatus = create_status,
    .GetErrorMessage = get_error_message,
    .ReleaseStatus = release_status,
    .GetEpDevices = get_ep_devices,
    .EpDevice_EpName = ep_name,
    .EpDevice_EpMetadata = ep_metadata,
    .GetKeyValue = get_key_value,
    .RegisterExecutionProviderLibrary = register_library,
    .CreateSessionOptions = create_options,
    .CloneSessionOptions = clone_options,
    .ReleaseSessionOptions = release_options,
    .AddSessionConfigEntry = add_entry,
    .HasSessionConfigEntry = has_entry,
    .GetSessionConfigEntry = get_entry,
    .SessionOptionsAppendExecutionProvider_V2 = append_provider,
    .CreateSession = create_session,
    .CreateSessionFromArray = create_from_array,
    .CreateSessionWithPrepackedWeightsContainer = create_prepacked,
    .CreateSessionFromArrayWithPrepackedWeightsContainer = create_from_array_prepacked,
};

static const OrtApi *get_api(uint32_t version) { return version <= 23 ? &table : NULL; }
static const char *version_string(void) { return "1.23.0"; }

__attribute__((visibility("default"))) const OrtApiBase *OrtGetApiBase(void) {
  static const OrtApiBase base = {.GetApi = get_api, .GetVersionString = version_string};

  return &base;
}
