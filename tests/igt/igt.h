/* SPDX-License-Identifier: MIT */
/*
 * The part of IGT GPU Tools' interface that the tests in this folder use, so that they build
 * without IGT and go there unchanged. There, igt.h is IGT's own.
 *
 * A subtest ends by the first assertion that fails, or by a requirement that is not met. The last
 * line of the output is "N passed, N failed"; the status is IGT's: 0, 77 if every subtest was
 * skipped, 98 if one failed.
 *
 *   --list-subtests      prints their names
 *   --run-subtest NAME   runs those that match (* and ?); NPU_TESTS=NAME does the same
 */
#ifndef IGT_H
#define IGT_H

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#define IGT_EXIT_SUCCESS 0
#define IGT_EXIT_SKIP	 77
#define IGT_EXIT_FAILURE 98

static jmp_buf igt_subtest_jmpbuf;

static struct {
	const char *pattern; /* subtests to run; NULL: all */
	const char *subtest; /* running one; NULL: a fixture runs */
	struct timespec begun;
	bool list;   /* only print the names */
	bool broken; /* a fixture has failed or was skipped */
	unsigned int passed, failed, skipped;
} igt_state;

static inline void igt_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline void igt_print(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	fflush(stdout);
}

/* Ends the fixture or the subtest that runs. */
static inline __attribute__((noreturn)) void igt_end(const char *verdict, unsigned int *count)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (igt_state.subtest) {
		double seconds = (double)(now.tv_sec - igt_state.begun.tv_sec) +
				 (double)(now.tv_nsec - igt_state.begun.tv_nsec) / 1e9;

		igt_print("Subtest %s: %s (%.3fs)\n", igt_state.subtest, verdict, seconds);
		(*count)++;
	} else {
		igt_state.broken = true;
		igt_state.failed += count == &igt_state.failed;
	}
	longjmp(igt_subtest_jmpbuf, 1);
}

static inline __attribute__((noreturn)) void igt_success(void)
{
	igt_end("SUCCESS", &igt_state.passed);
}

static inline bool igt_run_subtest(const char *name)
{
	if (igt_state.pattern && fnmatch(igt_state.pattern, name, 0))
		return false;
	if (igt_state.list) {
		igt_print("%s\n", name);
		return false;
	}
	igt_print("Starting subtest: %s\n", name);
	igt_state.subtest = name;
	clock_gettime(CLOCK_MONOTONIC, &igt_state.begun);
	if (!igt_state.broken)
		return true;
	igt_print("Subtest %s: SKIP\n", name);
	igt_state.skipped++;
	return false;
}

/* Fixtures run once each, and not where names are listed. */
static inline bool igt_begin_fixture(void)
{
	igt_state.subtest = NULL;
	return !igt_state.list && !igt_state.broken;
}

static inline int igt_run(int argc, char **argv, void (*body)(void))
{
	igt_state.pattern = getenv("NPU_TESTS");
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--list-subtests")) {
			igt_state.list = true;
		} else if (!strcmp(argv[i], "--run-subtest") && i + 1 < argc) {
			igt_state.pattern = argv[++i];
		} else {
			igt_print("usage: %s [--list-subtests] [--run-subtest NAME]\n", argv[0]);
			return 2;
		}
	}
	body();
	if (igt_state.list)
		return IGT_EXIT_SUCCESS;
	igt_print("%u passed, %u failed\n", igt_state.passed, igt_state.failed);
	if (igt_state.failed)
		return IGT_EXIT_FAILURE;
	return igt_state.passed ? IGT_EXIT_SUCCESS : IGT_EXIT_SKIP;
}

/* int igt_main() { ... } */
#define igt_main()                                                                                 \
	igt_main_is_no_function(void);                                                             \
	static void igt_real_main(void);                                                           \
	int main(int argc, char **argv)                                                            \
	{                                                                                          \
		return igt_run(argc, argv, igt_real_main);                                         \
	}                                                                                          \
	static void igt_real_main(void)

#define igt_fixture()                                                                              \
	for (volatile bool igt_once = igt_begin_fixture();                                         \
	     igt_once && setjmp(igt_subtest_jmpbuf) == 0; igt_once = false)
#define igt_subtest(name)                                                                          \
	for (; igt_run_subtest(name) && setjmp(igt_subtest_jmpbuf) == 0; igt_success())
#define igt_describe(words)	    (void)(words)
#define IGT_TEST_DESCRIPTION(words) extern const char *igt_no_description

#define igt_info(...) igt_print(__VA_ARGS__)

#define igt_skip(...)                                                                              \
	do {                                                                                       \
		igt_print(__VA_ARGS__);                                                            \
		igt_end("SKIP", &igt_state.skipped);                                               \
	} while (0)
#define igt_require_f(condition, ...)                                                              \
	do {                                                                                       \
		if (!(condition))                                                                  \
			igt_skip(__VA_ARGS__);                                                     \
	} while (0)
#define igt_require(condition)                                                                     \
	igt_require_f(condition, "Test requirement not met: %s\n", #condition)

#define igt_assert_f(condition, ...)                                                               \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			int igt_errno = errno;                                                     \
			igt_print("%s:%d: failed assertion: %s (last errno: %d, %s)\n", __FILE__,  \
				  __LINE__, #condition, igt_errno, strerror(igt_errno));           \
			igt_print("" __VA_ARGS__);                                                 \
			igt_end("FAIL", &igt_state.failed);                                        \
		}                                                                                  \
	} while (0)
#define igt_assert(condition) igt_assert_f(condition, "%s", "")
#define igt_assert_cmp(type, format, a, operation, b)                                              \
	do {                                                                                       \
		type igt_a = (a), igt_b = (b);                                                     \
		igt_assert_f(igt_a operation igt_b,                                                \
			     "error: %" format " !" #operation " %" format "\n", igt_a, igt_b);    \
	} while (0)
#define igt_assert_eq(a, b)	 igt_assert_cmp(int, "d", a, ==, b)
#define igt_assert_neq(a, b)	 igt_assert_cmp(int, "d", a, !=, b)
#define igt_assert_lte(a, b)	 igt_assert_cmp(int, "d", a, <=, b)
#define igt_assert_eq_u32(a, b)	 igt_assert_cmp(uint32_t, PRIu32, a, ==, b)
#define igt_assert_eq_u64(a, b)	 igt_assert_cmp(uint64_t, PRIu64, a, ==, b)
#define igt_assert_neq_u32(a, b) igt_assert_cmp(uint32_t, PRIu32, a, !=, b)
#define igt_assert_neq_u64(a, b) igt_assert_cmp(uint64_t, PRIu64, a, !=, b)
#define igt_assert_fd(fd)	 igt_assert_f((fd) >= 0, "file descriptor %d\n", fd)

/* 0, or -1 and errno; a signal repeats the call. */
static inline int igt_ioctl(int fd, unsigned long request, void *arg)
{
	int ret;

	do {
		ret = ioctl(fd, request, arg);
	} while (ret == -1 && (errno == EINTR || errno == EAGAIN));
	return ret;
}

#define do_ioctl(fd, request, arg)                                                                 \
	do {                                                                                       \
		igt_assert_eq(igt_ioctl(fd, request, arg), 0);                                     \
		errno = 0;                                                                         \
	} while (0)
#define do_ioctl_err(fd, request, arg, expected)                                                   \
	do {                                                                                       \
		igt_assert_eq(igt_ioctl(fd, request, arg), -1);                                    \
		igt_assert_eq(errno, expected);                                                    \
		errno = 0;                                                                         \
	} while (0)

#endif
