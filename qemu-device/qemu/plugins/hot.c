/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Counts the instructions that a board executes, by the address of the translated block, while the program on the
 * board wants it. scripts/hot.py makes functions of the addresses.
 *
 *   -plugin hot.so,out=FILE
 *
 * The program says when with an instruction that does nothing on any processor, one of the markers below. What was
 * counted since the first one is written to FILE at the second one: a line "window NUMBER", one line "ADDRESS
 * INSTRUCTIONS" for each block that was executed (address in hexadecimal), a line "end".
 *
 * Counting is an addition at the begin of each block, to a counter of the processor's own. A block that is left in its
 * midst, by a page fault for example, counts as a whole; a halted processor executes nothing.
 */
#include <glib.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <qemu-plugin.h>

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

/* Blocks with a counter of their own; others share the first one. Some boots, and all that a workload touches. */
#define HOT_BLOCKS (1u << 20)

typedef enum HotMark {
    HOT_NONE,
    HOT_BEGIN,
    HOT_END,
} HotMark;

#define HOT_MARKER_MOST 8

typedef struct HotMarker {
    HotMark mark;
    size_t size;
    uint8_t bytes[HOT_MARKER_MOST];
} HotMarker;

static const HotMarker hot_markers[] = {
    /* x86: nopl 0x4e505501(%rax,%rax,1), and with 02 */
    { HOT_BEGIN, 8, { 0x0f, 0x1f, 0x84, 0x00, 0x01, 0x55, 0x50, 0x4e } },
    { HOT_END, 8, { 0x0f, 0x1f, 0x84, 0x00, 0x02, 0x55, 0x50, 0x4e } },
    /* arm64: movz xzr, #0x5501, and #0x5502 */
    { HOT_BEGIN, 4, { 0x3f, 0xa0, 0x8a, 0xd2 } },
    { HOT_END, 4, { 0x5f, 0xa0, 0x8a, 0xd2 } },
};

typedef struct HotCounters {
    uint64_t instructions[HOT_BLOCKS];
} HotCounters;

static struct qemu_plugin_scoreboard *scores;

/* Protects all below; taken when blocks are translated, and at markers. */
static GMutex lock;
static GHashTable *slots; /* address -> number of the counter */
static uint64_t *addresses;
static uint64_t *begun; /* the counters at the first marker */
static uint32_t slot_count = 1;
static bool counting;
static uint32_t windows;
static FILE *out;

static qemu_plugin_u64 counter_of(uint32_t slot)
{
    return (qemu_plugin_u64) {
        .score = scores,
        .offset = offsetof(HotCounters, instructions) + slot * sizeof(uint64_t),
    };
}

static uint32_t slot_of(uint64_t address)
{
    gpointer found;
    uint32_t slot = 0;

    g_mutex_lock(&lock);
    found = g_hash_table_lookup(slots, &address);
    if (found) {
        slot = GPOINTER_TO_UINT(found);
    } else if (slot_count < HOT_BLOCKS) {
        slot = slot_count++;
        addresses[slot] = address;
        g_hash_table_insert(slots, &addresses[slot], GUINT_TO_POINTER(slot));
    }
    g_mutex_unlock(&lock);

    return slot;
}

static void begin_locked(void)
{
    uint32_t i;

    for (i = 0; i < slot_count; i++) {
        begun[i] = qemu_plugin_u64_sum(counter_of(i));
    }
    /* Blocks that are translated later begin with none. */
    memset(&begun[slot_count], 0, (HOT_BLOCKS - slot_count) * sizeof(*begun));
    counting = true;
}

static void end_locked(void)
{
    uint32_t i;

    fprintf(out, "window %" PRIu32 "\n", ++windows);
    for (i = 0; i < slot_count; i++) {
        uint64_t executed = qemu_plugin_u64_sum(counter_of(i)) - begun[i];

        if (executed) {
            fprintf(out, "%" PRIx64 " %" PRIu64 "\n", addresses[i], executed);
        }
    }
    fprintf(out, "end\n");
    fflush(out);
    counting = false;
}

static void marker_executed(unsigned int vcpu_index, void *marker)
{
    g_mutex_lock(&lock);
    if (GPOINTER_TO_UINT(marker) == HOT_BEGIN) {
        begin_locked();
    } else if (counting) {
        end_locked();
    }
    g_mutex_unlock(&lock);
}

/* The marker that an instruction is. */
static HotMark marker_of(const struct qemu_plugin_insn *insn)
{
    uint8_t bytes[HOT_MARKER_MOST];
    size_t size = qemu_plugin_insn_size(insn), i;

    if (size > sizeof(bytes) || qemu_plugin_insn_data(insn, bytes, size) != size) {
        return HOT_NONE;
    }
    for (i = 0; i < G_N_ELEMENTS(hot_markers); i++) {
        if (hot_markers[i].size == size && !memcmp(hot_markers[i].bytes, bytes, size)) {
            return hot_markers[i].mark;
        }
    }

    return HOT_NONE;
}

static void block_translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    size_t count = qemu_plugin_tb_n_insns(tb), i;

    qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
        tb, QEMU_PLUGIN_INLINE_ADD_U64, counter_of(slot_of(qemu_plugin_tb_vaddr(tb))), count);
    for (i = 0; i < count; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        HotMark marker = marker_of(insn);

        if (marker != HOT_NONE) {
            qemu_plugin_register_vcpu_insn_exec_cb(insn, marker_executed, QEMU_PLUGIN_CB_NO_REGS,
                                                   GUINT_TO_POINTER(marker));
        }
    }
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    int i;

    for (i = 0; i < argc; i++) {
        if (g_str_has_prefix(argv[i], "out=") && !out) {
            out = fopen(argv[i] + strlen("out="), "w");
        }
    }
    if (!out || (strcmp(info->target_name, "x86_64") && strcmp(info->target_name, "aarch64"))) {
        fprintf(stderr, "hot: %s\n",
                out ? "only x86_64 and aarch64 boards" : "out=FILE is missing, or cannot be written");
        return -1;
    }

    scores = qemu_plugin_scoreboard_new(sizeof(HotCounters));
    slots = g_hash_table_new(g_int64_hash, g_int64_equal);
    addresses = g_new0(uint64_t, HOT_BLOCKS);
    begun = g_new0(uint64_t, HOT_BLOCKS);
    qemu_plugin_register_vcpu_tb_trans_cb(id, block_translated);

    return 0;
}
