/* SPDX-License-Identifier: MIT */
#include "session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The version of the plug-in interface; later headers have later ones. */
#define ABI 23

const OrtApi *ort;
OrtEnv *env;
const OrtEpDevice *npu;

void must(OrtStatus *status) {
  if (!status) return;
  fprintf(stderr, "unexpected failure: %s\n", ort->GetErrorMessage(status));
  exit(1);
}

const char *failure(OrtStatus *status) {
  static _Thread_local char text[2048];

  if (!status) return NULL;
  snprintf(text, sizeof(text), "%s", ort->GetErrorMessage(status));
  ort->ReleaseStatus(status);
  return text;
}

void open_runtime(const char *plugin) {
  const OrtEpDevice *const *devices;
  size_t count;

  ort = OrtGetApiBase()->GetApi(ABI);
  if (!ort) {
    fprintf(stderr, "this ONNX Runtime has no interface for plug-ins\n");
    exit(1);
  }
  /* For whoever looks why a node is not on the NPU. */
  must(ort->CreateEnv(getenv("ORT_TEST_VERBOSE") ? ORT_LOGGING_LEVEL_INFO : ORT_LOGGING_LEVEL_ERROR, "test", &env));
  if (!plugin) return;
  must(ort->RegisterExecutionProviderLibrary(env, PROVIDER, plugin));
  must(ort->GetEpDevices(env, &devices, &count));
  for (size_t i = 0; i < count && !npu; i++)
    if (strcmp(ort->EpDevice_EpName(devices[i]), PROVIDER) == 0) npu = devices[i];
}

void close_runtime(void) {
  if (npu) must(ort->UnregisterExecutionProviderLibrary(env, PROVIDER));
  ort->ReleaseEnv(env);
}

OrtSessionOptions *make_options(bool with_npu, const struct setting *own) {
  const char *keys[16], *values[16];
  OrtSessionOptions *options;
  size_t count = 0;

  must(ort->CreateSessionOptions(&options));
  must(ort->SetIntraOpNumThreads(options, 1));
  if (!with_npu) return options;
  for (; own && own[count].key; count++) {
    keys[count] = own[count].key;
    values[count] = own[count].value;
  }
  must(ort->SessionOptionsAppendExecutionProvider_V2(options, env, &npu, 1, keys, values, count));
  return options;
}

OrtSessionOptions *npu_alone(void) {
  OrtSessionOptions *options = make_options(true, NULL);

  must(ort->AddSessionConfigEntry(options, "session.disable_cpu_ep_fallback", "1"));
  return options;
}

OrtStatus *make_session(const char *model, OrtSessionOptions *options, OrtSession **session) {
  OrtStatus *status = ort->CreateSession(env, model, options, session);

  ort->ReleaseSessionOptions(options);
  return status;
}

static unsigned int next_number(unsigned int *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

OrtValue *make_input(OrtSession *session, size_t index, unsigned int *state, int64_t open) {
  const OrtTensorTypeAndShapeInfo *tensor;
  ONNXTensorElementDataType type;
  OrtAllocator *allocator;
  int64_t dims[8];
  OrtTypeInfo *info;
  size_t rank, count = 1;
  OrtValue *value;
  void *data;

  must(ort->SessionGetInputTypeInfo(session, index, &info));
  must(ort->CastTypeInfoToTensorInfo(info, &tensor));
  must(ort->GetTensorElementType(tensor, &type));
  must(ort->GetDimensionsCount(tensor, &rank));
  must(ort->GetDimensions(tensor, dims, rank));
  ort->ReleaseTypeInfo(info);
  for (size_t i = 0; i < rank; i++) {
    if (dims[i] < 0) dims[i] = open;
    count *= (size_t)dims[i];
  }
  must(ort->GetAllocatorWithDefaultOptions(&allocator));
  must(ort->CreateTensorAsOrtValue(allocator, dims, rank, type, &value));
  must(ort->GetTensorMutableData(value, &data));
  for (size_t i = 0; i < count; i++) {
    const unsigned int n = next_number(state);

    if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64)
      ((int64_t *)data)[i] = n % 8;
    else if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL)
      ((bool *)data)[i] = n % 2;
    else if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT)
      ((float *)data)[i] = (float)n / (1 << 23) - 1;
    else
      must(ort->CreateStatus(ORT_FAIL, "an input's type has no random numbers"));
  }
  return value;
}

static void keep_output(OrtValue *value, struct results *out) {
  OrtTensorTypeAndShapeInfo *info;
  const void *data;

  must(ort->GetTensorTypeAndShape(value, &info));
  must(ort->GetTensorElementType(info, &out->of[out->count].type));
  must(ort->GetTensorShapeElementCount(info, &out->of[out->count].elements));
  ort->ReleaseTensorTypeAndShapeInfo(info);
  must(ort->GetTensorSizeInBytes(value, &out->of[out->count].bytes));
  must(ort->GetTensorData(value, &data));
  out->of[out->count].data = malloc(out->of[out->count].bytes + 1);
  memcpy(out->of[out->count].data, data, out->of[out->count].bytes);
  out->count++;
}

OrtStatus *try_run(OrtSession *session, unsigned int seed, int64_t open, struct results *out) {
  char *in_names[MAX_TENSORS], *out_names[MAX_TENSORS];
  OrtValue *inputs[MAX_TENSORS], *outputs[MAX_TENSORS] = {NULL};
  OrtAllocator *allocator;
  size_t ins, outs;
  OrtStatus *status;

  out->count = 0;
  must(ort->GetAllocatorWithDefaultOptions(&allocator));
  must(ort->SessionGetInputCount(session, &ins));
  must(ort->SessionGetOutputCount(session, &outs));
  for (size_t i = 0; i < ins; i++) {
    must(ort->SessionGetInputName(session, i, allocator, &in_names[i]));
    inputs[i] = make_input(session, i, &seed, open);
  }
  for (size_t i = 0; i < outs; i++) must(ort->SessionGetOutputName(session, i, allocator, &out_names[i]));
  status = ort->Run(session, NULL, (const char *const *)in_names, (const OrtValue *const *)inputs, ins,
                    (const char *const *)out_names, outs, outputs);
  for (size_t i = 0; i < outs; i++) {
    if (outputs[i]) keep_output(outputs[i], out);
    ort->ReleaseValue(outputs[i]);
    must(ort->AllocatorFree(allocator, out_names[i]));
  }
  for (size_t i = 0; i < ins; i++) {
    ort->ReleaseValue(inputs[i]);
    must(ort->AllocatorFree(allocator, in_names[i]));
  }
  return status;
}

void run(OrtSession *session, unsigned int seed, int64_t open, struct results *out) {
  must(try_run(session, seed, open, out));
}

void free_results(struct results *r) {
  for (size_t i = 0; i < r->count; i++) free(r->of[i].data);
  r->count = 0;
}

static bool same_floats(const float *a, const float *b, size_t count, float tolerance) {
  for (size_t i = 0; i < count; i++) {
    if (fabsf(a[i] - b[i]) <= tolerance * (1 + fabsf(a[i]))) continue;
    fprintf(stderr, "element %zu: %g and %g\n", i, (double)a[i], (double)b[i]);
    return false;
  }
  return true;
}

bool same_results(const struct results *a, const struct results *b, float tolerance) {
  if (a->count != b->count || a->count == 0) return false;
  for (size_t i = 0; i < a->count; i++) {
    if (a->of[i].type != b->of[i].type || a->of[i].bytes != b->of[i].bytes || a->of[i].bytes == 0) {
      fprintf(stderr, "output %zu: type %d, %zu bytes, and type %d, %zu bytes\n", i, (int)a->of[i].type, a->of[i].bytes,
              (int)b->of[i].type, b->of[i].bytes);
      return false;
    }
    if (a->of[i].type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) {
      if (!same_floats(a->of[i].data, b->of[i].data, a->of[i].elements, tolerance)) return false;
    } else if (memcmp(a->of[i].data, b->of[i].data, a->of[i].bytes) != 0) {
      fprintf(stderr, "output %zu differs\n", i);
      return false;
    }
  }
  return true;
}
