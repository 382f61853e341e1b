/* SPDX-License-Identifier: MIT */
/*
 * A plug-in with two operators of the domain com.example, for npuc --plugin and for programs that run the network
 * (docs/guide/own-operators.md):
 *
 * Hysteresis(x float32) -> bool: along the last dimension true from an element of at least `high` on, until one below
 * `low`; false at first.
 *
 * RunLengths(x, [length]) -> values, lengths int64[, count int64 [..., 1]]: runs of equal bytes along the last
 * dimension of x, which may have any type: the element and the length of each run, 0 behind the last one. Runs that are
 * shorter than `length` (int64 [1]) are left out.
 */
#include <npu_plugin.h>
#include <string.h>

/* Elements of the last dimension, and how many rows of them there are. */
static uint64_t row_length(const struct npu_plugin_tensor *t) { return t->rank ? (uint64_t)t->dims[t->rank - 1] : 1; }
static uint64_t rows(const struct npu_plugin_tensor *t) { return row_length(t) ? t->count / row_length(t) : 0; }

static float float_attribute(const struct npu_plugin_call *call, const char *name, float otherwise) {
  uint64_t count;
  const float *values = call->get_floats(call, name, &count);
  return count == 1 ? values[0] : otherwise;
}

/* ---- Hysteresis ---- */

static int infer_hysteresis(const struct npu_plugin_call *call) {
  if (call->inputs[0].type != NPU_PLUGIN_FLOAT32) {
    call->fail(call, "x is not float32");
    return 1;
  }
  if (float_attribute(call, "low", 0) > float_attribute(call, "high", 0)) {
    call->fail(call, "low is above high");
    return 1;
  }
  call->outputs[0] = call->inputs[0];
  call->outputs[0].type = NPU_PLUGIN_BOOL;
  return 0;
}

static int compute_hysteresis(const struct npu_plugin_call *call) {
  const float low = float_attribute(call, "low", 0), high = float_attribute(call, "high", 0);
  const float *x = call->inputs[0].data;
  uint8_t *on = call->outputs[0].data;
  const uint64_t length = row_length(&call->inputs[0]), count = rows(&call->inputs[0]);
  for (uint64_t row = 0; row < count; ++row) {
    uint8_t state = 0;
    for (uint64_t i = 0; i < length; ++i, ++x) {
      state = *x >= high || (state && *x >= low);
      *on++ = state;
    }
  }
  return 0;
}

/* ---- RunLengths ---- */

static size_t element_size(uint32_t type) {
  switch (type) {
    case NPU_PLUGIN_UINT8:
    case NPU_PLUGIN_INT8:
    case NPU_PLUGIN_BOOL:
      return 1;
    case NPU_PLUGIN_UINT16:
    case NPU_PLUGIN_INT16:
      return 2;
    case NPU_PLUGIN_FLOAT32:
    case NPU_PLUGIN_INT32:
    case NPU_PLUGIN_UINT32:
      return 4;
    default:
      return 8;
  }
}

static int has_least_length(const struct npu_plugin_call *call) {
  return call->input_count > 1 && call->inputs[1].type;
}

static int infer_run_lengths(const struct npu_plugin_call *call) {
  if (call->inputs[0].rank == 0) {
    call->fail(call, "x has no dimensions, expected at least one");
    return 1;
  }
  if (has_least_length(call) && (call->inputs[1].type != NPU_PLUGIN_INT64 || call->inputs[1].count != 1)) {
    call->fail(call, "length is not one number of int64");
    return 1;
  }
  call->outputs[0] = call->inputs[0];
  for (uint32_t k = 1; k < call->output_count; ++k) {
    call->outputs[k] = call->inputs[0];
    call->outputs[k].type = NPU_PLUGIN_INT64;
  }
  if (call->output_count > 2) call->outputs[2].dims[call->outputs[2].rank - 1] = 1;
  return 0;
}

static int compute_run_lengths(const struct npu_plugin_call *call) {
  const struct npu_plugin_tensor *in = &call->inputs[0];
  const size_t size = element_size(in->type);
  const uint64_t length = row_length(in), count = rows(in);
  const int64_t least = has_least_length(call) ? *(const int64_t *)call->inputs[1].data : 1;
  if (least < 1) {
    call->fail(call, "length is below 1");
    return 1;
  }
  for (uint64_t row = 0; row < count; ++row) {
    const char *x = (const char *)in->data + row * length * size;
    char *values = (char *)call->outputs[0].data + row * length * size;
    int64_t *lengths = (int64_t *)call->outputs[1].data + row * length;
    uint64_t runs = 0;
    memset(values, 0, length * size);
    memset(lengths, 0, length * sizeof *lengths);
    for (uint64_t from = 0, to; from < length; from = to) {
      for (to = from + 1; to < length && !memcmp(x + to * size, x + from * size, size); ++to) continue;
      if ((int64_t)(to - from) < least) continue;
      memcpy(values + runs * size, x + from * size, size);
      lengths[runs++] = (int64_t)(to - from);
    }
    if (call->output_count > 2) ((int64_t *)call->outputs[2].data)[row] = (int64_t)runs;
  }
  return 0;
}

/* ---- the table ---- */

static const struct npu_plugin_op ops[] = {
    {.domain = "com.example",
     .name = "Hysteresis",
     .least_inputs = 1,
     .most_inputs = 1,
     .least_outputs = 1,
     .most_outputs = 1,
     .infer = infer_hysteresis,
     .compute = compute_hysteresis},
    {.domain = "com.example",
     .name = "RunLengths",
     .least_inputs = 1,
     .most_inputs = 2,
     .least_outputs = 2,
     .most_outputs = 3,
     .infer = infer_run_lengths,
     .compute = compute_run_lengths},
};

const struct npu_plugin *npu_plugin_entry(void) {
  static const struct npu_plugin plugin = {
      .version = NPU_PLUGIN_VERSION, .op_count = sizeof ops / sizeof ops[0], .ops = ops};
  return &plugin;
}
