/* SPDX-License-Identifier: MIT */
#ifndef NPU_MODEL_H
#define NPU_MODEL_H

/*
 * The QNPU1 chip as a library: registers in, bus accesses and interrupts out. docs/reference/hardware.md says how the
 * chip behaves.
 *
 * Threads in host time: register accesses may come from any thread and never block for longer than a short critical
 * section. The owner creates the threads that run jobs (npu_model_thread_count() of them, each in
 * npu_model_thread_main()). Callbacks are called from those threads and from threads inside register accesses, never
 * with a lock of the model held, and may be called at the same time by several.
 *
 * Threads in virtual time: there are none (npu_model_thread_count() is 0). Jobs run inside npu_model_advance() and the
 * other calls, which are therefore serialised by the caller, and callbacks are called inside them.
 *
 * Ownership: the DDR memory belongs to the caller and outlives the model. Errors are negative errno values.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NPU_MODEL_ABI 4u

struct npu_model;

/* On whose behalf the bus is accessed. */
struct npu_model_access {
  uint64_t va;      /* the virtual address that led there */
  uint64_t job;     /* its id */
  uint32_t asid;    /* address space of va */
  uint32_t queue;   /* of the job */
  uint32_t core;    /* that runs it */
  uint32_t engine;  /* NPU_ENGINE_ of the command; NONE: a stream is fetched */
  uint32_t command; /* index of the command in its stream; NPU_COMMAND_NONE: a stream is fetched */
  uint32_t layer;   /* its tag */
};

/* What the chip needs from the board. opaque is npu_model_config.opaque. */
struct npu_model_board {
  /* Bus-master access to system memory. 0, or negative for a bus error; then nothing is assumed about buf. */
  int (*dma_read)(void *opaque, uint64_t addr, void *buf, size_t bytes);
  int (*dma_write)(void *opaque, uint64_t addr, const void *buf, size_t bytes);
  /* Raise an MSI-X vector. */
  void (*interrupt)(void *opaque, unsigned int vector);
  /* One line of news for a trace, without newline; may be NULL. kind is a static string like "job_start". */
  void (*trace)(void *opaque, const char *kind, const char *text);
  /*
   * The board's clock, in nanoseconds, which never goes back. NULL: the chip runs in host time. Otherwise it runs in
   * virtual time (docs/reference/hardware.md section 8.4), and wake_at has to be there, too.
   */
  uint64_t (*now)(void *opaque);
  /*
   * Call npu_model_advance() as soon as the clock says ns (UINT64_MAX: not before the next request); replaces the
   * request before. May be called inside any call of this interface; npu_model_advance() is then not called inside it.
   */
  void (*wake_at)(void *opaque, uint64_t ns);
  /*
   * As dma_read and dma_write, for what jobs access, with the job; the others are then for tables, rings, descriptors
   * and fences. NULL: those are called for everything.
   */
  int (*job_read)(void *opaque, const struct npu_model_access *access, uint64_t addr, void *buf, size_t bytes);
  int (*job_write)(void *opaque, const struct npu_model_access *access, uint64_t addr, const void *buf, size_t bytes);
};

/* Zero in any number means the default in brackets. */
struct npu_model_config {
  uint32_t abi;                                           /* NPU_MODEL_ABI */
  uint32_t cores;                                         /* [2] 1 to NPU_MAX_CORES */
  uint32_t queues;                                        /* [64] 1 to NPU_MAX_QUEUES */
  uint32_t asids;                                         /* [256] */
  uint32_t vectors;                                       /* [33] MSI-X vectors that the board has */
  uint32_t lmem_bytes;                                    /* [8 MiB] multiple of 4096, 4096 to 256 MiB */
  uint32_t clock_khz;                                     /* [1000000] */
  uint32_t mac_ic, mac_oc, mac_pixels, lmem_bw, ew_lanes; /* [32, 32, 2, 512, 128] */
  uint32_t tiu_fixed, gdma_fixed, ddr_latency, ddr_bw;    /* [32, 32, 200, 64] */
  uint32_t rate_16, rate_8;                               /* [2, 4] */
  uint64_t ddr_bytes;  /* size of ddr, multiple of 4096; 0: a block in a SoC, tables are in system memory */
  void *ddr;           /* the card's memory, page aligned; NULL without ddr_bytes */
  const char *backend; /* ["auto"] "reference", "onednn", "shadow" (both, compared); auto: onednn where it loads, else
                          reference */
  const struct npu_model_board *board;
  void *opaque;
  uint64_t seed; /* [0] in virtual time: what the chip's document leaves open, section 8.5; 0: no delays */
};

/*
 * Create a powered-on chip. On failure returns NULL, sets *error to a negative errno and writes a text that names the
 * reason to message (message_bytes, may be 0).
 */
struct npu_model *npu_model_create(const struct npu_model_config *config, int *error, char *message,
                                   size_t message_bytes);

/* All threads must have left npu_model_thread_main(). */
void npu_model_destroy(struct npu_model *model);

/* Threads that the owner has to provide; index below that. thread_main returns after npu_model_stop(). */
unsigned int npu_model_thread_count(const struct npu_model *model);
void npu_model_thread_main(struct npu_model *model, unsigned int index);

/* Ask all threads to leave; does not wait. Callbacks may still be called until they have left. */
void npu_model_stop(struct npu_model *model);

/*
 * In virtual time: the board's clock has come to what wake_at() asked for, or beyond. Does all that is due. In host
 * time it does nothing.
 */
void npu_model_advance(struct npu_model *model);

/*
 * The machine around the card stops or goes on: while it is stopped no job is fetched, makes progress or completes.
 * Stopping waits until the threads are at rest, for a step of a command at most; registers answer meanwhile, and resets
 * are obeyed. In virtual time it does nothing: the board's clock stops with the machine.
 */
void npu_model_pause(struct npu_model *model, bool on);

/*
 * In virtual time: the chip's state with the jobs that wait and run, without its DDR, as one piece of bytes that put()
 * gets; what put() returns is returned. -EBUSY: it cannot be saved now; message (message_bytes, may be 0) says why (a
 * job is being stopped and does not obey, or runs under the race detector; the chip is in host time).
 */
int npu_model_save(struct npu_model *model, int (*put)(void *opaque, const void *data, size_t bytes), void *opaque,
                   char *message, size_t message_bytes);

/*
 * Makes the chip what it was when the bytes were saved. The board's clock says what it said then, the DDR and the
 * system's memory are as they were, and the configuration is the same, back end and seed aside. -EINVAL: the bytes are
 * of another version or of a chip of another configuration (message names both), or they are damaged; the chip has then
 * been reset. Bytes from a stranger are not safe to load.
 */
int npu_model_load(struct npu_model *model, const void *data, size_t bytes, char *message, size_t message_bytes);

/* BAR0. size is 4 or 8; other accesses are ignored and read zero. */
uint64_t npu_model_read(struct npu_model *model, uint64_t offset, unsigned int size);
void npu_model_write(struct npu_model *model, uint64_t offset, uint64_t value, unsigned int size);

/* The bus was reset (power-on values, as CTRL.RESET); returns at once, complete when STATUS.READY reads 1. */
void npu_model_reset(struct npu_model *model);

/*
 * Faults on demand, docs/reference/hardware.md section 9. Some are counted: the value is how many events are still to
 * be spoiled. Others act at once when they are set, or are states.
 */
enum npu_model_fault {
  NPU_MODEL_FAULT_HANG,
  NPU_MODEL_FAULT_STUCK_ABORT,
  NPU_MODEL_FAULT_STUCK_CORE,
  NPU_MODEL_FAULT_STUCK_DEVICE,
  NPU_MODEL_FAULT_HANG_AFTER,
  NPU_MODEL_FAULT_LOST_INTERRUPTS,
  NPU_MODEL_FAULT_CORRUPT_ID,
  NPU_MODEL_FAULT_CORRUPT_STATUS,
  NPU_MODEL_FAULT_CORRUPT_PHASE,
  NPU_MODEL_FAULT_ECC_UNCORRECTED,
  NPU_MODEL_FAULT_ECC_CORRECTED,
  NPU_MODEL_FAULT_TEMPERATURE,
  NPU_MODEL_FAULT_FATAL,
  NPU_MODEL_FAULT_DEAD,
  NPU_MODEL_FAULT_COUNT
};

/* Name ("hang") and description of a fault, for properties of the board; NULL for none such. */
const char *npu_model_fault_name(unsigned int fault);
const char *npu_model_fault_text(unsigned int fault);

/* -EINVAL: no such fault, or a value that it cannot have. 0 clears a fault; what stands still because of it goes on. */
int npu_model_set_fault(struct npu_model *model, unsigned int fault, uint64_t value);
uint64_t npu_model_fault(const struct npu_model *model, unsigned int fault);

/*
 * Off at first; counts for jobs that begin later. A job in which commands of two engines access the same bytes, one of
 * them writing, without a wait or a semaphore that orders them fails with INTERNAL at the second; the trace ("race")
 * says both. For tests of programs and their compilers: it costs time.
 */
void npu_model_check_races(struct npu_model *model, bool on);

/* Name of the back end in use: "reference", "onednn", "shadow". */
const char *npu_model_backend(const struct npu_model *model);

#ifdef __cplusplus
}
#endif

#endif /* NPU_MODEL_H */
