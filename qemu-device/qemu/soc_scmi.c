/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * SCMI for the NPU of the emulated SoC: see soc_scmi.h. Protocols base 2.0,
 * power domains 2.0, clocks 1.0 and resets 1.0, each with one domain, 0.
 */

#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/units.h"
#include "soc_scmi.h"
#include "trace.h"

/* Shared memory: words by their offsets. */
#define SHMEM_STATUS 4
#define SHMEM_STATUS_FREE 1u
#define SHMEM_STATUS_ERROR 2u
#define SHMEM_LENGTH 20             /* of header and payload */
#define SHMEM_HEADER 24
#define SHMEM_PAYLOAD 28

#define SCMI_SUCCESS 0
#define SCMI_NOT_SUPPORTED (-1)
#define SCMI_INVALID_PARAMETERS (-2)
#define SCMI_NOT_FOUND (-4)
#define SCMI_HARDWARE_ERROR (-9)
#define SCMI_PROTOCOL_ERROR (-10)

#define NAME_BYTES 16
#define POWER_OFF_STATE (1u << 30)
#define POWER_SYNC (1u << 29)
#define RESET_AUTONOMOUS 1u
#define RESET_ASSERT 2u

/* Messages that each protocol has. */
enum {
    MSG_VERSION = 0,
    MSG_ATTRIBUTES = 1,
    MSG_MESSAGE_ATTRIBUTES = 2,
    BASE_VENDOR = 3,
    BASE_SUB_VENDOR = 4,
    BASE_IMPLEMENTATION = 5,
    BASE_PROTOCOLS = 6,
    POWER_ATTRIBUTES = 3,
    POWER_SET = 4,
    POWER_GET = 5,
    CLOCK_ATTRIBUTES = 3,
    CLOCK_RATES = 4,
    CLOCK_RATE_SET = 5,
    CLOCK_RATE_GET = 6,
    CLOCK_CONFIG = 7,
    RESET_ATTRIBUTES = 3,
    RESET_SET = 4,
};

/* A request, and the answer that takes its place. */
typedef struct Message {
    SocScmi *scmi;
    const uint32_t *in;             /* copied: the guest may write meanwhile */
    unsigned in_words;
    uint32_t out[16];               /* behind the status */
    unsigned out_words;
} Message;

static uint32_t argument(const Message *m, unsigned i)
{
    return i < m->in_words ? m->in[i] : 0;
}

static void answer(Message *m, uint32_t word)
{
    assert(m->out_words < ARRAY_SIZE(m->out));
    m->out[m->out_words++] = word;
}

static void answer_name(Message *m, const char *name)
{
    char text[NAME_BYTES] = "";
    unsigned i;

    g_strlcpy(text, name, sizeof(text));
    for (i = 0; i < sizeof(text); i += 4) {
        answer(m, ldl_le_p(text + i));
    }
}

static int base_message(Message *m, unsigned id)
{
    static const uint8_t protocols[] = {
        SCMI_PROTOCOL_POWER, SCMI_PROTOCOL_CLOCK, SCMI_PROTOCOL_RESET, 0
    };
    unsigned skip = MIN(argument(m, 0), 3);

    switch (id) {
    case MSG_VERSION:
        answer(m, 0x20000);
        return SCMI_SUCCESS;
    case MSG_ATTRIBUTES:
        answer(m, 3 | 1 << 8);      /* protocols, agents */
        return SCMI_SUCCESS;
    case BASE_VENDOR:
        answer_name(m, "QNPU");
        return SCMI_SUCCESS;
    case BASE_SUB_VENDOR:
        answer_name(m, "emulated");
        return SCMI_SUCCESS;
    case BASE_IMPLEMENTATION:
        answer(m, 1);
        return SCMI_SUCCESS;
    case BASE_PROTOCOLS:
        answer(m, 3 - skip);
        answer(m, ldl_le_p(protocols) >> (8 * skip));
        return SCMI_SUCCESS;
    default:
        return SCMI_NOT_SUPPORTED;
    }
}

/* May the block have what it is asked for? What takes it away always works. */
static bool grant(SocScmi *s, unsigned what, bool on)
{
    if (!on || !s->refused[what]) {
        return true;
    }
    s->refused[what]--;
    return false;
}

static int power_message(Message *m, unsigned id)
{
    SocScmi *s = m->scmi;

    switch (id) {
    case MSG_VERSION:
        answer(m, 0x20000);
        return SCMI_SUCCESS;
    case MSG_ATTRIBUTES:
        answer(m, 1);
        answer(m, 0);               /* no statistics */
        answer(m, 0);
        answer(m, 0);
        return SCMI_SUCCESS;
    case POWER_ATTRIBUTES:
        if (argument(m, 0)) {
            return SCMI_NOT_FOUND;
        }
        answer(m, POWER_SYNC);
        answer_name(m, "npu");
        return SCMI_SUCCESS;
    case POWER_SET:
        if (argument(m, 1)) {
            return SCMI_NOT_FOUND;
        }
        if (!grant(s, SCMI_GRANT_POWER, !(argument(m, 2) & POWER_OFF_STATE))) {
            return SCMI_HARDWARE_ERROR;
        }
        s->powered = !(argument(m, 2) & POWER_OFF_STATE);
        return SCMI_SUCCESS;
    case POWER_GET:
        if (argument(m, 0)) {
            return SCMI_NOT_FOUND;
        }
        answer(m, s->powered ? 0 : POWER_OFF_STATE);
        return SCMI_SUCCESS;
    default:
        return SCMI_NOT_SUPPORTED;
    }
}

static void answer_rate(Message *m)
{
    answer(m, m->scmi->clock_hz);
    answer(m, m->scmi->clock_hz >> 32);
}

static int clock_message(Message *m, unsigned id)
{
    SocScmi *s = m->scmi;

    switch (id) {
    case MSG_VERSION:
        answer(m, 0x10000);
        return SCMI_SUCCESS;
    case MSG_ATTRIBUTES:
        answer(m, 1);
        return SCMI_SUCCESS;
    case CLOCK_ATTRIBUTES:
        if (argument(m, 0)) {
            return SCMI_NOT_FOUND;
        }
        answer(m, s->clocked);
        answer_name(m, "npu");
        return SCMI_SUCCESS;
    case CLOCK_RATES:
        if (argument(m, 0)) {
            return SCMI_NOT_FOUND;
        }
        answer(m, argument(m, 1) ? 0 : 1);
        if (!argument(m, 1)) {
            answer_rate(m);
        }
        return SCMI_SUCCESS;
    case CLOCK_RATE_SET:
        if (argument(m, 1)) {
            return SCMI_NOT_FOUND;
        }
        return (argument(m, 2) | (uint64_t)argument(m, 3) << 32) == s->clock_hz
            ? SCMI_SUCCESS : SCMI_INVALID_PARAMETERS;
    case CLOCK_RATE_GET:
        if (argument(m, 0)) {
            return SCMI_NOT_FOUND;
        }
        answer_rate(m);
        return SCMI_SUCCESS;
    case CLOCK_CONFIG:
        if (argument(m, 0)) {
            return SCMI_NOT_FOUND;
        }
        if (!grant(s, SCMI_GRANT_CLOCK, argument(m, 1) & 1)) {
            return SCMI_HARDWARE_ERROR;
        }
        s->clocked = argument(m, 1) & 1;
        return SCMI_SUCCESS;
    default:
        return SCMI_NOT_SUPPORTED;
    }
}

/* A pulse is an assertion that is over when the answer comes. */
static int reset_line(SocScmi *s, uint32_t flags)
{
    if (!grant(s, SCMI_GRANT_RESET,
               flags & RESET_AUTONOMOUS || !(flags & RESET_ASSERT))) {
        return SCMI_HARDWARE_ERROR;
    }
    s->in_reset = true;
    if (flags & RESET_AUTONOMOUS) {
        s->changed(s->opaque);
    }
    s->in_reset = !(flags & RESET_AUTONOMOUS) && flags & RESET_ASSERT;
    return SCMI_SUCCESS;
}

static int reset_message(Message *m, unsigned id)
{
    switch (id) {
    case MSG_VERSION:
        answer(m, 0x10000);
        return SCMI_SUCCESS;
    case MSG_ATTRIBUTES:
        answer(m, 1);
        return SCMI_SUCCESS;
    case RESET_ATTRIBUTES:
        if (argument(m, 0)) {
            return SCMI_NOT_FOUND;
        }
        answer(m, 0);
        answer(m, 0);               /* latency, microseconds */
        answer_name(m, "npu");
        return SCMI_SUCCESS;
    case RESET_SET:
        return argument(m, 0) ? SCMI_NOT_FOUND
                              : reset_line(m->scmi, argument(m, 1));
    default:
        return SCMI_NOT_SUPPORTED;
    }
}

/* Messages of each protocol, the first three aside. */
static const struct {
    uint8_t protocol;
    uint8_t last;
    int (*message)(Message *m, unsigned id);
} protocols[] = {
    { SCMI_PROTOCOL_BASE, BASE_PROTOCOLS, base_message },
    { SCMI_PROTOCOL_POWER, POWER_GET, power_message },
    { SCMI_PROTOCOL_CLOCK, CLOCK_CONFIG, clock_message },
    { SCMI_PROTOCOL_RESET, RESET_SET, reset_message },
};

static int dispatch(Message *m, uint32_t header)
{
    unsigned id = header & 0xff, protocol = (header >> 10) & 0xff, i;

    for (i = 0; i < ARRAY_SIZE(protocols); i++) {
        if (protocols[i].protocol != protocol) {
            continue;
        }
        if (id != MSG_MESSAGE_ATTRIBUTES) {
            return protocols[i].message(m, id);
        }
        if (argument(m, 0) > protocols[i].last) {
            return SCMI_NOT_FOUND;
        }
        answer(m, 0);
        return SCMI_SUCCESS;
    }
    return SCMI_NOT_SUPPORTED;
}

void soc_scmi_request(SocScmi *s)
{
    uint32_t length = ldl_le_p(s->shmem + SHMEM_LENGTH);
    uint32_t header = ldl_le_p(s->shmem + SHMEM_HEADER);
    uint32_t words[8], status = SHMEM_STATUS_FREE;
    Message m = { .scmi = s, .in = words };
    int result;
    unsigned i;

    if (length < 4 || length - 4 > sizeof(words) || length % 4) {
        result = SCMI_PROTOCOL_ERROR;
        status |= SHMEM_STATUS_ERROR;
    } else {
        m.in_words = length / 4 - 1;
        for (i = 0; i < m.in_words; i++) {
            words[i] = ldl_le_p(s->shmem + SHMEM_PAYLOAD + 4 * i);
        }
        result = dispatch(&m, header);
    }
    trace_soc_scmi((header >> 10) & 0xff, header & 0xff, argument(&m, 0),
                   argument(&m, 1), result);
    if (result) {
        m.out_words = 0;
    }
    stl_le_p(s->shmem + SHMEM_PAYLOAD, result);
    for (i = 0; i < m.out_words; i++) {
        stl_le_p(s->shmem + SHMEM_PAYLOAD + 4 + 4 * i, m.out[i]);
    }
    stl_le_p(s->shmem + SHMEM_LENGTH, 8 + 4 * m.out_words);
    stl_le_p(s->shmem + SHMEM_STATUS, status);
    s->changed(s->opaque);
}

void soc_scmi_reset(SocScmi *s)
{
    s->powered = s->clocked = false;
    s->in_reset = true;
    memset(s->shmem, 0, SCMI_SHMEM_BYTES);
    stl_le_p(s->shmem + SHMEM_STATUS, SHMEM_STATUS_FREE);
}
