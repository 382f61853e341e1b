/* SPDX-License-Identifier: MIT */
/*
 * For tests of libnpu and libbmlib on whichever transport NPU_DEVICE selects: nothing here or in the tests knows which
 * one it is. Helpers fail the running CMocka test with npu_last_error() when a call does not do what it must.
 */
#ifndef NPU_TEST_SUPPORT_H
#define NPU_TEST_SUPPORT_H

#include <npu.h>
#include <npu_isa.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
/* needs some of the above */
#include <cmocka.h>

#define KIB 1024ull
#define MIB (1024ull * KIB)
#define SECOND 1000000000ll
/* Longer than anything takes on a busy machine. */
#define LONG_TIME (120 * SECOND)

/* The call returns 0. */
#define MUST(call)                                                                   \
  do {                                                                               \
    int must_ret = (call);                                                           \
    if (must_ret) fail_msg("%s returned %d: %s", #call, must_ret, npu_last_error()); \
  } while (0)

/* The call fails with this errno, and the text contains that. */
#define MUST_FAIL(call, error, text)                                                              \
  do {                                                                                            \
    int fail_ret = (call);                                                                        \
    if (fail_ret != -(error)) fail_msg("%s returned %d, expected %d", #call, fail_ret, -(error)); \
    assert_text(npu_last_error(), text);                                                          \
  } while (0)

/* `text` contains `part`. */
void assert_text(const char *text, const char *part);

/* Bytes that depend on seed and position. */
void fill_pattern(void *data, size_t bytes, unsigned int seed);
/* The first difference fails the test with its position. */
void assert_bytes(const void *got, const void *expected, size_t bytes);
void *must_alloc(size_t bytes);

npu_device *must_open(void);
bool has_own_memory(npu_device *device); /* without it all buffers are system buffers */
npu_bo *must_create(npu_device *device, uint64_t size, uint32_t flags);
npu_context *must_context(npu_device *device);

/* GDMA commands on a buffer of their own. */
struct program {
  npu_bo *bo;
  uint8_t *commands; /* mapped */
  uint32_t gdma_count;
  uint32_t tiu_count; /* these follow the GDMA commands */
};

#define PROGRAM_COMMANDS 4096

void program_init(struct program *p, npu_device *device);
void program_free(struct program *p);
/* The card is going to read what was appended; submit_program() and submit_after() do it themselves. */
void program_flush(const struct program *p);
/* Appends a zeroed command and returns it. All GDMA commands come before all TIU commands. */
void *program_gdma(struct program *p, unsigned int opcode);
void *program_tiu(struct program *p, unsigned int opcode);
/* Bytes from region 2 to region 1. */
void program_copy(struct program *p, uint64_t dst_offset, uint64_t src_offset, uint32_t bytes);

/* Region 0: the program, 1: dst (read-write), 2: src (read only). */
int submit_program(npu_context *context, const struct program *p, npu_bo *dst, npu_bo *src, uint64_t *seqno);
/* With in-fences and flags, too. */
int submit_after(npu_context *context, const struct program *p, npu_bo *dst, npu_bo *src,
                 const struct npu_job_fence *fences, uint32_t count, uint32_t flags, uint64_t *seqno);
/* Waits and gives the result, which must be known. */
struct npu_result must_wait(npu_context *context, uint64_t seqno);
/* A whole job from nothing: copies some bytes and compares. Shows that device and context work. */
void assert_works(npu_device *device, npu_context *context);

/* A job that keeps a core busy for a while: many copies inside one buffer. */
void submit_long_job(npu_context *context, const struct program *p, npu_bo *bo, uint64_t *seqno);
void program_long(struct program *p, uint32_t bytes);

#endif /* NPU_TEST_SUPPORT_H */
