/* SPDX-License-Identifier: MIT */
#include "tests/unit/libnpu/support.h"

#include <stdlib.h>
#include <string.h>

void assert_text(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("\"%s\" does not contain \"%s\"", text, part);
}

void fill_pattern(void *data, size_t bytes, unsigned int seed) {
  uint8_t *to = data;
  uint32_t state = seed * 2654435761u + 1;

  for (size_t i = 0; i < bytes; i++) {
    state = state * 1664525u + 1013904223u;
    to[i] = (uint8_t)(state >> 24);
  }
}

void assert_bytes(const void *got, const void *expected, size_t bytes) {
  const uint8_t *g = got, *e = expected;

  if (!memcmp(g, e, bytes)) return;
  for (size_t i = 0; i < bytes; i++)
    if (g[i] != e[i]) fail_msg("byte %zu of %zu is %#x, expected %#x", i, bytes, g[i], e[i]);
}

void *must_alloc(size_t bytes) {
  void *p = malloc(bytes ? bytes : 1);

  assert_non_null(p);
  return p;
}

npu_device *must_open(void) {
  npu_device *device = NULL;

  MUST(npu_device_open(0, &device));
  assert_non_null(device);
  return device;
}

bool has_own_memory(npu_device *device) {
  struct drm_npu_dev_info info;

  MUST(npu_device_info(device, &info));
  return info.ddr_bytes != 0;
}

npu_bo *must_create(npu_device *device, uint64_t size, uint32_t flags) {
  npu_bo *bo = NULL;

  MUST(npu_bo_create(device, size, flags, &bo));
  assert_non_null(bo);
  return bo;
}

npu_context *must_context(npu_device *device) {
  npu_context *context = NULL;

  MUST(npu_context_create(device, DRM_NPU_PRIORITY_NORMAL, 0, &context));
  assert_non_null(context);
  return context;
}

void program_init(struct program *p, npu_device *device) {
  void *ptr = NULL;

  memset(p, 0, sizeof(*p));
  p->bo = must_create(device, (uint64_t)PROGRAM_COMMANDS * NPU_CMD_BYTES, DRM_NPU_BO_SYSTEM);
  MUST(npu_bo_map(p->bo, &ptr));
  p->commands = ptr;
}

void program_free(struct program *p) {
  npu_bo_unmap(p->bo);
  npu_bo_unref(p->bo);
}

void program_flush(const struct program *p) { MUST(npu_bo_sync(p->bo, 0, npu_bo_size(p->bo), DRM_NPU_SYNC_TO_DEVICE)); }

static void *append(struct program *p, unsigned int opcode) {
  struct npu_cmd *command = (void *)(p->commands + (size_t)(p->gdma_count + p->tiu_count) * NPU_CMD_BYTES);

  assert_true(p->gdma_count + p->tiu_count < PROGRAM_COMMANDS);
  memset(command, 0, sizeof(*command));
  command->opcode = (uint8_t)opcode;
  return command;
}

void *program_gdma(struct program *p, unsigned int opcode) {
  void *command = append(p, opcode);

  assert_int_equal(p->tiu_count, 0);
  p->gdma_count++;
  return command;
}

void *program_tiu(struct program *p, unsigned int opcode) {
  void *command = append(p, opcode);

  p->tiu_count++;
  return command;
}

void program_copy(struct program *p, uint64_t dst_offset, uint64_t src_offset, uint32_t bytes) {
  struct npu_cmd_copy *c = program_gdma(p, NPU_OP_COPY);

  c->src_offset = src_offset;
  c->dst_offset = dst_offset;
  c->dst_region = 1;
  c->src_region = 2;
  c->src_dtype = c->dst_dtype = NPU_DTYPE_U8;
  for (int i = 0; i < 5; i++) c->dims[i] = 1;
  c->dims[5] = bytes;
  c->src_stride[5] = c->dst_stride[5] = 1;
}

int submit_after(npu_context *context, const struct program *p, npu_bo *dst, npu_bo *src,
                 const struct npu_job_fence *fences, uint32_t count, uint32_t flags, uint64_t *seqno) {
  struct npu_job_region regions[3] = {{.bo = p->bo, .size = npu_bo_size(p->bo), .access = DRM_NPU_REGION_READ}};
  struct drm_npu_stream stream = {.gdma_count = p->gdma_count, .tiu_count = p->tiu_count};
  struct npu_job_desc job = {.regions = regions,
                             .streams = &stream,
                             .in_fences = fences,
                             .region_count = 1,
                             .stream_count = 1,
                             .in_fence_count = count,
                             .flags = flags};

  if (p->tiu_count) stream.tiu_offset = (uint64_t)p->gdma_count * NPU_CMD_BYTES;
  if (dst)
    regions[job.region_count++] = (struct npu_job_region){
        .bo = dst, .size = npu_bo_size(dst), .access = DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE};
  if (src)
    regions[job.region_count++] =
        (struct npu_job_region){.bo = src, .size = npu_bo_size(src), .access = DRM_NPU_REGION_READ};
  program_flush(p);
  return npu_submit(context, &job, 1, seqno);
}

int submit_program(npu_context *context, const struct program *p, npu_bo *dst, npu_bo *src, uint64_t *seqno) {
  return submit_after(context, p, dst, src, NULL, 0, 0, seqno);
}

struct npu_result must_wait(npu_context *context, uint64_t seqno) {
  struct npu_result result;

  MUST(npu_wait(context, seqno, LONG_TIME, &result));
  assert_int_equal(result.known, 1);
  return result;
}

void assert_works(npu_device *device, npu_context *context) {
  enum { BYTES = 5000 };
  npu_bo *src = must_create(device, BYTES, DRM_NPU_BO_CARD), *dst = must_create(device, BYTES, DRM_NPU_BO_CARD);
  uint8_t expected[BYTES], got[BYTES];
  struct program p;
  uint64_t seqno;

  program_init(&p, device);
  fill_pattern(expected, BYTES, 77);
  MUST(npu_write(src, 0, expected, BYTES));
  program_copy(&p, 0, 0, BYTES);
  MUST(submit_program(context, &p, dst, src, &seqno));
  assert_int_equal(must_wait(context, seqno).error, 0);
  MUST(npu_read(dst, 0, got, BYTES));
  assert_bytes(got, expected, BYTES);
  program_free(&p);
  npu_bo_unref(src);
  npu_bo_unref(dst);
}

void program_long(struct program *p, uint32_t bytes) {
  while (p->gdma_count < PROGRAM_COMMANDS)
    program_copy(p, p->gdma_count % 2 ? 0 : bytes, p->gdma_count % 2 ? bytes : 0, bytes);
  /* From one half of region 1 to the other. */
  for (uint32_t i = 0; i < PROGRAM_COMMANDS; i++)
    ((struct npu_cmd_copy *)(p->commands + (size_t)i * NPU_CMD_BYTES))->src_region = 1;
}

void submit_long_job(npu_context *context, const struct program *p, npu_bo *bo, uint64_t *seqno) {
  MUST(submit_program(context, p, bo, NULL, seqno));
}
