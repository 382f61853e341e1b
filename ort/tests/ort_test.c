/* SPDX-License-Identifier: MIT */
/*
 * The plug-in under ONNX Runtime: results of the NPU against those of ONNX Runtime's own CPU provider.
 *
 * usage: ort_session_test PLUGIN NETWORKS DIGITS WORK [TEST]
 *        the library, the folder of make_networks.py, the folder of the digits, a folder to write in, cmocka's filter
 */
#define _GNU_SOURCE
#include <bmlib_runtime.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <sha2.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "session.h"

#define TOLERANCE 1e-4f

static const char *plugin, *networks, *digits, *work;

static const char *network(const char *name) {
  static _Thread_local char path[512];

  snprintf(path, sizeof(path), "%s/%s.onnx", networks, name);
  return path;
}

static const char *scratch(const char *name) {
  static _Thread_local char paths[4][512];
  static _Thread_local unsigned int turn;
  char *path = paths[turn++ % 4];

  snprintf(path, sizeof(paths[0]), "%s/%s", work, name);
  return path;
}

static OrtSession *open_session(const char *model, OrtSessionOptions *options) {
  OrtSession *session = NULL;

  must(make_session(model, options, &session));
  return session;
}

static void assert_has(const char *text, const char *part) {
  if (!text) fail_msg("no failure, and '%s' was expected", part);
  if (!strstr(text, part)) fail_msg("'%s' is not in: %s", part, text);
}

static void compare_runs(OrtSession *cpu, OrtSession *with_npu, int64_t open, unsigned int seed) {
  struct results expected, found;

  run(cpu, seed, open, &expected);
  run(with_npu, seed, open, &found);
  assert_true(same_results(&expected, &found, TOLERANCE));
  free_results(&expected);
  free_results(&found);
}

/* Runs a model with the provider, and on the CPU, and compares. */
static void compare(const char *model, OrtSessionOptions *options, int64_t open, unsigned int seed) {
  OrtSession *cpu = open_session(model, make_options(false, NULL)), *with_npu = open_session(model, options);

  compare_runs(cpu, with_npu, open, seed);
  ort->ReleaseSession(cpu);
  ort->ReleaseSession(with_npu);
}

/* The file's bytes and a 0; the caller frees them. */
static char *read_all(const char *path, size_t *size) {
  FILE *f = fopen(path, "rb");
  char *bytes;

  if (!f) fail_msg("cannot read %s", path);
  fseek(f, 0, SEEK_END);
  *size = (size_t)ftell(f);
  rewind(f);
  bytes = calloc(*size + 1, 1);
  assert_int_equal(fread(bytes, 1, *size, f), *size);
  fclose(f);
  return bytes;
}

static void write_all(const char *path, const char *bytes, size_t size) {
  FILE *f = fopen(path, "wb");

  assert_non_null(f);
  assert_int_equal(fwrite(bytes, 1, size, f), size);
  fclose(f);
}

static bool file_has(const char *path, const char *word) {
  size_t size;
  char *bytes = read_all(path, &size);
  const bool has = memmem(bytes, size, word, strlen(word)) != NULL;

  free(bytes);
  return has;
}

/* ---- what it finds and computes ---- */

static void devices_are_discovered(void **state) {
  const OrtMemoryInfo *info;

  (void)state;
  assert_non_null(npu);
  assert_string_equal(ort->EpDevice_EpVendor(npu), "QNPU");
  info = ort->EpDevice_MemoryInfo(npu, OrtDeviceMemoryType_DEFAULT);
  assert_non_null(info);
}

static void networks_are_computed_on_the_npu_alone(void **state) {
  static const char *const names[] = {"add",      "broadcast", "conv",      "pool",   "average",
                                      "matmul",   "softmax",   "sigmoid",   "concat", "outputs",
                                      "residual", "attention", "quantized", "gather"};

  (void)state;
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    print_message("%s\n", names[i]);
    compare(network(names[i]), npu_alone(), 0, 11 + (unsigned int)i);
  }
}

static void digits_are_read(void **state) {
  OrtSession *cpu, *with_npu;
  char path[512];

  (void)state;
  snprintf(path, sizeof(path), "%s/digits.onnx", digits);
  cpu = open_session(path, make_options(false, NULL));
  with_npu = open_session(path, npu_alone());
  for (unsigned int i = 0; i < 20; i++) {
    struct results expected, found;

    run(cpu, i, 1, &expected);
    run(with_npu, i, 1, &found);
    assert_true(same_results(&expected, &found, TOLERANCE));
    free_results(&expected);
    free_results(&found);
  }
  ort->ReleaseSession(cpu);
  ort->ReleaseSession(with_npu);
}

static void what_cannot_be_compiled_runs_on_the_cpu(void **state) {
  static const char *const names[] = {"partly", "wide", "around"};
  OrtSession *session;

  (void)state;
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    print_message("%s\n", names[i]);
    compare(network(names[i]), make_options(true, NULL), 0, 5);
    assert_non_null(failure(make_session(network(names[i]), npu_alone(), &session)));
  }
}

/* ---- bodies of If, Loop and Scan ---- */

/* N of version 1.N. */
static int minor_version(void) {
  int version = 0;

  assert_int_equal(sscanf(OrtGetApiBase()->GetVersionString(), "1.%d", &version), 1);
  return version;
}

/* A session of the file's bytes. */
static OrtSession *open_in_memory(const char *model, OrtSessionOptions *options) {
  OrtSession *session = NULL;
  size_t size;
  char *bytes = read_all(model, &size);

  must(ort->CreateSessionFromArray(env, bytes, size, options, &session));
  ort->ReleaseSessionOptions(options);
  free(bytes);
  return session;
}

/* Runs a network of control flow from its file and from memory, with inputs that take all its ways. With `outside`,
 * nodes outside of its bodies run on the NPU, and those in its bodies do not. */
static void compare_control(const char *name, bool outside) {
  OrtSession *const cpu = open_session(network(name), make_options(false, NULL));

  print_message("%s\n", name);
  for (int in_memory = 0; in_memory < 2; in_memory++) {
    OrtSessionOptions *options = make_options(true, NULL);
    OrtAllocator *allocator;
    OrtSession *session;
    char *trace, node[64];

    must(ort->EnableProfiling(options, scratch("trace")));
    session = in_memory ? open_in_memory(network(name), options) : open_session(network(name), options);
    for (unsigned int seed = 1; seed < 6; seed++) compare_runs(cpu, session, 0, seed);
    must(ort->GetAllocatorWithDefaultOptions(&allocator));
    must(ort->SessionEndProfiling(session, allocator, &trace));
    snprintf(node, sizeof(node), "\"body_%s_", name);
    if (outside) {
      assert_true(file_has(trace, "\"provider\" : \"" PROVIDER "\""));
      assert_true(file_has(trace, node));
    }
    unlink(trace);
    must(ort->AllocatorFree(allocator, trace));
    ort->ReleaseSession(session);
  }
  ort->ReleaseSession(cpu);
}

static void bodies_are_left_to_the_cpu(void **state) {
  static const char *const names[] = {"if_shapes", "loop_turns", "nested",   "scan_wide",
                                      "same_if",   "same_loop",  "same_scan"};

  (void)state;
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) compare_control(names[i], true);
  /* With version 1.23 one graph of a model has nodes on the NPU, and nothing tells this body from its network. */
  compare_control("same_scan_alone", minor_version() > 23);
}

/* Since version 1.SINCE all nodes of the network run on the NPU. */
static void compare_whole(const char *name, int since) {
  OrtSession *session = NULL;
  const char *said;

  compare_control(name, minor_version() < since);
  said = failure(make_session(network(name), npu_alone(), &session));
  assert_int_equal(said == NULL, minor_version() >= since);
  ort->ReleaseSession(session);
}

static void nodes_with_their_bodies_run_on_the_npu(void **state) {
  (void)state;
  compare_whole("scan_whole", 23);
  compare_whole("if_inside", 23);
  compare_whole("scalar", 24);
  compare_whole("if_captures", 28);
}

/* Version 1.23 cannot distinguish the network from a body. */
static void a_network_with_the_ports_of_a_body_is_no_body(void **state) {
  OrtSession *session = NULL;

  (void)state;
  compare(network("loop_ports"), make_options(true, NULL), 0, 1);
  assert_int_equal(failure(make_session(network("loop_ports"), npu_alone(), &session)) == NULL, minor_version() > 23);
  ort->ReleaseSession(session);
}

static void open_dimensions_are_compiled_when_they_are_known(void **state) {
  OrtSession *cpu = open_session(network("batch"), make_options(false, NULL));
  OrtSession *with_npu = open_session(network("batch"), npu_alone());
  static const int64_t sizes[] = {1, 3, 1, 2, 3};
  struct results expected, found;

  (void)state;
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    run(cpu, 3, sizes[i], &expected);
    run(with_npu, 3, sizes[i], &found);
    assert_true(same_results(&expected, &found, TOLERANCE));
    free_results(&expected);
    free_results(&found);
  }
  ort->ReleaseSession(cpu);
  ort->ReleaseSession(with_npu);
}

/* ---- compiled models ---- */

static void round_trip(const char *name, const char *embed) {
  OrtSession *session, *cpu = open_session(network(name), make_options(false, NULL));
  OrtSessionOptions *options = make_options(true, NULL);
  const char *context = scratch("context.onnx");
  struct results expected, found;

  print_message("%s %s\n", name, embed);
  unlink(context);
  must(ort->AddSessionConfigEntry(options, "ep.context_enable", "1"));
  must(ort->AddSessionConfigEntry(options, "ep.context_embed_mode", embed));
  must(ort->AddSessionConfigEntry(options, "ep.context_file_path", context));
  ort->ReleaseSession(open_session(network(name), options));
  assert_true(file_has(context, "EPContext"));
  assert_true(file_has(context, "qnpu1;cores=1;lmem="));
  session = open_session(context, make_options(true, NULL));
  run(cpu, 9, 2, &expected);
  run(session, 9, 2, &found);
  assert_true(same_results(&expected, &found, TOLERANCE));
  free_results(&expected);
  free_results(&found);
  ort->ReleaseSession(session);
  ort->ReleaseSession(cpu);
}

static void compiled_models_are_loaded_again(void **state) {
  (void)state;
  round_trip("residual", "1");
  assert_false(file_has(scratch("context.onnx"), "kernel_shape"));
  round_trip("residual", "0");
  assert_int_equal(access(scratch("context_qnpu_0.bin"), R_OK), 0);
  round_trip("partly", "0");
  round_trip("batch", "1");
}

static void damaged_compiled_models_are_refused(void **state) {
  const char *file = scratch("context_qnpu_0.bin");
  OrtSession *session;
  size_t size;
  char *bytes;

  (void)state;
  round_trip("residual", "0");
  bytes = read_all(file, &size);
  bytes[size / 2] ^= 1;
  write_all(file, bytes, size);
  assert_has(failure(make_session(scratch("context.onnx"), make_options(true, NULL), &session)), "it is damaged");
  write_all(file, bytes, 20);
  assert_has(failure(make_session(scratch("context.onnx"), make_options(true, NULL), &session)), "does not begin as");
  unlink(file);
  assert_has(failure(make_session(scratch("context.onnx"), make_options(true, NULL), &session)), "cannot read");
  free(bytes);
}

static unsigned long long card_memory_used(void) {
  bm_heap_stat_byte_t stat;
  bm_handle_t card;

  assert_int_equal(bm_dev_request(&card, 0), BM_SUCCESS);
  assert_int_equal(bm_get_gmem_heap_stat_byte_by_id(card, &stat, 0), BM_SUCCESS);
  bm_dev_free(card);
  return stat.mem_used;
}

/* The first part of two was on the card when the second one turned out to be damaged. */
static void what_was_compiled_before_a_failure_is_released(void **state) {
  const char *file = scratch("context_qnpu_1.bin");
  unsigned long long before;
  OrtSession *session;
  size_t size;
  char *bytes;

  (void)state;
  round_trip("around", "0");
  bytes = read_all(file, &size);
  bytes[size / 2] ^= 1;
  write_all(file, bytes, size);
  free(bytes);
  before = card_memory_used();
  assert_has(failure(make_session(scratch("context.onnx"), make_options(true, NULL), &session)), "it is damaged");
  assert_int_equal(card_memory_used(), before);
}

/* Changes the type that a model declares for a tensor, of which it was float; returns how often it is declared. */
static int declare(char *model, size_t size, const char *name, char type) {
  const size_t length = strlen(name);
  int count = 0;

  /* ValueInfoProto: the name, then TypeProto of a tensor, whose first field is the type of its elements. */
  for (size_t i = 0; i + length + 6 < size; i++) {
    char *const after = model + i + length;

    if (memcmp(model + i, name, length) != 0 || after[0] != 0x12 || after[2] != 0x0a || after[4] != 0x08) continue;
    assert_int_equal(after[5], ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
    after[5] = type;
    count++;
  }
  return count;
}

static void compiled_models_with_other_types_are_refused(void **state) {
  OrtSession *session;
  OrtAllocator *allocator;
  char *names[2];
  size_t size;

  (void)state;
  round_trip("residual", "1");
  session = open_session(scratch("context.onnx"), make_options(true, NULL));
  must(ort->GetAllocatorWithDefaultOptions(&allocator));
  must(ort->SessionGetInputName(session, 0, allocator, &names[0]));
  must(ort->SessionGetOutputName(session, 0, allocator, &names[1]));
  ort->ReleaseSession(session);
  for (int i = 0; i < 2; i++) {
    char *bytes = read_all(scratch("context.onnx"), &size), expected[256];

    assert_true(declare(bytes, size, names[i], ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8) > 0);
    write_all(scratch("other.onnx"), bytes, size);
    free(bytes);
    snprintf(expected, sizeof(expected), "the model declares '%s' with elements of ONNX type 2", names[i]);
    assert_has(failure(make_session(scratch("other.onnx"), make_options(true, NULL), &session)), expected);
    must(ort->AllocatorFree(allocator, names[i]));
  }
}

/* The one file of a folder. */
static const char *only_file(const char *folder) {
  static char path[1024];
  DIR *dir = opendir(folder);
  int count = 0;

  assert_non_null(dir);
  for (struct dirent *entry; (entry = readdir(dir));) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
    count++;
  }
  closedir(dir);
  assert_int_equal(count, 1);
  return path;
}

static void clear_folder(const char *folder) {
  DIR *dir = opendir(folder);

  assert_non_null(dir);
  for (struct dirent *entry; (entry = readdir(dir));) unlinkat(dirfd(dir), entry->d_name, 0);
  closedir(dir);
}

static ino_t inode_of(const char *path) {
  struct stat s;

  assert_int_equal(stat(path, &s), 0);
  return s.st_ino;
}

static void the_cache_keeps_what_was_compiled(void **state) {
  const struct setting own[] = {{"cache", scratch("cache")}, {NULL, NULL}};
  const char *file;
  size_t size;
  char *bytes;
  ino_t first;

  (void)state;
  mkdir(own[0].value, 0777);
  clear_folder(own[0].value);
  compare(network("residual"), make_options(true, own), 0, 1);
  file = only_file(own[0].value);
  first = inode_of(file);
  compare(network("residual"), make_options(true, own), 0, 2);
  assert_int_equal(inode_of(only_file(own[0].value)), first); /* it was read: who writes it makes a new one */
  bytes = read_all(file, &size);
  bytes[999] ^= 1;
  write_all(file, bytes, size);
  free(bytes);
  compare(network("residual"), make_options(true, own), 0, 3);
  assert_int_not_equal(inode_of(only_file(own[0].value)), first);
}

/* Compiles the network, which runs on the NPU alone. */
static void compare_alone(const struct setting *own, unsigned int seed) {
  OrtSessionOptions *options = make_options(true, own);

  must(ort->AddSessionConfigEntry(options, "session.disable_cpu_ep_fallback", "1"));
  compare(network("residual"), options, 0, seed);
}

static void what_the_cache_cannot_give_is_compiled(void **state) {
  const struct setting own[] = {{"cache", scratch("cache")}, {NULL, NULL}};
  const char text[] = "no network";
  char bytes[SHA256_DIGEST_STRING_LENGTH + sizeof(text)];
  const char *file;

  (void)state;
  mkdir(own[0].value, 0777);
  clear_folder(own[0].value);
  compare_alone(own, 1);
  file = only_file(own[0].value);
  /* whole, by its checksum, and no .bmodel */
  SHA256Data((const uint8_t *)text, strlen(text), bytes);
  memcpy(bytes + SHA256_DIGEST_STRING_LENGTH - 1, text, strlen(text));
  write_all(file, bytes, SHA256_DIGEST_STRING_LENGTH - 1 + strlen(text));
  compare_alone(own, 2);
  assert_false(file_has(file, text));
  /* a folder in its place, which stays */
  assert_int_equal(unlink(file), 0);
  assert_int_equal(mkdir(file, 0777), 0);
  compare_alone(own, 3);
  assert_int_equal(rmdir(file), 0);
}

/* ---- options and errors ---- */

static void options_are_understood(void **state) {
  const struct setting good[] = {{"cores", "2"},  {"reals", "fp32"}, {"turns", "never"},   {"lmem", "1M"},
                                 {"device", "0"}, {"dynamic", "1"},  {"quantize", "none"}, {NULL, NULL}};

  (void)state;
  compare(network("residual"), make_options(true, good), 0, 4);
}

static void wrong_options_are_named(void **state) {
  static const struct {
    struct setting setting;
    const char *says;
  } wrong[] = {
      {{"cores", "99"}, "option cores=99: a number from 1 to 8 is expected"},
      {{"cores", "8"}, "option cores=8: NPU 0 has"},
      {{"core", "1"}, "option core is not known; the options are cache, device, dynamic, cores"},
      {{"reals", "fp8"}, "option reals=fp8: one of bf16, fp16, fp32 is expected"},
      {{"lmem", "much"}, "option lmem=much"},
      {{"lmem", "0"}, "option lmem=0: local memory of 0 bytes: a multiple of 4096 from 65536 to 268435456 is expected"},
      {{"lmem", "999"}, "option lmem=999: local memory of 999 bytes: a multiple of 4096"},
      {{"lmem", "65537"}, "option lmem=65537: local memory of 65537 bytes"},
      {{"device", "17"}, "option device=17: the session was given the OrtEpDevice of NPU 0"},
      {{"device", "first"}, "option device=first: the number of a card is expected"},
      {{"dynamic", "yes"}, "option dynamic=yes: 0 or 1 is expected"},
      {{"quantize", "int8"}, "quantize_table"},
      {{"quantize_table", "/nowhere"}, "/nowhere"},
      {{"cache", "/proc/nowhere"}, "option cache=/proc/nowhere"},
  };
  OrtSession *session;

  (void)state;
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    const struct setting own[] = {wrong[i].setting, {NULL, NULL}};

    assert_has(failure(make_session(network("residual"), make_options(true, own), &session)), wrong[i].says);
  }
  compare(network("residual"), npu_alone(), 0, 4);
}

static void a_run_that_fails_harms_no_other(void **state) {
  OrtSession *session = open_session(network("batch"), npu_alone());
  const char *said;
  struct results r;

  (void)state;
  said = failure(try_run(session, 1, 0, &r));
  assert_has(said, "network '");
  assert_has(said, "': input 'x' of the shape [0,");
  assert_has(said, "is empty, and the NPU computes nothing from that");
  free_results(&r);
  run(session, 1, 2, &r);
  assert_int_equal(r.count, 1);
  free_results(&r);
  ort->ReleaseSession(session);
}

static void shapes_without_a_program_are_computed_by_the_cpu(void **state) {
  static const int64_t sizes[] = {0, 2, 0, 1};
  OrtSession *cpu = open_session(network("past"), make_options(false, NULL));
  OrtSession *with_npu = open_session(network("past"), make_options(true, NULL));

  (void)state;
  for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) compare_runs(cpu, with_npu, sizes[i], i);
  ort->ReleaseSession(cpu);
  ort->ReleaseSession(with_npu);
}

/* Each compilation reads the table of ranges, which is gone after the first run. */
static void shapes_that_are_refused_are_compiled_once(void **state) {
  static const char table[] = "# npuc calibration table 1\n\"x\" -1 1 minmax\n";
  const struct setting own[] = {{"quantize", "int8"}, {"quantize_table", scratch("ranges")}, {NULL, NULL}};
  OrtSessionOptions *options = make_options(true, own);
  OrtSession *session;
  struct results r;

  (void)state;
  write_all(own[1].value, table, sizeof(table) - 1);
  must(ort->AddSessionConfigEntry(options, "session.disable_cpu_ep_fallback", "1"));
  session = open_session(network("pairs"), options);
  for (int i = 0; i < 2; i++) {
    assert_has(failure(try_run(session, 1, 3, &r)), "Reshape");
    free_results(&r);
    unlink(own[1].value);
  }
  /* Shapes that are new are compiled. An error that passes is no refusal. */
  assert_has(failure(try_run(session, 1, 6, &r)), "quantize_table");
  free_results(&r);
  write_all(own[1].value, table, sizeof(table) - 1);
  run(session, 1, 6, &r);
  free_results(&r);
  ort->ReleaseSession(session);
}

static void without_dynamic_open_dimensions_stay_on_the_cpu(void **state) {
  const struct setting own[] = {{"dynamic", "0"}, {NULL, NULL}};
  OrtSessionOptions *options = make_options(true, own);
  struct results nothing;
  OrtSession *session;

  (void)state;
  must(ort->AddSessionConfigEntry(options, "session.disable_cpu_ep_fallback", "1"));
  assert_non_null(failure(make_session(network("batch"), options, &session)));
  compare(network("batch"), make_options(true, own), 2, 4);
  session = open_session(network("batch"), make_options(true, own));
  run(session, 1, 0, &nothing);
  assert_int_equal(nothing.count, 1);
  free_results(&nothing);
  ort->ReleaseSession(session);
}

/* ---- threads ---- */

struct thread {
  pthread_t id;
  OrtSession *session;
  const struct results *expected;
  bool right;
};

static void *run_often(void *arg) {
  struct thread *t = arg;

  t->right = true;
  for (int i = 0; i < 20 && t->right; i++) {
    struct results found;

    run(t->session, 21, 1, &found);
    t->right = same_results(t->expected, &found, TOLERANCE);
    free_results(&found);
  }
  return NULL;
}

static void two_sessions_run_in_eight_threads(void **state) {
  static const char *const names[] = {"residual", "partly"};
  OrtSession *sessions[2];
  struct results expected[2];
  struct thread threads[8];

  (void)state;
  for (int i = 0; i < 2; i++) {
    OrtSession *cpu = open_session(network(names[i]), make_options(false, NULL));

    run(cpu, 21, 1, &expected[i]);
    ort->ReleaseSession(cpu);
    sessions[i] = open_session(network(names[i]), make_options(true, NULL));
  }
  for (int i = 0; i < 8; i++) {
    threads[i] = (struct thread){.session = sessions[i % 2], .expected = &expected[i % 2]};
    assert_int_equal(pthread_create(&threads[i].id, NULL, run_often, &threads[i]), 0);
  }
  for (int i = 0; i < 8; i++) {
    pthread_join(threads[i].id, NULL);
    assert_true(threads[i].right);
  }
  for (int i = 0; i < 2; i++) {
    ort->ReleaseSession(sessions[i]);
    free_results(&expected[i]);
  }
}

struct run_of_shape {
  OrtSession *session;
  int64_t open;
  atomic_int id; /* of its thread */
  struct results results;
};

static void *run_shape(void *arg) {
  struct run_of_shape *r = arg;

  atomic_store(&r->id, (int)syscall(SYS_gettid));
  run(r->session, 1, r->open, &r->results);
  return NULL;
}

/* Waits until a thread is in openat(), which does not return: what it opens is a FIFO that nobody writes. */
static void wait_until_it_opens(const atomic_int *id) {
  long number = -1;
  char path[64];
  FILE *f;

  while (number != SYS_openat) {
    sched_yield();
    if (!atomic_load(id)) continue;
    snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", atomic_load(id));
    f = fopen(path, "r");
    assert_non_null(f);
    if (fscanf(f, "%ld", &number) != 1) number = -1; /* it runs */
    fclose(f);
  }
}

/* A compilation that looks into the cache and finds a FIFO there lasts as long as the test wants. */
static void known_shapes_run_while_new_ones_are_compiled(void **state) {
  char folder[] = "/tmp/ort_test.XXXXXX"; /* `work` may be on a file system without FIFOs */
  const struct setting own[] = {{"cache", folder}, {NULL, NULL}};
  struct run_of_shape slow = {.open = 3};
  OrtSession *session;
  struct results known;
  char entry[1024];
  pthread_t thread;
  int fifo;

  (void)state;
  assert_non_null(mkdtemp(folder));
  clear_folder(folder);
  session = open_session(network("batch"), make_options(true, own));
  clear_folder(folder); /* of the trial's */
  run(session, 1, 3, &known);
  free_results(&known);
  snprintf(entry, sizeof(entry), "%s", only_file(folder));
  ort->ReleaseSession(session);
  unlink(entry);
  assert_int_equal(mkfifo(entry, 0600), 0);
  slow.session = session = open_session(network("batch"), make_options(true, own));
  run(session, 1, 2, &known);
  free_results(&known);
  assert_int_equal(pthread_create(&thread, NULL, run_shape, &slow), 0);
  wait_until_it_opens(&slow.id);
  alarm(60); /* ends the program if the run waits */
  run(session, 1, 2, &known);
  alarm(0);
  assert_int_equal(known.count, 1);
  fifo = open(entry, O_WRONLY);
  assert_true(fifo >= 0);
  close(fifo);
  pthread_join(thread, NULL);
  assert_int_equal(slow.results.count, 1);
  free_results(&slow.results);
  free_results(&known);
  ort->ReleaseSession(session);
  clear_folder(folder);
  rmdir(folder);
}

/* ---- memory, streams, profile ---- */

static OrtValue *device_tensor(const int64_t *dims, size_t rank) {
  const OrtMemoryInfo *info = ort->EpDevice_MemoryInfo(npu, OrtDeviceMemoryType_DEFAULT);
  OrtAllocator *allocator;
  OrtValue *value;

  must(ort->GetSharedAllocator(env, info, &allocator));
  assert_non_null(allocator);
  must(ort->CreateTensorAsOrtValue(allocator, dims, rank, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
  return value;
}

static OrtValue *host_tensor(float *data, size_t count, const int64_t *dims, size_t rank) {
  OrtMemoryInfo *info;
  OrtValue *value;

  must(ort->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &info));
  must(ort->CreateTensorWithDataAsOrtValue(info, data, count * sizeof(*data), dims, rank,
                                           ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
  ort->ReleaseMemoryInfo(info);
  return value;
}

static void copy_tensor(OrtValue *from, OrtValue *to, OrtSyncStream *stream) {
  must(ort->CopyTensors(env, (const OrtValue *const *)&from, &to, stream, 1));
}

static void tensors_stay_in_device_memory(void **state) {
  static const int64_t dims[] = {2, 3, 4};
  static const char *const in_names[] = {"x0", "x1"};
  OrtSession *session = open_session(network("add"), npu_alone());
  OrtValue *hosts[3], *cards[3];
  float numbers[3][24];
  OrtAllocator *allocator;
  char *out_name;

  (void)state;
  must(ort->GetAllocatorWithDefaultOptions(&allocator));
  must(ort->SessionGetOutputName(session, 0, allocator, &out_name));
  for (int i = 0; i < 3; i++) {
    for (int k = 0; k < 24; k++) numbers[i][k] = (float)(i * 100 + k);
    hosts[i] = host_tensor(numbers[i], 24, dims, 3);
    cards[i] = device_tensor(dims, 3);
    copy_tensor(hosts[i], cards[i], NULL);
  }
  must(ort->Run(session, NULL, in_names, (const OrtValue *const *)cards, 2, (const char *const *)&out_name, 1,
                &cards[2]));
  copy_tensor(cards[2], hosts[2], NULL);
  for (int k = 0; k < 24; k++) assert_float_equal(numbers[2][k], 100 + 2 * k, 0);
  copy_tensor(cards[2], cards[0], NULL);
  copy_tensor(cards[0], hosts[0], NULL);
  assert_memory_equal(numbers[0], numbers[2], sizeof(numbers[0]));
  for (int i = 0; i < 3; i++) {
    ort->ReleaseValue(hosts[i]);
    ort->ReleaseValue(cards[i]);
  }
  must(ort->AllocatorFree(allocator, out_name));
  ort->ReleaseSession(session);
}

static void streams_take_copies(void **state) {
  static const int64_t dims[] = {8};
  float numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8}, back[8] = {0};
  OrtValue *from = host_tensor(numbers, 8, dims, 1), *card = device_tensor(dims, 1),
           *to = host_tensor(back, 8, dims, 1);
  OrtSyncStream *stream;

  (void)state;
  must(ort->CreateSyncStreamForEpDevice(npu, NULL, &stream));
  assert_non_null(ort->SyncStream_GetHandle(stream));
  copy_tensor(from, card, stream);
  copy_tensor(card, to, stream);
  assert_memory_equal(numbers, back, sizeof(numbers));
  ort->ReleaseValue(from);
  ort->ReleaseValue(card);
  ort->ReleaseValue(to);
  ort->ReleaseSyncStream(stream);
}

static void the_trace_has_the_nodes_of_the_npu(void **state) {
  OrtSessionOptions *options = npu_alone();
  OrtAllocator *allocator;
  OrtSession *session;
  struct results r;
  const bool has_profilers = minor_version() >= 25;
  char *trace;

  (void)state;
  must(ort->EnableProfiling(options, scratch("trace")));
  session = open_session(network("residual"), options);
  run(session, 1, 1, &r);
  free_results(&r);
  must(ort->GetAllocatorWithDefaultOptions(&allocator));
  must(ort->SessionEndProfiling(session, allocator, &trace));
  assert_true(file_has(trace, "\"provider\" : \"" PROVIDER "\""));
  /* Our own events came with interface 25. */
  assert_int_equal(file_has(trace, "_npu\""), has_profilers);
  assert_int_equal(file_has(trace, "\"cycles\" : \""), has_profilers);
  assert_int_equal(file_has(trace, "_submit\""), has_profilers);
  unlink(trace);
  must(ort->AllocatorFree(allocator, trace));
  ort->ReleaseSession(session);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(devices_are_discovered),
      cmocka_unit_test(networks_are_computed_on_the_npu_alone),
      cmocka_unit_test(digits_are_read),
      cmocka_unit_test(what_cannot_be_compiled_runs_on_the_cpu),
      cmocka_unit_test(bodies_are_left_to_the_cpu),
      cmocka_unit_test(nodes_with_their_bodies_run_on_the_npu),
      cmocka_unit_test(a_network_with_the_ports_of_a_body_is_no_body),
      cmocka_unit_test(open_dimensions_are_compiled_when_they_are_known),
      cmocka_unit_test(compiled_models_are_loaded_again),
      cmocka_unit_test(damaged_compiled_models_are_refused),
      cmocka_unit_test(what_was_compiled_before_a_failure_is_released),
      cmocka_unit_test(compiled_models_with_other_types_are_refused),
      cmocka_unit_test(the_cache_keeps_what_was_compiled),
      cmocka_unit_test(what_the_cache_cannot_give_is_compiled),
      cmocka_unit_test(options_are_understood),
      cmocka_unit_test(wrong_options_are_named),
      cmocka_unit_test(a_run_that_fails_harms_no_other),
      cmocka_unit_test(shapes_without_a_program_are_computed_by_the_cpu),
      cmocka_unit_test(shapes_that_are_refused_are_compiled_once),
      cmocka_unit_test(without_dynamic_open_dimensions_stay_on_the_cpu),
      cmocka_unit_test(two_sessions_run_in_eight_threads),
      cmocka_unit_test(known_shapes_run_while_new_ones_are_compiled),
      cmocka_unit_test(tensors_stay_in_device_memory),
      cmocka_unit_test(streams_take_copies),
      cmocka_unit_test(the_trace_has_the_nodes_of_the_npu),
  };
  int failed;

  if (argc < 5) {
    fprintf(stderr, "usage: ort_session_test PLUGIN NETWORKS DIGITS WORK [TEST]\n");
    return 2;
  }
  plugin = argv[1];
  networks = argv[2];
  digits = argv[3];
  work = argv[4];
  mkdir(work, 0777);
  if (argc > 5) cmocka_set_test_filter(argv[5]);
  open_runtime(plugin);
  print_message("ONNX Runtime %s\n", OrtGetApiBase()->GetVersionString());
  if (!npu) {
    fprintf(stderr, "the plug-in has no device\n");
    return 1;
  }
  failed = cmocka_run_group_tests(tests, NULL, NULL);
  close_runtime();
  return failed;
}
