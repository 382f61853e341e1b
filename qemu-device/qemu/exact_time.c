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
 * same processor goes on with what is left of it.
 *
 * Nothing runs from the instant at which the guest switches the machine off,
 * or stops it, until the main loop has obeyed.
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
#include "system/cpu-timers.h"
#include "system/cpu-timers-internal.h"
#include "system/runstate.h"
#include "system/system.h"
#include "accel/tcg/tcg-accel-ops.h"
#include "accel/tcg/tcg-accel-ops-icount.h"
#include "exact.h"

/* Instructions of a turn where all are alike. */
#define TURN_FIXED 10000
/* The others have from TURN_MIN to almost TURN_MIN << TURN_DOUBLINGS. */
#define TURN_MIN 256
#define TURN_DOUBLINGS 7
/* A processor that is alone; its timers interrupt it much earlier. */
#define TURN_ALONE INT32_MAX

static struct {
    bool enabled;
    bool varied;                    /* turns differ in length */
    uint64_t random;                /* state of the generator */
    char *report;                   /* path, or NULL */
    Notifier exit;
} exact;

bool exact_enabled(void)
{
    return exact.enabled;
}

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
    if (parse_uint_full(seed, 10, &exact.random)) {
        error_setg(errp, "icount: exact is a number, not '%s'", seed);
        return false;
    }
    if (icount_enabled() != ICOUNT_PRECISE) {
        error_setg(errp, "icount: exact needs a fixed shift");
        return false;
    }
    exact.enabled = true;
    exact.varied = exact.random != 0;
    exact.report = g_strdup(qemu_opt_get(opts, "report"));
    if (exact.report) {
        exact.exit.notify = exact_write_report;
        qemu_add_exit_notifier(&exact.exit);
    }
    return true;
}

/* --- turns --------------------------------------------------------------- */

/* SplitMix64: any state will do, and no two seeds have the same sequence. */
static uint64_t exact_random(void)
{
    uint64_t x = exact.random += 0x9e3779b97f4a7c15ull;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

static int64_t exact_turn(void)
{
    int64_t least;

    if (!CPU_NEXT(first_cpu)) {
        return TURN_ALONE;
    }
    if (!exact.varied) {
        return TURN_FIXED;
    }
    least = TURN_MIN << exact_random() % TURN_DOUBLINGS;
    return least + exact_random() % least;
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

/*
 * Runs the timers that are due. Returns how many instructions there are until
 * the next one, and 0 when there is something else to do before the next
 * instruction.
 */
static int64_t exact_run_timers(void)
{
    int64_t ns = qemu_clock_deadline_ns_all(QEMU_CLOCK_VIRTUAL,
                                            QEMU_TIMER_ATTR_ALL);

    if (ns != 0 && all_cpu_threads_idle()) {
        if (ns < 0) {
            qemu_cond_wait_bql(first_cpu->halt_cond);
            return 0;
        }
        exact_jump(ns);
        ns = 0;
    }
    if (ns == 0) {
        qemu_clock_run_timers(QEMU_CLOCK_VIRTUAL);
        return 0;
    }
    return ns < 0 ? INT32_MAX : icount_round(MIN(ns, INT32_MAX));
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

void exact_run(void)
{
    CPUState *cpu = first_cpu;
    int64_t left = exact_turn();

    for (;;) {
        int64_t instructions, before;
        int reason;

        /* The main loop gets its chance. */
        bql_unlock();
        bql_lock();
        exact_wait();
        instructions = exact_run_timers();
        if (!instructions) {
            continue;
        }
        before = icount_get_raw();
        reason = exact_execute(cpu, MIN(left, instructions));
        left -= icount_get_raw() - before;
        if (left == 0 || (reason != EXCP_INTERRUPT && reason != EXCP_DEBUG)) {
            cpu = CPU_NEXT(cpu) ?: first_cpu;
            left = exact_turn();
        }
    }
}
