/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Time of an exact board, and the turns of its processors.
 *
 * Time is the number of instructions that were executed, and the jumps over
 * idle times. One thread executes all processors in turns, runs every timer
 * of the virtual clock at its instant, and makes the jumps. A turn is over
 * after a number of instructions, when the processor halts, or when it
 * executes PAUSE. Other threads can interrupt a turn (they want the
 * translated code flushed, or a function called on this thread); then the
 * same processor goes on with what is left of it. With a seed a processor
 * whose turn is over stands still now and then, in the middle of whatever it
 * does, for many turns of the others.
 *
 * Nothing runs from the instant at which the guest switches the machine off,
 * or stops it, until the main loop has obeyed. A machine that was stopped can
 * be saved: the turns go on where they were.
 */

#include "qemu/osdep.h"
#include "qemu/cutils.h"
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "qemu/notify.h"
#include "qemu/option.h"
#include "qemu/seqlock.h"
#include "qapi/error.h"
#include "exec/cpu-common.h"
#include "hw/core/cpu.h"
#include "migration/vmstate.h"
#include "system/cpu-timers.h"
#include "system/cpu-timers-internal.h"
#include "system/runstate.h"
#include "system/system.h"
#include "accel/tcg/tcg-accel-ops.h"
#include "accel/tcg/tcg-accel-ops-icount.h"
#include "exact.h"
#include "exact_files.h"

/* Instructions of a turn where all are alike. */
#define TURN_FIXED 10000
/* The others have from TURN_MIN to almost TURN_MIN << TURN_DOUBLINGS. */
#define TURN_MIN 256
#define TURN_DOUBLINGS 7
/* A processor that is alone; its timers interrupt it much earlier. */
#define TURN_ALONE INT32_MAX

/* One in so many turns that end by their length is followed by a rest. */
#define REST_RARITY 32
/* So many instructions of the others, to almost REST_MIN << REST_DOUBLINGS. */
#define REST_MIN 16384
#define REST_DOUBLINGS 6
/* PAUSEs of the others that end it: they wait for the one that rests. */
#define REST_PAUSES 100
#define NOBODY UINT32_MAX

/* What the guest's random numbers begin with, beside the seed. */
#define GUEST_RANDOM 0x6a09e667f3bcc908ull

static struct Exact {
    bool enabled;
    uint64_t seed;                  /* 0: all turns have the same length */
    uint64_t stop_at;               /* ns at which the machine stops, once */
    char *report;                   /* path, or NULL */
    Notifier exit;

    /* Under the BQL; saved. */
    uint64_t saved_seed;            /* that of the board that was saved */
    uint64_t random;                /* state of the turns' generator */
    uint64_t guest_random;          /* and of the one of RDRAND */
    CPUState *cpu;                  /* whose turn it is; NULL: at the start */
    uint32_t cpu_index;
    int64_t left;                   /* of its turn: instructions */
    CPUState *resting;              /* processor that stands still, or NULL */
    uint32_t resting_index;         /* NOBODY: none */
    int64_t rest_end;               /* instructions of the board by then */
    int32_t rest_pauses;            /* that are left until then */
} exact = { .stop_at = UINT64_MAX };

bool exact_enabled(void)
{
    return exact.enabled;
}

/* --- snapshots ----------------------------------------------------------- */

static int exact_pre_save(void *opaque)
{
    exact.saved_seed = exact.seed;
    exact.cpu_index = exact.cpu ? exact.cpu->cpu_index : 0;
    exact.resting_index = exact.resting ? exact.resting->cpu_index : NOBODY;
    return 0;
}

/* With another seed the turns after this one are others. */
static int exact_post_load(void *opaque, int version)
{
    if (exact.saved_seed != exact.seed) {
        exact.random = exact.seed;
    }
    exact.cpu = qemu_get_cpu(exact.cpu_index);
    exact.resting = exact.resting_index == NOBODY
                        ? NULL : qemu_get_cpu(exact.resting_index);
    return exact.cpu ? 0 : -EINVAL;
}

static const VMStateDescription exact_vmstate = {
    .name = "exact time",
    .version_id = 1,
    .minimum_version_id = 1,
    .pre_save = exact_pre_save,
    .post_load = exact_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT64(saved_seed, struct Exact),
        VMSTATE_UINT64(random, struct Exact),
        VMSTATE_UINT64(guest_random, struct Exact),
        VMSTATE_UINT32(cpu_index, struct Exact),
        VMSTATE_INT64(left, struct Exact),
        VMSTATE_UINT32(resting_index, struct Exact),
        VMSTATE_INT64(rest_end, struct Exact),
        VMSTATE_INT32(rest_pauses, struct Exact),
        VMSTATE_END_OF_LIST()
    },
};

/* --- options and report -------------------------------------------------- */

static void exact_write_report(Notifier *notifier, void *data)
{
    g_autofree char *text =
        g_strdup_printf("instructions %" PRId64 "\nvirtual_ns %" PRId64 "\n",
                        icount_get_raw(), icount_get());
    GError *error = NULL;

    if (!g_file_set_contents(exact.report, text, -1, &error)) {
        error_report("%s", error->message);
        g_error_free(error);
    }
}

bool exact_configure(QemuOpts *opts, Error **errp)
{
    const char *seed = qemu_opt_get(opts, "exact");

    if (!seed) {
        return true;
    }
    if (parse_uint_full(seed, 10, &exact.seed)) {
        error_setg(errp, "icount: exact is a number, not '%s'", seed);
        return false;
    }
    if (icount_enabled() != ICOUNT_PRECISE) {
        error_setg(errp, "icount: exact needs a fixed shift");
        return false;
    }
    exact.stop_at = qemu_opt_get_number(opts, "stop", UINT64_MAX);
    exact.enabled = true;
    exact.random = exact.seed;
    exact.guest_random = exact.seed ^ GUEST_RANDOM;
    vmstate_register(NULL, 0, &exact_vmstate, &exact);
    exact_files_register();
    exact.report = g_strdup(qemu_opt_get(opts, "report"));
    if (exact.report) {
        exact.exit.notify = exact_write_report;
        qemu_add_exit_notifier(&exact.exit);
    }
    return true;
}

/* --- turns --------------------------------------------------------------- */

/* SplitMix64: any state will do, and no two seeds have the same sequence. */
static uint64_t exact_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15ull;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

uint64_t exact_guest_random(void)
{
    return exact_random(&exact.guest_random);
}

/* From min to almost min << doublings, short ones as often as long ones. */
static int64_t exact_length(int64_t min, int doublings)
{
    int64_t least = min << exact_random(&exact.random) % doublings;

    return least + exact_random(&exact.random) % least;
}

static int64_t exact_turn(void)
{
    if (!CPU_NEXT(first_cpu)) {
        return TURN_ALONE;
    }
    if (!exact.seed) {
        return TURN_FIXED;
    }
    return exact_length(TURN_MIN, TURN_DOUBLINGS);
}

/* --- rests --------------------------------------------------------------- */

/* The turn of a processor is over, since it was long enough. */
static void exact_may_rest(CPUState *cpu)
{
    if (!exact.seed || exact.resting || !CPU_NEXT(first_cpu) ||
        exact_random(&exact.random) % REST_RARITY) {
        return;
    }
    exact.resting = cpu;
    exact.rest_end =
        icount_get_raw() + exact_length(REST_MIN, REST_DOUBLINGS);
    exact.rest_pauses = REST_PAUSES;
}

static bool exact_others_are_idle(CPUState *resting)
{
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        if (cpu != resting && !cpu_thread_is_idle(cpu)) {
            return false;
        }
    }
    return true;
}

/* Whose turn it is after a processor's. */
static CPUState *exact_next(CPUState *cpu)
{
    cpu = CPU_NEXT(cpu) ?: first_cpu;
    if (cpu != exact.resting) {
        return cpu;
    }
    if (exact.rest_pauses > 0 && icount_get_raw() < exact.rest_end &&
        !exact_others_are_idle(cpu)) {
        return CPU_NEXT(cpu) ?: first_cpu;
    }
    exact.resting = NULL;
    return cpu;
}

/* --- the main loop's work ------------------------------------------------- */

void exact_settle(void)
{
    if (!exact_enabled() || !current_cpu) {
        return;
    }
    while (aio_poll(qemu_get_aio_context(), false)) {
    }
}

/* --- the thread of the processors ---------------------------------------- */

/*
 * Does what other threads have asked for, and returns when every processor
 * may run.
 */
static void exact_wait(void)
{
    CPUState *cpu;
    bool stopped;

    for (;;) {
        stopped = false;
        CPU_FOREACH(cpu) {
            qemu_wait_io_event_common(cpu);
        }
        CPU_FOREACH(cpu) {
            stopped |= !cpu_can_run(cpu);
        }
        if (!stopped) {
            return;
        }
        qemu_cond_wait_bql(first_cpu->halt_cond);
    }
}

/* To the next timer. */
static void exact_jump(int64_t ns)
{
    seqlock_write_lock(&timers_state.vm_clock_seqlock,
                       &timers_state.vm_clock_lock);
    qatomic_set_i64(&timers_state.qemu_icount_bias,
                    timers_state.qemu_icount_bias + ns);
    seqlock_write_unlock(&timers_state.vm_clock_seqlock,
                         &timers_state.vm_clock_lock);
}

/* Nanoseconds until the machine stops. */
static uint64_t exact_until_stop(void)
{
    return exact.stop_at == UINT64_MAX ? UINT64_MAX
                                       : exact.stop_at - icount_get();
}

static bool exact_stop(void)
{
    if (exact.stop_at > icount_get()) {
        return false;
    }
    exact.stop_at = UINT64_MAX;
    current_cpu = exact.cpu;
    vm_stop(RUN_STATE_PAUSED);
    return true;
}

/*
 * Runs the timers that are due. Returns how many instructions there are until
 * the next one, and 0 when there is something else to do before the next
 * instruction.
 */
static int64_t exact_run_timers(void)
{
    /* No timer: the greatest number. */
    uint64_t ns = qemu_clock_deadline_ns_all(QEMU_CLOCK_VIRTUAL,
                                             QEMU_TIMER_ATTR_ALL);
    uint64_t next = MIN(ns, exact_until_stop());

    if (ns == 0) {
        qemu_clock_run_timers(QEMU_CLOCK_VIRTUAL);
        return 0;
    }
    if (all_cpu_threads_idle()) {
        if (next == UINT64_MAX) {
            qemu_cond_wait_bql(first_cpu->halt_cond);
        } else {
            exact_jump(next);
        }
        return 0;
    }
    return next > INT32_MAX ? icount_round(INT32_MAX) : icount_round(next);
}

/* Executes at most this many instructions. Returns why it does no more. */
static int exact_execute(CPUState *cpu, int64_t instructions)
{
    int reason;

    current_cpu = cpu;
    qemu_clock_enable(QEMU_CLOCK_VIRTUAL,
                      (cpu->singlestep_enabled & SSTEP_NOTIMER) == 0);
    bql_unlock();
    cpu->icount_budget = instructions;
    cpu->neg.icount_decr.u16.low = MIN(0xffff, instructions);
    cpu->icount_extra = instructions - cpu->neg.icount_decr.u16.low;
    reason = tcg_cpu_exec(cpu);
    icount_process_data(cpu);
    bql_lock();
    if (reason == EXCP_DEBUG) {
        cpu_handle_guest_debug(cpu);
    }
    return reason;
}

static void exact_next_turn(CPUState *cpu)
{
    exact.cpu = cpu;
    exact.left = exact_turn();
}

void exact_run(void)
{
    if (!exact.cpu) {
        exact_next_turn(first_cpu);
    }
    for (;;) {
        int64_t instructions, before;
        int reason;

        /* The main loop gets its chance. */
        bql_unlock();
        bql_lock();
        exact_wait();
        if (exact_stop()) {
            continue;
        }
        instructions = exact_run_timers();
        if (!instructions) {
            continue;
        }
        before = icount_get_raw();
        reason = exact_execute(exact.cpu, MIN(exact.left, instructions));
        exact.left -= icount_get_raw() - before;
        if (exact.left == 0 ||
            (reason != EXCP_INTERRUPT && reason != EXCP_DEBUG)) {
            if (exact.left == 0) {
                exact_may_rest(exact.cpu);
            }
            if (exact.resting && reason == EXCP_YIELD) {
                exact.rest_pauses--;
            }
            exact_next_turn(exact_next(exact.cpu));
        }
    }
}
