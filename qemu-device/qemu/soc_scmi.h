/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The system control processor of the emulated SoC, as far as the NPU needs
 * one: a server for SCMI (Arm's DEN0056) that gives it a power domain, a clock
 * and a reset line. Requests come by a firmware call, in shared memory.
 */
#ifndef NPU_SOC_SCMI_H
#define NPU_SOC_SCMI_H

#include "exec/memory.h"

/* SMC function that says that a request is in the shared memory. */
#define SCMI_FUNCTION 0x82000010u
#define SCMI_SHMEM_BYTES 4096

#define SCMI_PROTOCOL_BASE 0x10
#define SCMI_PROTOCOL_POWER 0x11
#define SCMI_PROTOCOL_CLOCK 0x14
#define SCMI_PROTOCOL_RESET 0x16

enum { SCMI_GRANT_POWER, SCMI_GRANT_CLOCK, SCMI_GRANT_RESET, SCMI_GRANTS };

typedef struct SocScmi {
    uint8_t *shmem;
    uint64_t clock_hz;
    bool powered;
    bool clocked;
    bool in_reset;
    /* Requests for power, clock and the end of reset still to be refused. */
    uint64_t refused[SCMI_GRANTS];
    /* One of the three has changed; under the BQL. */
    void (*changed)(void *opaque);
    void *opaque;
} SocScmi;

/* Carries out the request in shared memory. Under the BQL. */
void soc_scmi_request(SocScmi *scmi);
/* As after power-on: off, without clock, in reset; nothing is called. */
void soc_scmi_reset(SocScmi *scmi);

#endif
