/* SPDX-License-Identifier: MIT */
/* Buffers shared between two cards: jobs of both, ordered by implicit fences, and removal of either card. */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/npu_machine.h"
#include "tests/guest/driver/npu_raw.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)
#define SIZE (MIB(2) + KIB(64))

static const uint32_t kinds[] = {DRM_NPU_BO_CARD, DRM_NPU_BO_SYSTEM};

/* A card, with a file and a context. */
struct card {
  int fd;
  uint32_t ctx;
  char device[32]; /* PCI address */
};

static struct card cards[2];
static int seal_rounds = 2000;

/* A rebind may give the card another node number. */
static bool card_try_open(struct card *card) {
  for (int number = 0; number < 64; number++) {
    struct drm_npu_dev_info info;
    char path[64], device[32];
    int fd;

    snprintf(path, sizeof(path), "/dev/accel/accel%d", number);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) continue;
    npu_info(fd, &info);
    snprintf(device, sizeof(device), "%04x:%02x:%02x.%u", info.pci_domain, info.pci_bus, info.pci_device,
             info.pci_function);
    if (card == &cards[1] && !card->device[0] && !strcmp(device, cards[0].device)) {
      close(fd);
      continue;
    }
    if (card->device[0] && strcmp(device, card->device)) {
      close(fd);
      continue;
    }
    strcpy(card->device, device);
    card->fd = fd;
    card->ctx = ctx_create(fd);
    return true;
  }
  return false;
}

/* The node of a plugged card appears a moment later. */
static void card_open(struct card *card) {
  for (int tries = 0; tries < 1000; tries++) {
    if (card_try_open(card)) return;
    usleep(10000);
  }
  fail_msg("there is no card %d: this test needs npu-vm --cards 2", (int)(card - cards));
}

static int set_up(void **state) {
  (void)state;
  set_parameter("budget_ms", 0); /* jobs of hours would exceed the budget of modelled time */
  for (int i = 0; i < 2; i++) card_open(&cards[i]);
  calibrate(cards[0].fd, cards[0].ctx);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) close(cards[i].fd);
  set_parameter("budget_ms", DEFAULT_BUDGET_MS);
  return 0;
}

static struct drm_npu_bo_info info_of(const struct card *card, const struct bo *bo) {
  struct drm_npu_bo_info info = {.handle = bo->handle};

  assert_int_equal(raw_ioctl(card->fd, DRM_IOCTL_NPU_BO_INFO, &info), 0);
  return info;
}

/* Exports from one card's file, imports into the other's. */
static void share(const struct card *from, const struct bo *bo, const struct card *to, struct bo *shared) {
  struct drm_prime_handle out = {.handle = bo->handle, .flags = DRM_CLOEXEC | DRM_RDWR}, in = {0};
  struct drm_npu_bo_info info;

  assert_int_equal(raw_ioctl(from->fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &out), 0);
  in.fd = out.fd;
  assert_int_equal(raw_ioctl(to->fd, DRM_IOCTL_PRIME_FD_TO_HANDLE, &in), 0);
  close(out.fd);
  *shared = (struct bo){.handle = in.handle};
  info = info_of(to, shared);
  *shared = (struct bo){.handle = in.handle, .size = info.size, .va = info.va, .mmap_offset = info.mmap_offset};
}

/* A job that fills a buffer, optionally after a delay; returns its number. */
static uint64_t start_fill(const struct card *card, const struct bo *bo, uint8_t value, uint32_t delay_ms) {
  struct stream stream;
  struct job job;
  uint64_t seqno;
  uint8_t region;

  stream_create(card->fd, 2, &stream);
  job_init(&job);
  job_gdma(&job, &stream);
  region = (uint8_t)job_region(&job, bo, RW);
  if (delay_ms) stream_slow_copy(&stream, region, delay_ms);
  stream_fill(&stream, region, 0, (uint32_t)bo->size, value);
  job.stream.gdma_count = stream.count;
  seqno = submit(card->fd, card->ctx, &job);
  stream_destroy(card->fd, &stream);
  return seqno;
}

static uint64_t start_copy(const struct card *card, const struct bo *from, const struct bo *to) {
  struct stream stream;
  struct job job;
  uint64_t seqno;
  uint8_t a, b;

  stream_create(card->fd, 1, &stream);
  job_init(&job);
  job_gdma(&job, &stream);
  a = (uint8_t)job_region(&job, from, DRM_NPU_REGION_READ);
  b = (uint8_t)job_region(&job, to, RW);
  stream_copy(&stream, a, 0, b, 0, (uint32_t)to->size);
  job.stream.gdma_count = 1;
  seqno = submit(card->fd, card->ctx, &job);
  stream_destroy(card->fd, &stream);
  return seqno;
}

/* Contents of a buffer as the card reads them. */
static void expect_filled(const struct card *card, const struct bo *bo, uint8_t value) {
  struct bo out;

  bo_create_mapped(card->fd, bo->size, DRM_NPU_BO_SYSTEM, &out);
  wait_ok(card->fd, card->ctx, start_copy(card, bo, &out));
  bo_sync(card->fd, &out, DRM_NPU_SYNC_FROM_DEVICE);
  for (uint64_t i = 0; i < out.size; i++)
    if (out.map[i] != value) fail_msg("%#x instead of %#x at %#llx", out.map[i], value, (unsigned long long)i);
  bo_destroy(card->fd, &out);
}

static void both_cards_use_one_buffer(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    for (int first = 0; first < 2; first++) {
      const struct card *maker = &cards[first], *other = &cards[!first];
      struct bo bo, shared;

      bo_create(maker->fd, SIZE, kinds[k], &bo);
      wait_ok(maker->fd, maker->ctx, start_fill(maker, &bo, 0x11, 0));
      share(maker, &bo, other, &shared);
      assert_int_equal(info_of(other, &shared).flags, DRM_NPU_BO_SYSTEM | DRM_NPU_BO_IMPORTED);
      /* The card buffer has moved to system memory, which both reach. */
      assert_int_equal(info_of(maker, &bo).flags, k ? DRM_NPU_BO_SYSTEM : DRM_NPU_BO_CARD | DRM_NPU_BO_EVICTED);
      expect_filled(other, &shared, 0x11);
      wait_ok(other->fd, other->ctx, start_fill(other, &shared, 0x22, 0));
      expect_filled(maker, &bo, 0x22);
      wait_ok(maker->fd, maker->ctx, start_fill(maker, &bo, 0x33, 0));
      expect_filled(other, &shared, 0x33);
      assert_int_equal(raw_bo_seal(maker->fd, bo.handle), -EBUSY);

      /* Without attachments it returns with the next job. */
      bo_destroy(other->fd, &shared);
      for (int tries = 0; tries < 100; tries++) {
        expect_filled(maker, &bo, 0x33);
        if (info_of(maker, &bo).flags == kinds[k]) break;
        usleep(50000);
      }
      assert_int_equal(info_of(maker, &bo).flags, kinds[k]);
      bo_destroy(maker->fd, &bo);
    }
  }
}

/* Another device could write it unnoticed. */
static void a_sealed_buffer_is_not_lent(void **state) {
  struct drm_prime_handle out = {.flags = DRM_CLOEXEC | DRM_RDWR}, in = {0};
  struct drm_npu_bo_wait wait = {0};
  struct bo bo;

  (void)state;
  for (int k = 0; k < 2; k++) {
    bo_create(cards[0].fd, SIZE, kinds[k], &bo);
    start_fill(&cards[0], &bo, 0x11, 0);
    wait.handle = bo.handle;
    wait.timeout_ns = deadline_ns(FOREVER_MS);
    assert_int_equal(raw_ioctl(cards[0].fd, DRM_IOCTL_NPU_BO_WAIT, &wait), 0);
    assert_int_equal(raw_bo_seal(cards[0].fd, bo.handle), 0);
    out.handle = bo.handle;
    assert_int_equal(raw_ioctl(cards[0].fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &out), 0);
    in.fd = out.fd;
    assert_int_equal(raw_ioctl(cards[1].fd, DRM_IOCTL_PRIME_FD_TO_HANDLE, &in), -EACCES);
    close(out.fd);
    expect_filled(&cards[0], &bo, 0x11);
    bo_destroy(cards[0].fd, &bo);
  }
}

/* A job of one card waits for the other card's job that writes its input, by implicit fences only. */
static void fences_go_across(void **state) {
  struct bo bo, shared, out;

  (void)state;
  bo_create(cards[0].fd, SIZE, DRM_NPU_BO_CARD, &bo);
  share(&cards[0], &bo, &cards[1], &shared);
  bo_create_mapped(cards[1].fd, SIZE, DRM_NPU_BO_SYSTEM, &out);
  for (int round = 0; round < 4; round++) {
    uint8_t value = (uint8_t)(0x40 + round);
    uint64_t fill, copy, refill;

    fill = start_fill(&cards[0], &bo, value, 300);
    copy = start_copy(&cards[1], &shared, &out);  /* reads afterwards, */
    refill = start_fill(&cards[0], &bo, 0xee, 0); /* and is not overtaken by the next writer */
    wait_ok(cards[1].fd, cards[1].ctx, copy);
    wait_ok(cards[0].fd, cards[0].ctx, fill);
    wait_ok(cards[0].fd, cards[0].ctx, refill);
    bo_sync(cards[1].fd, &out, DRM_NPU_SYNC_FROM_DEVICE);
    assert_true(is_filled(out.map, SIZE, value));
    memset(out.map, 0, SIZE);
  }
  bo_destroy(cards[1].fd, &shared);
  bo_destroy(cards[1].fd, &out);
  bo_destroy(cards[0].fd, &bo);
}

/* Pulling takes the kernel 5 s: one kind of buffer is enough. */
enum way { UNBOUND, PULLED };

/* The machine numbers its slots like the bus. */
static int slot_of(const struct card *card) { return strcmp(card->device, cards[card == &cards[0]].device) > 0; }

/* Returns when the driver has released it. */
static void goes(const struct card *card, enum way way) {
  char path[64];

  if (way == UNBOUND) {
    card_unbind(card->device);
    return;
  }
  machine_pull(slot_of(card));
  snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", card->device);
  for (int tries = 0; !access(path, F_OK); tries++) {
    if (tries > 3000) fail_msg("%s does not go", path);
    usleep(10000);
  }
}

static void comes_back(struct card *card, enum way way) {
  if (way == UNBOUND)
    card_bind(card->device);
  else
    machine_plug(slot_of(card));
  card_open(card);
  run_nop(card->fd, card->ctx);
}

/* The exporting card is removed during a job: the other card keeps the pages, which are not reused. */
static void the_exporter_goes(void **state) {
  (void)state;
  for (int k = 0; k <= 2; k++) {
    uint8_t *noise[32];
    struct bo bo, shared;

    bo_create(cards[0].fd, SIZE, kinds[k % 2], &bo);
    wait_ok(cards[0].fd, cards[0].ctx, start_fill(&cards[0], &bo, 0x51, 0));
    share(&cards[0], &bo, &cards[1], &shared);
    start_fill(&cards[0], &bo, 0x51, 2000);
    goes(&cards[0], k / 2);
    /* New allocations must not get the pages of the buffer. */
    for (int i = 0; i < 32; i++) {
      noise[i] = mmap(NULL, MIB(2), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      assert_ptr_not_equal(noise[i], MAP_FAILED);
      memset(noise[i], 0x77, MIB(2));
    }
    expect_filled(&cards[1], &shared, 0x51);
    wait_ok(cards[1].fd, cards[1].ctx, start_fill(&cards[1], &shared, 0x62, 0));
    expect_filled(&cards[1], &shared, 0x62);
    for (int i = 0; i < 32; i++) {
      assert_true(is_filled(noise[i], MIB(2), 0x77));
      munmap(noise[i], MIB(2));
    }
    close(cards[0].fd);
    expect_filled(&cards[1], &shared, 0x62);
    bo_destroy(cards[1].fd, &shared);
    run_nop(cards[1].fd, cards[1].ctx);
    comes_back(&cards[0], k / 2);
  }
}

/* The importing card is removed: its jobs end, and the exporter continues. */
static void the_importer_goes(void **state) {
  (void)state;
  for (int k = 0; k <= 2; k++) {
    struct drm_prime_handle out = {.flags = DRM_CLOEXEC};
    struct bo bo, shared;

    bo_create(cards[0].fd, SIZE, kinds[k % 2], &bo);
    share(&cards[0], &bo, &cards[1], &shared);
    start_fill(&cards[1], &shared, 0x99, 60000);
    goes(&cards[1], k / 2);
    /* Waits for the job of the other card, which has ended with it. */
    wait_ok(cards[0].fd, cards[0].ctx, start_fill(&cards[0], &bo, 0x73, 0));
    expect_filled(&cards[0], &bo, 0x73);
    /* The card is detached, though its file is still open: the buffer may leave system memory. */
    assert_int_equal(info_of(&cards[0], &bo).flags, kinds[k % 2]);
    out.handle = shared.handle;
    assert_int_equal(raw_ioctl(cards[1].fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &out), -ENODEV);
    close(cards[1].fd);
    expect_filled(&cards[0], &bo, 0x73);
    bo_destroy(cards[0].fd, &bo);
    comes_back(&cards[1], k / 2);
  }
}

/* A process that imports a buffer in use by the other card. */
struct importer {
  int dma_buf;
  pthread_t thread;
  volatile pid_t tid;
  volatile int ret;
};

static void on_signal(int number) { (void)number; }

static void *import_it(void *arg) {
  struct importer *importer = arg;
  struct drm_prime_handle in = {.fd = importer->dma_buf};

  importer->tid = (pid_t)syscall(SYS_gettid);
  importer->ret = ioctl(cards[1].fd, DRM_IOCTL_PRIME_FD_TO_HANDLE, &in) ? -errno : 0;
  return NULL;
}

static char state_of(pid_t tid) {
  char path[64], state;
  FILE *file;

  snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
  file = fopen(path, "r");
  if (!file) return 0;
  assert_int_equal(fscanf(file, "%*d %*s %c", &state), 1);
  fclose(file);
  return state;
}

/* An import waits for the other card's job, is interruptible, and blocks no other user of either card. */
static void an_import_can_be_interrupted(void **state) {
  struct sigaction action = {.sa_handler = on_signal};
  struct drm_prime_handle out = {.flags = DRM_CLOEXEC | DRM_RDWR};
  struct importer importer = {.ret = 1};
  struct drm_npu_wait wait;
  struct bo bo, other, shared;
  uint64_t seqno;

  (void)state;
  sigaction(SIGUSR1, &action, NULL);
  bo_create(cards[0].fd, SIZE, DRM_NPU_BO_CARD, &bo);
  out.handle = bo.handle;
  assert_int_equal(raw_ioctl(cards[0].fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &out), 0);
  importer.dma_buf = out.fd;
  seqno = start_fill(&cards[0], &bo, 0x11, 10000000); /* ends with its context */
  assert_int_equal(pthread_create(&importer.thread, NULL, import_it, &importer), 0);
  for (int tries = 0; !importer.tid || state_of(importer.tid) != 'S'; tries++) {
    if (tries > FOREVER_MS / 10)
      fail_msg("the import does not sleep, or cannot be interrupted; its result: %d", importer.ret);
    usleep(10000);
  }
  for (int i = 0; i < 2; i++) {
    bo_create(cards[i].fd, SIZE, DRM_NPU_BO_CARD, &other);
    assert_int_equal(raw_ioctl(cards[i].fd, DRM_IOCTL_NPU_BO_INFO, &(struct drm_npu_bo_info){.handle = other.handle}),
                     0);
    bo_destroy(cards[i].fd, &other);
  }
  run_nop(cards[1].fd, cards[1].ctx);
  assert_int_equal(importer.ret, 1);
  assert_int_equal(raw_wait(cards[0].fd, cards[0].ctx, seqno, 0, &wait), -ETIME);
  pthread_kill(importer.thread, SIGUSR1);
  pthread_join(importer.thread, NULL);
  assert_int_equal(importer.ret, -EINTR);
  assert_int_equal(raw_wait(cards[0].fd, cards[0].ctx, seqno, 0, &wait), -ETIME);

  /* It also ends with the job. */
  importer.ret = 1;
  importer.tid = 0;
  assert_int_equal(pthread_create(&importer.thread, NULL, import_it, &importer), 0);
  while (!importer.tid) usleep(1000);
  ctx_destroy(cards[0].fd, cards[0].ctx);
  pthread_join(importer.thread, NULL);
  assert_int_equal(importer.ret, 0);
  cards[0].ctx = ctx_create(cards[0].fd);
  share(&cards[0], &bo, &cards[1], &shared); /* the same handle again */
  wait_ok(cards[0].fd, cards[0].ctx, start_fill(&cards[0], &bo, 0x35, 0));
  expect_filled(&cards[1], &shared, 0x35);
  close(out.fd);
  bo_destroy(cards[1].fd, &shared);
  bo_destroy(cards[0].fd, &bo);
}

/* A buffer that the other card has imported cannot be sealed, even while handles are closed. */
struct sealer {
  uint32_t handle;
  pthread_barrier_t *barrier;
  int ret;
};

static void *seal_it(void *arg) {
  struct sealer *sealer = arg;

  pthread_barrier_wait(sealer->barrier);
  sealer->ret = raw_bo_seal(cards[0].fd, sealer->handle);
  return NULL;
}

static void closing_does_not_make_it_sealable(void **state) {
  pthread_barrier_t barrier;

  (void)state;
  assert_int_equal(pthread_barrier_init(&barrier, NULL, 2), 0);
  for (int round = 0; round < seal_rounds; round++) {
    struct sealer sealer = {.barrier = &barrier};
    struct bo bo, shared;
    pthread_t thread;

    bo_create(cards[0].fd, 4096, DRM_NPU_BO_SYSTEM, &bo);
    share(&cards[0], &bo, &cards[1], &shared);
    sealer.handle = bo.handle;
    assert_int_equal(pthread_create(&thread, NULL, seal_it, &sealer), 0);
    pthread_barrier_wait(&barrier);
    assert_int_equal(raw_gem_close(cards[0].fd, bo.handle), 0);
    pthread_join(thread, NULL);
    if (sealer.ret != -EBUSY && sealer.ret != -ENOENT) fail_msg("round %d: sealing says %d", round, sealer.ret);
    bo_destroy(cards[1].fd, &shared);
  }
  pthread_barrier_destroy(&barrier);
}

static void quotas_and_figures_are_each_cards_own(void **state) {
  struct drm_npu_memory_info before, after;
  struct bo bo, shared;

  (void)state;
  npu_memory_settled(cards[1].fd, &before);
  bo_create(cards[0].fd, SIZE, DRM_NPU_BO_CARD, &bo);
  share(&cards[0], &bo, &cards[1], &shared);
  npu_memory(cards[1].fd, &after);
  assert_int_equal(after.card_free, before.card_free);
  assert_int_equal(after.file_card, before.file_card);
  assert_int_equal(after.file_system, before.file_system + SIZE);
  bo_destroy(cards[1].fd, &shared);
  bo_destroy(cards[0].fd, &bo);
}

/* Argument: rounds of the race between sealing and closing. */
int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(both_cards_use_one_buffer),
      cmocka_unit_test(a_sealed_buffer_is_not_lent),
      cmocka_unit_test(an_import_can_be_interrupted),
      cmocka_unit_test(closing_does_not_make_it_sealable),
      cmocka_unit_test(fences_go_across),
      cmocka_unit_test(quotas_and_figures_are_each_cards_own),
      cmocka_unit_test(the_exporter_goes),
      cmocka_unit_test(the_importer_goes),
  };

  if (argc > 1) seal_rounds = atoi(argv[1]);
  return cmocka_run_group_tests_name("two_cards", tests, set_up, tear_down);
}
