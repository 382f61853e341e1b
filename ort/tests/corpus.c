/* SPDX-License-Identifier: MIT */
/*
 * Networks under ONNX Runtime: results of the plug-in against those of ONNX Runtime's own CPU provider.
 *
 * usage: ort_corpus_test PLUGIN WORK FOLDER...
 *        the library, a folder to write in, and folders as ONNX has its tests: model.onnx, and inputs in
 *        test_data_set_0/input_N.pb; where there are none, inputs are made
 *
 * Prints a line for each folder before it is begun, and a line with what became of it: corpus.py reads them.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "session.h"

#define TOLERANCE 1e-3 /* as a part of a tensor's largest element */
#define ABSOLUTE 1e-6
#define MOST 256 /* inputs, and outputs */

static const char *work;
static char reason[4096];

/* ---- inputs ---- */

/* The fields of a TensorProto that the tests use. */
struct proto {
  int64_t dims[16];
  size_t rank;
  int type;
  const uint8_t *raw;
  size_t raw_bytes;
  const char *strings[64];
  size_t lengths[64], count;
};

static bool get_varint(const uint8_t **at, const uint8_t *end, uint64_t *out) {
  *out = 0;
  for (unsigned int shift = 0; *at < end && shift < 64; shift += 7) {
    const uint8_t byte = *(*at)++;

    *out |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

/* False: it is no tensor, but a sequence or an optional, or has its elements in other fields. */
static bool parse(const uint8_t *at, size_t size, struct proto *out) {
  const uint8_t *const end = at + size;
  uint64_t key, value;

  memset(out, 0, sizeof(*out));
  while (at < end) {
    if (!get_varint(&at, end, &key) || !get_varint(&at, end, &value)) return false;
    if ((key & 7) == 0 && key >> 3 == 1 && out->rank < 16) {
      out->dims[out->rank++] = (int64_t)value;
    } else if (key == (2 << 3)) {
      out->type = (int)value;
    } else if ((key & 7) == 2 && value <= (uint64_t)(end - at)) {
      if (key >> 3 == 9) {
        out->raw = at;
        out->raw_bytes = value;
      } else if (key >> 3 == 6 && out->count < 64) {
        out->strings[out->count] = (const char *)at;
        out->lengths[out->count++] = value;
      } else if (key >> 3 != 8) {
        return false;
      }
      at += value;
    } else {
      return false;
    }
  }
  return out->type != 0;
}

static char *read_all(const char *path, size_t *size) {
  FILE *f = fopen(path, "rb");
  char *bytes = NULL;

  *size = 0;
  if (!f) return NULL;
  fseek(f, 0, SEEK_END);
  *size = (size_t)ftell(f);
  rewind(f);
  bytes = calloc(*size + 1, 1);
  if (fread(bytes, 1, *size, f) != *size) *size = 0;
  fclose(f);
  return bytes;
}

static OrtStatus *make_tensor(const struct proto *p, OrtValue **value) {
  OrtAllocator *allocator;
  OrtStatus *status;
  size_t bytes = 0;
  void *data;

  must(ort->GetAllocatorWithDefaultOptions(&allocator));
  status = ort->CreateTensorAsOrtValue(allocator, p->dims, p->rank, (ONNXTensorElementDataType)p->type, value);
  if (status) return status;
  if (p->type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) {
    const char *texts[64];

    for (size_t i = 0; i < p->count; i++) texts[i] = strndup(p->strings[i], p->lengths[i]);
    status = ort->FillStringTensor(*value, texts, p->count);
    for (size_t i = 0; i < p->count; i++) free((void *)texts[i]);
    return status;
  }
  must(ort->GetTensorSizeInBytes(*value, &bytes));
  must(ort->GetTensorMutableData(*value, &data));
  if (bytes != p->raw_bytes) return ort->CreateStatus(ORT_FAIL, "an input's file has another size than its shape");
  if (bytes) memcpy(data, p->raw, bytes);
  return NULL;
}

static OrtStatus *read_input(OrtSession *session, const char *folder, size_t index, unsigned int *seed,
                             OrtValue **value) {
  OrtStatus *status;
  struct proto p;
  char path[1024];
  char *bytes;
  size_t size;

  snprintf(path, sizeof(path), "%s/test_data_set_0/input_%zu.pb", folder, index);
  bytes = read_all(path, &size);
  if (!bytes) return *value = make_input(session, index, seed, 2), NULL;
  status = parse((const uint8_t *)bytes, size, &p) ? make_tensor(&p, value)
                                                   : ort->CreateStatus(ORT_FAIL, "an input is no tensor");
  free(bytes);
  return status;
}

/* ---- results ---- */

static double half(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const double fraction = (bits & 1023) / 1024.0, sign = bits >> 15 ? -1 : 1;

  if (exponent == 31) return bits & 1023 ? (double)NAN : sign * (double)INFINITY;
  return sign * (exponent ? ldexp(1 + fraction, exponent - 15) : ldexp(fraction, -14));
}

static bool is_real(ONNXTensorElementDataType type) {
  return type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT || type == ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE ||
         type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16;
}

static double element(ONNXTensorElementDataType type, const void *data, size_t i) {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
      return (double)((const float *)data)[i];
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE:
      return ((const double *)data)[i];
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
      return half(((const uint16_t *)data)[i]);
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8:
      return ((const int8_t *)data)[i];
    default:
      return ((const uint8_t *)data)[i];
  }
}

static bool same_reals(ONNXTensorElementDataType type, const void *a, const void *b, size_t count) {
  const double part = type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 ? 4 * TOLERANCE : TOLERANCE;
  double most = 0;

  for (size_t i = 0; i < count; i++)
    if (isfinite(element(type, a, i))) most = fmax(most, fabs(element(type, a, i)));
  for (size_t i = 0; i < count; i++) {
    const double x = element(type, a, i), y = element(type, b, i);

    if (x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= part * most + ABSOLUTE) continue;
    snprintf(reason, sizeof(reason), "element %zu of %zu is %.9g, and %.9g on the CPU; the largest is %g", i, count, y,
             x, most);
    return false;
  }
  return true;
}

/* Bytes may be numbers that were rounded: one step is allowed. */
static bool same_numbers(ONNXTensorElementDataType type, const void *a, const void *b, size_t count, size_t bytes) {
  const bool is_byte = type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8 || type == ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8;

  if (count == 0 || memcmp(a, b, bytes) == 0) return true;
  for (size_t i = 0; is_byte && i < count; i++)
    if (fabs(element(type, a, i) - element(type, b, i)) > 1) {
      snprintf(reason, sizeof(reason), "element %zu of %zu is %g, and %g on the CPU", i, count, element(type, b, i),
               element(type, a, i));
      return false;
    }
  if (!is_byte) snprintf(reason, sizeof(reason), "integers of type %d differ", (int)type);
  return is_byte;
}

static bool same_shape(const OrtTensorTypeAndShapeInfo *a, const OrtTensorTypeAndShapeInfo *b) {
  int64_t x[16], y[16];
  size_t ranks[2];

  must(ort->GetDimensionsCount(a, &ranks[0]));
  must(ort->GetDimensionsCount(b, &ranks[1]));
  if (ranks[0] != ranks[1] || ranks[0] > 16) return false;
  must(ort->GetDimensions(a, x, ranks[0]));
  must(ort->GetDimensions(b, y, ranks[1]));
  return memcmp(x, y, ranks[0] * sizeof(x[0])) == 0;
}

/* Values that are no tensors, and strings, are not compared. */
static bool same_value(const OrtValue *a, const OrtValue *b) {
  ONNXTensorElementDataType types[2];
  OrtTensorTypeAndShapeInfo *infos[2];
  const void *data[2];
  size_t count, bytes;
  bool same;
  int is_tensor;

  if (!a || !b) return a == b;
  must(ort->IsTensor(a, &is_tensor));
  if (!is_tensor) return true;
  must(ort->GetTensorTypeAndShape(a, &infos[0]));
  must(ort->GetTensorTypeAndShape(b, &infos[1]));
  for (int i = 0; i < 2; i++) must(ort->GetTensorElementType(infos[i], &types[i]));
  must(ort->GetTensorShapeElementCount(infos[0], &count));
  snprintf(reason, sizeof(reason), "it has another type or shape than on the CPU");
  same = types[0] == types[1] && same_shape(infos[0], infos[1]);
  for (int i = 0; i < 2; i++) ort->ReleaseTensorTypeAndShapeInfo(infos[i]);
  if (!same || types[0] == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) return same;
  must(ort->GetTensorSizeInBytes(a, &bytes));
  must(ort->GetTensorData(a, &data[0]));
  must(ort->GetTensorData(b, &data[1]));
  return is_real(types[0]) ? same_reals(types[0], data[0], data[1], count)
                           : same_numbers(types[0], data[0], data[1], count, bytes);
}

/* ---- a network ---- */

struct network {
  OrtSession *cpu, *npu;
  char *in_names[MOST], *out_names[MOST];
  OrtValue *in[MOST], *expected[MOST], *found[MOST];
  size_t ins, outs;
  bool on_npu; /* a node was */
};

/* True if the trace of a session has nodes of the provider. */
static bool traced(OrtSession *session) {
  OrtAllocator *allocator;
  char *path, *bytes;
  size_t size;
  bool has;

  must(ort->GetAllocatorWithDefaultOptions(&allocator));
  must(ort->SessionEndProfiling(session, allocator, &path));
  bytes = read_all(path, &size);
  has = bytes && memmem(bytes, size, "\"" PROVIDER "\"", sizeof(PROVIDER) + 1);
  free(bytes);
  unlink(path);
  must(ort->AllocatorFree(allocator, path));
  return has;
}

static OrtStatus *prepare(const char *folder, struct network *n) {
  OrtSessionOptions *options = make_options(false, NULL);
  unsigned int seed = 1;
  OrtAllocator *allocator;
  OrtStatus *status;
  char path[1024];

  /* Its optimizer changes sums, and between quantized nodes also results. */
  must(ort->SetSessionGraphOptimizationLevel(options, ORT_DISABLE_ALL));
  snprintf(path, sizeof(path), "%s/model.onnx", folder);
  status = make_session(path, options, &n->cpu);
  if (status) return status;
  must(ort->GetAllocatorWithDefaultOptions(&allocator));
  must(ort->SessionGetInputCount(n->cpu, &n->ins));
  must(ort->SessionGetOutputCount(n->cpu, &n->outs));
  if (n->ins > MOST || n->outs > MOST) return ort->CreateStatus(ORT_FAIL, "it has too many inputs or outputs");
  for (size_t i = 0; i < n->outs; i++) must(ort->SessionGetOutputName(n->cpu, i, allocator, &n->out_names[i]));
  for (size_t i = 0; i < n->ins; i++) {
    must(ort->SessionGetInputName(n->cpu, i, allocator, &n->in_names[i]));
    status = read_input(n->cpu, folder, i, &seed, &n->in[i]);
    if (status) return status;
  }
  return ort->Run(n->cpu, NULL, (const char *const *)n->in_names, (const OrtValue *const *)n->in, n->ins,
                  (const char *const *)n->out_names, n->outs, n->expected);
}

static OrtStatus *run_plugin(const char *folder, struct network *n) {
  OrtSessionOptions *options = make_options(true, NULL);
  OrtStatus *status;
  char path[1024];

  snprintf(path, sizeof(path), "%s/trace-%d", work, (int)getpid());
  must(ort->EnableProfiling(options, path));
  snprintf(path, sizeof(path), "%s/model.onnx", folder);
  status = make_session(path, options, &n->npu);
  if (status) return status;
  /* Twice: memory and programs of the first run are there for the second. */
  for (int i = 0; i < 2 && !status; i++) {
    for (size_t k = 0; k < n->outs; k++) {
      ort->ReleaseValue(n->found[k]);
      n->found[k] = NULL;
    }
    status = ort->Run(n->npu, NULL, (const char *const *)n->in_names, (const OrtValue *const *)n->in, n->ins,
                      (const char *const *)n->out_names, n->outs, n->found);
  }
  n->on_npu = traced(n->npu);
  return status;
}

static void release(struct network *n) {
  OrtAllocator *allocator;

  must(ort->GetAllocatorWithDefaultOptions(&allocator));
  for (size_t i = 0; i < MOST; i++) {
    ort->ReleaseValue(n->in[i]);
    ort->ReleaseValue(n->expected[i]);
    ort->ReleaseValue(n->found[i]);
    if (n->in_names[i]) must(ort->AllocatorFree(allocator, n->in_names[i]));
    if (n->out_names[i]) must(ort->AllocatorFree(allocator, n->out_names[i]));
  }
  ort->ReleaseSession(n->npu);
  ort->ReleaseSession(n->cpu);
}

static void say(const char *verdict, const char *text) {
  char line[2048];

  snprintf(line, sizeof(line), "%s", text ? text : "");
  for (char *p = line; *p; p++)
    if (*p == '\n') *p = ' ';
  printf("%s %s\n", verdict, line);
  fflush(stdout);
}

static bool check(const char *folder) {
  static struct network n;
  const char *text;
  bool right = true;

  memset(&n, 0, sizeof(n));
  say("begin", folder);
  text = failure(prepare(folder, &n));
  if (text) {
    say("skipped", text);
    return release(&n), true;
  }
  text = failure(run_plugin(folder, &n));
  if (text) {
    say("wrong", text);
    return release(&n), false;
  }
  for (size_t i = 0; i < n.outs && right; i++)
    if (!same_value(n.expected[i], n.found[i])) {
      char line[sizeof(reason) + 512];

      snprintf(line, sizeof(line), "output '%s': %s", n.out_names[i], reason);
      say("wrong", line);
      right = false;
    }
  if (right) say("right", n.on_npu ? "npu" : "cpu");
  return release(&n), right;
}

int main(int argc, char **argv) {
  bool right = true;

  if (argc < 4) {
    fprintf(stderr, "usage: ort_corpus_test PLUGIN WORK FOLDER...\n");
    return 2;
  }
  work = argv[2];
  open_runtime(argv[1]);
  if (!npu) {
    fprintf(stderr, "the plug-in has no device\n");
    return 2;
  }
  for (int i = 3; i < argc; i++) right = check(argv[i]) && right;
  close_runtime();
  say("end", OrtGetApiBase()->GetVersionString());
  return right ? 0 : 1;
}
