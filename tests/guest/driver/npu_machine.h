/* SPDX-License-Identifier: MIT */
/*
 * The machine around the card, as the board's maker controls it: faults of the card (docs/reference/hardware.md section
 * 9) and plugging, by QEMU's machine protocol on the port that npu-vm --control names in $NPU_MACHINE. What does not
 * work ends the test.
 */
#ifndef NPU_MACHINE_H
#define NPU_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/guest/driver/npu_raw.h"

/* One command with its arguments, both JSON; the answer goes to `answer`, if that is not NULL. */
void machine_command(const char *command, const char *arguments, char *answer, size_t size);

void fault_set(const char *name, uint64_t value);
uint64_t fault_left(const char *name);
void fault_wait(const char *name); /* until a counted fault is taken */
void faults_clear(void);

/*
 * A job that is on its core for as long as a test wants: the next one to begin stands still before its first command,
 * until held_go_on(). Its context is one that the driver's watchdog lets stand still.
 */
#define DEFAULT_TIMEOUT_MS 5000                                             /* the module's */
#define PATIENT_MS (10 * FOREVER_MS)                                        /* no test lasts so long */
uint32_t ctx_create_patient(int fd, const struct drm_npu_ctx_create *args); /* NULL: an ordinary one */
void hold_next_job(void);
void wait_held(void); /* until it is on its core */
void held_go_on(void);
uint64_t submit_held(int fd, uint32_t ctx, struct job *job); /* hold_next_job(), submit(), wait_held() */

/* The name of a card, or of a block of a SoC, on its bus, while the driver is bound to it. */
const char *card_address(void);
bool card_is_bound(const char *address);
int try_card_unbind(const char *address); /* 0 or a negative errno */
int try_card_bind(const char *address);
void card_unbind(const char *address);
void card_bind(const char *address); /* and waits for the node */

/* Resets the device: a card by the PCI core; a block of a SoC, which only its driver resets, by a fatal error. A
 * context must exist, or a block would be suspended. */
void card_reset(int fd);

/* A card of this board leaves its slot without a word (surprise removal), and another one like it is plugged in, and
 * bound to the driver. */
void machine_pull(int card);
void machine_plug(int card);

void write_file(const char *path, const char *text);
int try_write_file(const char *path, const char *text); /* 0 or a negative errno */

#endif
