// SPDX-License-Identifier: MIT
/*
 * Every ioctl of the QNPU accel driver, with good and with bad arguments.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/sync_file.h>

#include "drm.h"
#include "igt.h"
#include "npu_accel.h"
#include "npu_isa.h"

/**
 * TEST: qnpu
 * Description: Interface of the QNPU accel driver
 * Category: Core
 * Mega feature: General Core features
 * Sub-category: accel
 * Functionality: uapi
 */

IGT_TEST_DESCRIPTION("Every ioctl of the QNPU accel driver, with good and with bad arguments.");

#define DRIVER_NAME "qnpu"
#define NODES	    64
#define BO_SIZE	    8192u
#define NO_HANDLE   0x7fffffffu
#define SEC_NS	    1000000000ll
/* Long enough for a short job on a busy host. */
#define JOB_NS (120 * SEC_NS)

static int fd = -1;

static int open_node(void)
{
	char path[64], name[32];

	for (int i = 0; i < NODES; i++) {
		struct drm_version version = {.name = name, .name_len = sizeof(name) - 1};
		int node;

		snprintf(path, sizeof(path), "/dev/accel/accel%d", i);
		node = open(path, O_RDWR | O_CLOEXEC);
		if (node < 0)
			continue;
		memset(name, 0, sizeof(name));
		if (!igt_ioctl(node, DRM_IOCTL_VERSION, &version) && !strcmp(name, DRIVER_NAME))
			return node;
		close(node);
	}
	return -1;
}

static int64_t deadline(int64_t ns)
{
	struct timespec now;

	igt_assert_eq(clock_gettime(CLOCK_MONOTONIC, &now), 0);
	return now.tv_sec * SEC_NS + now.tv_nsec + ns;
}

static int query(uint32_t type, void *answer, uint32_t *size)
{
	struct drm_npu_dev_query args = {.type = type, .size = *size, .pointer = (uintptr_t)answer};
	int ret = igt_ioctl(fd, DRM_IOCTL_NPU_DEV_QUERY, &args);

	*size = args.size;
	return ret;
}

static struct drm_npu_dev_info dev_info(void)
{
	struct drm_npu_dev_info info = {};
	uint32_t size = sizeof(info);

	igt_assert_eq(query(DRM_NPU_QUERY_DEV, &info, &size), 0);
	igt_assert_eq_u32(size, sizeof(info));
	return info;
}

/* Buffers */

static struct drm_npu_bo_create bo_create(uint64_t size, uint32_t flags)
{
	struct drm_npu_bo_create args = {.size = size, .flags = flags};

	do_ioctl(fd, DRM_IOCTL_NPU_BO_CREATE, &args);
	igt_assert_neq_u32(args.handle, 0);
	return args;
}

static void *bo_map(int file, uint64_t offset, size_t size)
{
	void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)offset);

	igt_assert(map != MAP_FAILED);
	return map;
}

static void bo_sync(uint32_t handle, uint32_t direction)
{
	struct drm_npu_bo_sync args = {.handle = handle, .direction = direction, .size = BO_SIZE};

	do_ioctl(fd, DRM_IOCTL_NPU_BO_SYNC, &args);
}

static void bo_close(int file, uint32_t handle)
{
	struct drm_gem_close args = {.handle = handle};

	do_ioctl(file, DRM_IOCTL_GEM_CLOSE, &args);
}

static bool is_filled(const uint8_t *bytes, size_t size, uint8_t value)
{
	return bytes[0] == value && !memcmp(bytes, bytes + 1, size - 1);
}

/* Contexts and syncobjs */

static uint32_t ctx_create(void)
{
	struct drm_npu_ctx_create args = {.priority = DRM_NPU_PRIORITY_NORMAL};

	do_ioctl(fd, DRM_IOCTL_NPU_CTX_CREATE, &args);
	igt_assert_neq_u32(args.ctx_id, 0);
	return args.ctx_id;
}

static void ctx_destroy(uint32_t ctx)
{
	struct drm_npu_ctx_destroy args = {.ctx_id = ctx};

	do_ioctl(fd, DRM_IOCTL_NPU_CTX_DESTROY, &args);
}

static uint32_t new_syncobj(uint32_t flags)
{
	struct drm_syncobj_create args = {.flags = flags};

	do_ioctl(fd, DRM_IOCTL_SYNCOBJ_CREATE, &args);
	return args.handle;
}

static void drop_syncobj(uint32_t handle)
{
	struct drm_syncobj_destroy args = {.handle = handle};

	do_ioctl(fd, DRM_IOCTL_SYNCOBJ_DESTROY, &args);
}

static int wait_point(uint32_t handle, uint64_t point, int64_t ns)
{
	struct drm_syncobj_timeline_wait args = {
	    .handles = (uintptr_t)&handle,
	    .points = (uintptr_t)&point,
	    .timeout_nsec = deadline(ns),
	    .count_handles = 1,
	    .flags = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT,
	};

	return igt_ioctl(fd, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &args);
}

/*
 * A job of one command in a buffer of its own: it fills the first bytes of another buffer, or does
 * nothing.
 */
struct job {
	struct drm_npu_bo_create commands, target;
	struct drm_npu_region regions[2];
	struct drm_npu_stream stream;
	struct drm_npu_sync in, out;
	struct drm_npu_job args;
	uint8_t *map;
};

static void job_init(struct job *job)
{
	memset(job, 0, sizeof(*job));
	job->commands = bo_create(BO_SIZE, DRM_NPU_BO_SYSTEM);
	job->target = bo_create(BO_SIZE, DRM_NPU_BO_SYSTEM);
	job->map = bo_map(fd, job->target.mmap_offset, BO_SIZE);
	job->regions[0] = (struct drm_npu_region){
	    .handle = job->commands.handle, .access = DRM_NPU_REGION_READ, .size = BO_SIZE};
	job->regions[1] =
	    (struct drm_npu_region){.handle = job->target.handle,
				    .access = DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE,
				    .size = BO_SIZE};
	job->stream = (struct drm_npu_stream){.gdma_count = 1};
	job->args = (struct drm_npu_job){
	    .regions = (uintptr_t)job->regions,
	    .region_count = 2,
	    .region_stride = sizeof(job->regions[0]),
	    .streams = (uintptr_t)&job->stream,
	    .stream_count = 1,
	    .stream_stride = sizeof(job->stream),
	    .in_syncs = (uintptr_t)&job->in,
	    .out_syncs = (uintptr_t)&job->out,
	    .sync_stride = sizeof(job->in),
	};
}

static void job_command(struct job *job, const void *command)
{
	uint8_t *map = bo_map(fd, job->commands.mmap_offset, BO_SIZE);

	memcpy(map, command, NPU_CMD_BYTES);
	munmap(map, BO_SIZE);
	bo_sync(job->commands.handle, DRM_NPU_SYNC_TO_DEVICE);
}

static void job_nop(struct job *job)
{
	struct npu_cmd command = {.opcode = NPU_OP_NOP};

	job_init(job);
	job_command(job, &command);
}

static void job_fill(struct job *job, uint8_t value)
{
	struct npu_cmd_fill command = {
	    .opcode = NPU_OP_FILL,
	    .value = value,
	    .dst_region = 1,
	    .dst_dtype = NPU_DTYPE_U8,
	    .dims = {1, 1, 1, 1, 1, BO_SIZE},
	    .dst_stride = {0, 0, 0, 0, 0, 1},
	};

	job_init(job);
	job_command(job, &command);
}

static void job_fini(struct job *job)
{
	munmap(job->map, BO_SIZE);
	bo_close(fd, job->target.handle);
	bo_close(fd, job->commands.handle);
}

static int job_submit(uint32_t ctx, struct job *job)
{
	struct drm_npu_submit args = {
	    .ctx_id = ctx,
	    .jobs = (uintptr_t)&job->args,
	    .job_count = 1,
	    .job_stride = sizeof(job->args),
	};

	return igt_ioctl(fd, DRM_IOCTL_NPU_SUBMIT, &args);
}

/* The errno of a finished job. */
static int job_wait(uint32_t ctx, uint64_t seqno)
{
	struct drm_npu_wait args = {.ctx_id = ctx, .seqno = seqno, .timeout_ns = deadline(JOB_NS)};

	do_ioctl(fd, DRM_IOCTL_NPU_WAIT, &args);
	igt_assert_eq_u32(args.known, 1);
	return args.error;
}

static bool job_has_filled(struct job *job, uint8_t value)
{
	bo_sync(job->target.handle, DRM_NPU_SYNC_FROM_DEVICE);
	return is_filled(job->map, BO_SIZE, value);
}

/* The call fails with this errno when one field of its good arguments is changed. */
#define REFUSED(request, good, error, change)                                                      \
	do {                                                                                       \
		typeof(good) bad = (good);                                                         \
		bad.change;                                                                        \
		igt_info("%s: %s\n", #request, #change);                                           \
		do_ioctl_err(fd, request, &bad, error);                                            \
	} while (0)

/**
 * SUBTEST: version
 * Description: Name and major version of the driver; calls that need a master fail.
 */
static void version(void)
{
	char name[32] = "";
	struct drm_version args = {.name = name, .name_len = sizeof(name) - 1};
	struct drm_auth auth = {};

	do_ioctl(fd, DRM_IOCTL_VERSION, &args);
	igt_assert(!strcmp(name, DRIVER_NAME));
	igt_assert_eq(args.version_major, 1);
	igt_assert_eq(igt_ioctl(fd, DRM_IOCTL_GET_MAGIC, &auth), -1);
}

/**
 * SUBTEST: query
 * Description: Every type of query reports its size, and answers into shorter and longer buffers.
 */
static void query_sizes(void)
{
	const uint32_t sizes[] = {
	    [DRM_NPU_QUERY_DEV] = sizeof(struct drm_npu_dev_info),
	    [DRM_NPU_QUERY_MEMORY] = sizeof(struct drm_npu_memory_info),
	    [DRM_NPU_QUERY_STATUS] = sizeof(struct drm_npu_status_info),
	    [DRM_NPU_QUERY_TIME] = sizeof(struct drm_npu_time_info),
	    [DRM_NPU_QUERY_WATCH] = sizeof(struct drm_npu_watch_info),
	};

	for (uint32_t type = 0; type < sizeof(sizes) / sizeof(sizes[0]); type++) {
		uint8_t answer[1024];
		uint32_t size = 0;

		igt_assert_eq(query(type, NULL, &size), 0);
		igt_assert_eq_u32(size, sizes[type]);

		memset(answer, 0xff, sizeof(answer));
		size = sizeof(answer);
		igt_assert_eq(query(type, answer, &size), 0);
		igt_assert(is_filled(answer + sizes[type], sizeof(answer) - sizes[type], 0));

		memset(answer, 0xff, sizeof(answer));
		size = 4;
		igt_assert_eq(query(type, answer, &size), 0);
		igt_assert(is_filled(answer + 4, sizeof(answer) - 4, 0xff));
	}
}

/**
 * SUBTEST: query-bad-args
 * Description: Unknown types and unreadable pointers are refused.
 */
static void query_bad_args(void)
{
	struct drm_npu_dev_info info;
	struct drm_npu_dev_query good = {
	    .type = DRM_NPU_QUERY_DEV, .size = sizeof(info), .pointer = (uintptr_t)&info};

	REFUSED(DRM_IOCTL_NPU_DEV_QUERY, good, EINVAL, type = 0x7fff);
	REFUSED(DRM_IOCTL_NPU_DEV_QUERY, good, EINVAL, type = ~0u);
	REFUSED(DRM_IOCTL_NPU_DEV_QUERY, good, EFAULT, pointer = 8);
}

/**
 * SUBTEST: bo-create-mmap
 * Description: A new buffer is zero, keeps what is written to it, and is gone when it is closed.
 */
static void bo_create_mmap(uint32_t place)
{
	struct drm_npu_bo_create bo = bo_create(BO_SIZE - 1, place);
	struct drm_gem_close again = {.handle = bo.handle};
	struct drm_npu_dev_info info = dev_info();
	uint8_t *map;

	igt_assert_eq_u64(bo.size % (uint64_t)sysconf(_SC_PAGESIZE), 0);
	igt_assert(bo.va >= info.va_start && bo.va + bo.size <= info.va_end);

	map = bo_map(fd, bo.mmap_offset, BO_SIZE);
	igt_assert(is_filled(map, BO_SIZE, 0));
	memset(map, 0x5a, BO_SIZE);
	munmap(map, BO_SIZE);
	map = bo_map(fd, bo.mmap_offset, BO_SIZE);
	igt_assert(is_filled(map, BO_SIZE, 0x5a));
	munmap(map, BO_SIZE);

	bo_close(fd, bo.handle);
	do_ioctl_err(fd, DRM_IOCTL_GEM_CLOSE, &again, EINVAL);
	igt_assert(mmap(NULL, BO_SIZE, PROT_READ, MAP_SHARED, fd, (off_t)bo.mmap_offset) ==
		   MAP_FAILED);
}

/**
 * SUBTEST: bo-create-bad-args
 * Description: Sizes and flags that no buffer can have are refused.
 */
static void bo_create_bad_args(void)
{
	struct drm_npu_bo_create good = {.size = BO_SIZE, .flags = DRM_NPU_BO_SYSTEM};

	REFUSED(DRM_IOCTL_NPU_BO_CREATE, good, EINVAL, size = 0);
	REFUSED(DRM_IOCTL_NPU_BO_CREATE, good, EINVAL, flags = 0);
	REFUSED(DRM_IOCTL_NPU_BO_CREATE, good, EINVAL, flags = DRM_NPU_BO_CARD | DRM_NPU_BO_SYSTEM);
	REFUSED(DRM_IOCTL_NPU_BO_CREATE, good, EINVAL, flags |= 1u << 31);
	REFUSED(DRM_IOCTL_NPU_BO_CREATE, good, EINVAL, flags |= DRM_NPU_BO_SEALED);
}

/**
 * SUBTEST: bo-info
 * Description: What a handle is; a handle of another file is none.
 */
static void bo_info(void)
{
	struct drm_npu_bo_create bo = bo_create(BO_SIZE, DRM_NPU_BO_SYSTEM);
	struct drm_npu_bo_info info = {.handle = bo.handle};
	int other = open_node();

	do_ioctl(fd, DRM_IOCTL_NPU_BO_INFO, &info);
	igt_assert_eq_u32(info.flags, DRM_NPU_BO_SYSTEM);
	igt_assert_eq_u64(info.size, bo.size);
	igt_assert_eq_u64(info.va, bo.va);
	igt_assert_eq_u64(info.mmap_offset, bo.mmap_offset);

	igt_assert_fd(other);
	do_ioctl_err(other, DRM_IOCTL_NPU_BO_INFO, &info, ENOENT);
	close(other);
	REFUSED(DRM_IOCTL_NPU_BO_INFO, info, ENOENT, handle = NO_HANDLE);
	bo_close(fd, bo.handle);
}

/**
 * SUBTEST: bo-sync
 * Description: Either direction and both, and ranges beyond the buffer.
 */
static void bo_sync_args(void)
{
	struct drm_npu_bo_create bo = bo_create(BO_SIZE, DRM_NPU_BO_SYSTEM);
	struct drm_npu_bo_sync good = {
	    .handle = bo.handle, .direction = DRM_NPU_SYNC_TO_DEVICE, .size = BO_SIZE};

	bo_sync(bo.handle, DRM_NPU_SYNC_TO_DEVICE);
	bo_sync(bo.handle, DRM_NPU_SYNC_FROM_DEVICE);
	bo_sync(bo.handle, DRM_NPU_SYNC_TO_DEVICE | DRM_NPU_SYNC_FROM_DEVICE);

	REFUSED(DRM_IOCTL_NPU_BO_SYNC, good, ENOENT, handle = NO_HANDLE);
	REFUSED(DRM_IOCTL_NPU_BO_SYNC, good, EINVAL, direction = 0);
	REFUSED(DRM_IOCTL_NPU_BO_SYNC, good, EINVAL, direction = 1u << 31);
	REFUSED(DRM_IOCTL_NPU_BO_SYNC, good, EINVAL, offset = 1);
	REFUSED(DRM_IOCTL_NPU_BO_SYNC, good, EINVAL, offset = UINT64_MAX);
	REFUSED(DRM_IOCTL_NPU_BO_SYNC, good, EINVAL, size = UINT64_MAX);
	bo_close(fd, bo.handle);
}

/**
 * SUBTEST: bo-seal
 * Description: A sealed buffer cannot be mapped, jobs only read it, and sealing twice is no error.
 */
static void bo_seal(void)
{
	struct drm_npu_bo_seal good, args;
	struct drm_npu_bo_info info;
	uint32_t ctx = ctx_create();
	struct job job;

	job_nop(&job);
	good = args = (struct drm_npu_bo_seal){.handle = job.target.handle};
	REFUSED(DRM_IOCTL_NPU_BO_SEAL, good, ENOENT, handle = NO_HANDLE);
	REFUSED(DRM_IOCTL_NPU_BO_SEAL, good, EINVAL, pad = 1);

	do_ioctl(fd, DRM_IOCTL_NPU_BO_SEAL, &args);
	do_ioctl(fd, DRM_IOCTL_NPU_BO_SEAL, &args);
	info = (struct drm_npu_bo_info){.handle = job.target.handle};
	do_ioctl(fd, DRM_IOCTL_NPU_BO_INFO, &info);
	igt_assert_eq_u32(info.flags & DRM_NPU_BO_SEALED, DRM_NPU_BO_SEALED);
	igt_assert(mmap(NULL, BO_SIZE, PROT_READ, MAP_SHARED, fd, (off_t)job.target.mmap_offset) ==
		   MAP_FAILED);
	igt_assert_eq(errno, EACCES);

	igt_assert_eq(job_submit(ctx, &job), -1);
	job.regions[1].access = DRM_NPU_REGION_READ;
	igt_assert_eq(job_submit(ctx, &job), 0);
	igt_assert_eq(job_wait(ctx, job.args.seqno), 0);
	job_fini(&job);
	ctx_destroy(ctx);
}

/**
 * SUBTEST: bo-wait
 * Description: A wait for an idle buffer returns at once; bad flags and handles are refused.
 */
static void bo_wait(void)
{
	struct drm_npu_bo_create bo = bo_create(BO_SIZE, DRM_NPU_BO_SYSTEM);
	struct drm_npu_bo_wait good = {.handle = bo.handle, .timeout_ns = deadline(JOB_NS)};
	struct drm_npu_bo_wait args = good;

	do_ioctl(fd, DRM_IOCTL_NPU_BO_WAIT, &args);
	args.flags = DRM_NPU_BO_WAIT_WRITERS;
	do_ioctl(fd, DRM_IOCTL_NPU_BO_WAIT, &args);
	REFUSED(DRM_IOCTL_NPU_BO_WAIT, good, ENOENT, handle = NO_HANDLE);
	REFUSED(DRM_IOCTL_NPU_BO_WAIT, good, EINVAL, flags = 2);
	REFUSED(DRM_IOCTL_NPU_BO_WAIT, good, EINVAL, flags = 1u << 31);
	bo_close(fd, bo.handle);
}

/**
 * SUBTEST: userptr
 * Description: Memory of the process as a buffer, which can be neither mapped nor sealed.
 */
static void userptr(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *memory =
	    mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct drm_npu_bo_userptr good = {.addr = (uintptr_t)memory, .size = 2 * page};
	struct drm_npu_bo_userptr args = good;
	struct drm_npu_bo_info info;
	struct drm_npu_bo_seal seal;

	igt_assert(memory != MAP_FAILED);
	memset(memory, 1, 2 * page);
	REFUSED(DRM_IOCTL_NPU_BO_USERPTR, good, EINVAL, addr += 1);
	REFUSED(DRM_IOCTL_NPU_BO_USERPTR, good, EINVAL, size = 0);
	REFUSED(DRM_IOCTL_NPU_BO_USERPTR, good, EINVAL, size = page + 1);
	REFUSED(DRM_IOCTL_NPU_BO_USERPTR, good, EINVAL, flags = 1u << 31);
	REFUSED(DRM_IOCTL_NPU_BO_USERPTR, good, EINVAL, flags = 2);
	REFUSED(DRM_IOCTL_NPU_BO_USERPTR, good, EFAULT, addr = 0);

	do_ioctl(fd, DRM_IOCTL_NPU_BO_USERPTR, &args);
	info = (struct drm_npu_bo_info){.handle = args.handle};
	do_ioctl(fd, DRM_IOCTL_NPU_BO_INFO, &info);
	igt_assert(info.flags & DRM_NPU_BO_PINNED);
	seal = (struct drm_npu_bo_seal){.handle = args.handle};
	do_ioctl_err(fd, DRM_IOCTL_NPU_BO_SEAL, &seal, EOPNOTSUPP);
	bo_close(fd, args.handle);
	munmap(memory, 2 * page);
}

/**
 * SUBTEST: ctx-create-destroy
 * Description: Contexts come and go; bad priorities, cores and flags are refused.
 */
static void ctx_create_destroy(void)
{
	struct drm_npu_ctx_create good = {.priority = DRM_NPU_PRIORITY_NORMAL};
	uint32_t first = ctx_create(), second = ctx_create();
	struct drm_npu_ctx_destroy args = {.ctx_id = first};

	igt_assert_neq_u32(first, second);
	REFUSED(DRM_IOCTL_NPU_CTX_DESTROY, args, EINVAL, pad = 1);
	ctx_destroy(first);
	do_ioctl_err(fd, DRM_IOCTL_NPU_CTX_DESTROY, &args, ENOENT);
	ctx_destroy(second);

	REFUSED(DRM_IOCTL_NPU_CTX_CREATE, good, EINVAL, priority = 4);
	REFUSED(DRM_IOCTL_NPU_CTX_CREATE, good, EINVAL, core_mask = 1u << 31);
	REFUSED(DRM_IOCTL_NPU_CTX_CREATE, good, EINVAL, flags = 1);
}

/**
 * SUBTEST: ctx-query
 * Description: A context counts what was submitted to it, and its fence page can be mapped to read.
 */
static void ctx_query(void)
{
	struct drm_npu_ctx_create create = {.priority = DRM_NPU_PRIORITY_NORMAL};
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct drm_npu_ctx_query args = {};
	struct job job;
	void *fence;

	do_ioctl(fd, DRM_IOCTL_NPU_CTX_CREATE, &create);
	args.ctx_id = create.ctx_id;
	do_ioctl(fd, DRM_IOCTL_NPU_CTX_QUERY, &args);
	igt_assert_eq_u64(args.submitted, 0);
	job_nop(&job);
	igt_assert_eq(job_submit(create.ctx_id, &job), 0);
	igt_assert_eq(job_wait(create.ctx_id, job.args.seqno), 0);
	do_ioctl(fd, DRM_IOCTL_NPU_CTX_QUERY, &args);
	igt_assert_eq_u64(args.submitted, 1);
	igt_assert_eq_u64(args.completed, 1);
	igt_assert_eq_u64(args.errors, 0);

	fence = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, (off_t)create.fence_offset);
	igt_assert(fence != MAP_FAILED);
	munmap(fence, page);
	igt_assert(mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			(off_t)create.fence_offset) == MAP_FAILED);

	REFUSED(DRM_IOCTL_NPU_CTX_QUERY, args, EINVAL, pad = 1);
	REFUSED(DRM_IOCTL_NPU_CTX_QUERY, args, ENOENT, ctx_id = NO_HANDLE);
	job_fini(&job);
	ctx_destroy(create.ctx_id);
}

/* The submission of a good job with one change fails with this errno. */
#define NOT_SUBMITTED(error, change)                                                               \
	do {                                                                                       \
		struct job bad = job;                                                              \
		bad.args.regions = (uintptr_t)bad.regions;                                         \
		bad.args.streams = (uintptr_t)&bad.stream;                                         \
		bad.args.in_syncs = (uintptr_t)&bad.in;                                            \
		bad.args.out_syncs = (uintptr_t)&bad.out;                                          \
		bad.change;                                                                        \
		igt_info("SUBMIT: %s\n", #change);                                                 \
		igt_assert_eq(job_submit(ctx, &bad), -1);                                          \
		igt_assert_eq(errno, error);                                                       \
	} while (0)

/**
 * SUBTEST: submit-bad-args
 * Description: A submission with one bad field is refused, and nothing is queued.
 */
static void submit_bad_args(void)
{
	uint32_t ctx = ctx_create();
	struct drm_npu_submit good;
	struct drm_npu_ctx_query state = {.ctx_id = ctx};
	struct job job;

	job_nop(&job);
	good = (struct drm_npu_submit){.ctx_id = ctx,
				       .jobs = (uintptr_t)&job.args,
				       .job_count = 1,
				       .job_stride = sizeof(job.args)};
	REFUSED(DRM_IOCTL_NPU_SUBMIT, good, ENOENT, ctx_id = NO_HANDLE);
	REFUSED(DRM_IOCTL_NPU_SUBMIT, good, EINVAL, flags = 1);
	REFUSED(DRM_IOCTL_NPU_SUBMIT, good, EINVAL, job_count = 0);
	REFUSED(DRM_IOCTL_NPU_SUBMIT, good, EINVAL, job_count = ~0u);
	REFUSED(DRM_IOCTL_NPU_SUBMIT, good, EINVAL, job_stride = 8);
	REFUSED(DRM_IOCTL_NPU_SUBMIT, good, EFAULT, jobs = 8);

	NOT_SUBMITTED(EINVAL, args.pad = 1);
	NOT_SUBMITTED(EINVAL, args.flags = 1u << 31);
	NOT_SUBMITTED(EINVAL, args.stream_count = 0);
	NOT_SUBMITTED(EINVAL, args.region_count = ~0u);
	NOT_SUBMITTED(EINVAL, args.region_stride = 0);
	NOT_SUBMITTED(EINVAL, args.core_mask = 1u << 31);
	NOT_SUBMITTED(EFAULT, args.regions = 8);
	NOT_SUBMITTED(ENOENT, regions[1].handle = NO_HANDLE);
	NOT_SUBMITTED(EINVAL, regions[1].access = 0);
	NOT_SUBMITTED(EINVAL, regions[1].size = BO_SIZE + 1);
	NOT_SUBMITTED(EINVAL, regions[1].offset = UINT64_MAX);
	NOT_SUBMITTED(EINVAL, stream.gdma_region = 2);
	NOT_SUBMITTED(EINVAL, stream.gdma_offset = 64);
	NOT_SUBMITTED(EINVAL, stream.gdma_count = ~0u);

	do_ioctl(fd, DRM_IOCTL_NPU_CTX_QUERY, &state);
	igt_assert_eq_u64(state.submitted, 0);
	job_fini(&job);
	ctx_destroy(ctx);
}

/**
 * SUBTEST: submit-nop
 * Description: A job that does nothing finishes without an error, and the next one has the next
 * number.
 */
static void submit_nop(void)
{
	uint32_t ctx = ctx_create();
	struct job job;

	job_nop(&job);
	for (uint64_t seqno = 1; seqno <= 3; seqno++) {
		igt_assert_eq(job_submit(ctx, &job), 0);
		igt_assert_eq_u64(job.args.seqno, seqno);
		igt_assert_eq(job_wait(ctx, seqno), 0);
	}
	job_fini(&job);
	ctx_destroy(ctx);
}

/**
 * SUBTEST: submit-fill
 * Description: What a job writes to a buffer is there when the buffer is idle.
 */
static void submit_fill(void)
{
	uint32_t ctx = ctx_create();
	struct drm_npu_bo_wait idle;
	struct job job;

	job_fill(&job, 0xa5);
	igt_assert_eq(job_submit(ctx, &job), 0);
	idle =
	    (struct drm_npu_bo_wait){.handle = job.target.handle, .timeout_ns = deadline(JOB_NS)};
	do_ioctl(fd, DRM_IOCTL_NPU_BO_WAIT, &idle);
	igt_assert(job_has_filled(&job, 0xa5));
	igt_assert_eq(job_wait(ctx, job.args.seqno), 0);
	job_fini(&job);
	ctx_destroy(ctx);
}

/**
 * SUBTEST: submit-fault
 * Description: A command beyond its region fails the job with a fault, and the next job works.
 */
static void submit_fault(void)
{
	uint32_t ctx = ctx_create();
	struct drm_npu_wait args;
	struct job job;

	job_fill(&job, 1);
	job.regions[1].size = BO_SIZE / 2;
	igt_assert_eq(job_submit(ctx, &job), 0);
	args = (struct drm_npu_wait){
	    .ctx_id = ctx, .seqno = job.args.seqno, .timeout_ns = deadline(JOB_NS)};
	do_ioctl(fd, DRM_IOCTL_NPU_WAIT, &args);
	igt_assert_neq(args.error, 0);
	igt_assert_eq_u32(args.fault.status, NPU_STATUS_REGION_BOUNDS);
	igt_assert_eq_u32(args.fault.region, 1);

	job.regions[1].size = BO_SIZE;
	igt_assert_eq(job_submit(ctx, &job), 0);
	igt_assert_eq(job_wait(ctx, job.args.seqno), 0);
	job_fini(&job);
	ctx_destroy(ctx);
}

/**
 * SUBTEST: wait-bad-args
 * Description: A wait for a job that was not submitted, or of no context, is refused.
 */
static void wait_bad_args(void)
{
	uint32_t ctx = ctx_create();
	struct drm_npu_wait good = {.ctx_id = ctx, .seqno = 1, .timeout_ns = deadline(JOB_NS)};
	struct job job;

	job_nop(&job);
	igt_assert_eq(job_submit(ctx, &job), 0);
	igt_assert_eq(job_wait(ctx, 1), 0);
	REFUSED(DRM_IOCTL_NPU_WAIT, good, ENOENT, ctx_id = NO_HANDLE);
	REFUSED(DRM_IOCTL_NPU_WAIT, good, EINVAL, pad = 1);
	REFUSED(DRM_IOCTL_NPU_WAIT, good, EINVAL, seqno = 2);
	REFUSED(DRM_IOCTL_NPU_WAIT, good, EINVAL, seqno = UINT64_MAX);
	job_fini(&job);
	ctx_destroy(ctx);
}

/**
 * SUBTEST: syncobj-out
 * Description: A job signals a binary syncobj, and a point of a timeline.
 */
static void syncobj_out(uint64_t point)
{
	uint32_t ctx = ctx_create(), syncobj = new_syncobj(0);
	struct job job;

	job_nop(&job);
	job.out = (struct drm_npu_sync){.handle = syncobj, .point = point};
	job.args.out_sync_count = 1;
	NOT_SUBMITTED(EINVAL, out.flags = 1);
	NOT_SUBMITTED(ENOENT, out.handle = NO_HANDLE);
	igt_assert_eq(job_submit(ctx, &job), 0);
	igt_assert_eq(wait_point(syncobj, point, JOB_NS), 0);
	igt_assert_eq(job_wait(ctx, job.args.seqno), 0);
	drop_syncobj(syncobj);
	job_fini(&job);
	ctx_destroy(ctx);
}

/**
 * SUBTEST: syncobj-in
 * Description: A job waits for a job of another context; a syncobj without a fence is refused.
 */
static void syncobj_in(void)
{
	uint32_t ctx = ctx_create(), other = ctx_create(), syncobj = new_syncobj(0);
	struct job job, first;

	job_fill(&job, 2);
	job.in = (struct drm_npu_sync){.handle = syncobj};
	job.args.in_sync_count = 1;
	NOT_SUBMITTED(EINVAL, args.in_sync_count = 1);
	NOT_SUBMITTED(ENOENT, in.handle = NO_HANDLE);

	/* Both write the same buffer, ordered by the syncobj alone. */
	job_fill(&first, 1);
	first.regions[1].handle = job.target.handle;
	first.out = (struct drm_npu_sync){.handle = syncobj};
	first.args.out_sync_count = 1;
	first.args.flags = job.args.flags = DRM_NPU_JOB_EXPLICIT;
	igt_assert_eq(job_submit(other, &first), 0);
	igt_assert_eq(job_submit(ctx, &job), 0);
	igt_assert_eq(job_wait(ctx, job.args.seqno), 0);
	igt_assert(job_has_filled(&job, 2));
	igt_assert_eq(job_wait(other, first.args.seqno), 0);

	drop_syncobj(syncobj);
	job_fini(&first);
	job_fini(&job);
	ctx_destroy(other);
	ctx_destroy(ctx);
}

/**
 * SUBTEST: prime
 * Description: A buffer that is exported and imported by another file is the same memory.
 */
static void prime(void)
{
	struct drm_npu_bo_create bo = bo_create(BO_SIZE, DRM_NPU_BO_SYSTEM);
	struct drm_prime_handle out = {.handle = bo.handle, .flags = DRM_CLOEXEC | DRM_RDWR};
	struct drm_prime_handle in = {};
	struct drm_npu_bo_info info;
	int other = open_node();
	uint8_t *mine, *theirs;

	igt_assert_fd(other);
	do_ioctl(fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &out);
	igt_assert_fd(out.fd);
	in.fd = out.fd;
	do_ioctl(other, DRM_IOCTL_PRIME_FD_TO_HANDLE, &in);
	info = (struct drm_npu_bo_info){.handle = in.handle};
	do_ioctl(other, DRM_IOCTL_NPU_BO_INFO, &info);
	igt_assert_eq_u64(info.size, bo.size);

	mine = bo_map(fd, bo.mmap_offset, BO_SIZE);
	theirs = bo_map(other, info.mmap_offset, BO_SIZE);
	memset(mine, 0x3c, BO_SIZE);
	igt_assert(is_filled(theirs, BO_SIZE, 0x3c));
	munmap(mine, BO_SIZE);
	munmap(theirs, BO_SIZE);

	in.fd = -1;
	igt_assert_eq(igt_ioctl(other, DRM_IOCTL_PRIME_FD_TO_HANDLE, &in), -1);
	close(out.fd);
	bo_close(other, info.handle);
	close(other);
	bo_close(fd, bo.handle);
}

int igt_main()
{
	igt_fixture () {
		fd = open_node();
		igt_require_f(fd >= 0, "no node of the driver %s\n", DRIVER_NAME);
	}

	igt_describe("Name and version of the driver.");
	igt_subtest ("version")
		version();
	igt_describe("Every query, into buffers of any size.");
	igt_subtest ("query")
		query_sizes();
	igt_describe("Queries with bad arguments.");
	igt_subtest ("query-bad-args")
		query_bad_args();

	igt_describe("Life of a buffer in system memory.");
	igt_subtest ("bo-create-mmap")
		bo_create_mmap(DRM_NPU_BO_SYSTEM);
	igt_describe("Life of a buffer in card memory.");
	igt_subtest ("bo-create-mmap-card") {
		igt_require(dev_info().ddr_bytes);
		bo_create_mmap(DRM_NPU_BO_CARD);
	}
	igt_describe("Buffers with bad sizes and flags.");
	igt_subtest ("bo-create-bad-args")
		bo_create_bad_args();
	igt_describe("Information about a handle.");
	igt_subtest ("bo-info")
		bo_info();
	igt_describe("Cache maintenance of good and bad ranges.");
	igt_subtest ("bo-sync")
		bo_sync_args();
	igt_describe("A buffer becomes constant.");
	igt_subtest ("bo-seal")
		bo_seal();
	igt_describe("Waiting for an idle buffer.");
	igt_subtest ("bo-wait")
		bo_wait();
	igt_describe("Memory of the process as a buffer.");
	igt_subtest ("userptr")
		userptr();

	igt_describe("Life of contexts.");
	igt_subtest ("ctx-create-destroy")
		ctx_create_destroy();
	igt_describe("Counters of a context.");
	igt_subtest ("ctx-query")
		ctx_query();

	igt_describe("Submissions with bad arguments.");
	igt_subtest ("submit-bad-args")
		submit_bad_args();
	igt_describe("Jobs that do nothing.");
	igt_subtest ("submit-nop")
		submit_nop();
	igt_describe("A job that writes.");
	igt_subtest ("submit-fill")
		submit_fill();
	igt_describe("A job that fails.");
	igt_subtest ("submit-fault")
		submit_fault();
	igt_describe("Waits with bad arguments.");
	igt_subtest ("wait-bad-args")
		wait_bad_args();

	igt_describe("A job signals a binary syncobj.");
	igt_subtest ("syncobj-out")
		syncobj_out(0);
	igt_describe("A job signals a point of a timeline.");
	igt_subtest ("syncobj-out-timeline")
		syncobj_out(7);
	igt_describe("A job waits for another one.");
	igt_subtest ("syncobj-in")
		syncobj_in();
	igt_describe("Export and import.");
	igt_subtest ("prime")
		prime();

	igt_fixture ()
		close(fd);
}
