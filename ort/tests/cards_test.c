/* SPDX-License-Identifier: MIT */
/*
 * Two cards: a session runs on the card of its OrtEpDevice, and tensors come from wherever they are.
 *
 * usage: ort_cards_test PLUGIN NETWORKS
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "session.h"

#define COUNT 24

static const char *networks;
static const OrtEpDevice *cards[2];
static const int64_t dims[] = {2, 3, 4};

static void find_cards(void) {
  const OrtEpDevice *const *devices;
  size_t count, found = 0;

  must(ort->GetEpDevices(env, &devices, &count));
  for (size_t i = 0; i < count && found < 2; i++)
    if (strcmp(ort->EpDevice_EpName(devices[i]), PROVIDER) == 0) cards[found++] = devices[i];
}

static OrtStatus *try_session(int card, const char *device, OrtSession **session) {
  const struct setting own[] = {{device ? "device" : NULL, device}, {NULL, NULL}};
  OrtSessionOptions *options;
  char path[512];

  snprintf(path, sizeof(path), "%s/add.onnx", networks);
  npu = cards[card];
  options = make_options(true, own);
  must(ort->AddSessionConfigEntry(options, "session.disable_cpu_ep_fallback", "1"));
  return make_session(path, options, session);
}

static OrtValue *tensor_on(int card) {
  const OrtMemoryInfo *info = ort->EpDevice_MemoryInfo(cards[card], OrtDeviceMemoryType_DEFAULT);
  OrtAllocator *allocator;
  OrtValue *value;

  must(ort->GetSharedAllocator(env, info, &allocator));
  must(ort->CreateTensorAsOrtValue(allocator, dims, 3, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
  return value;
}

static OrtValue *tensor_over(float *numbers) {
  OrtMemoryInfo *info;
  OrtValue *value;

  must(ort->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &info));
  must(ort->CreateTensorWithDataAsOrtValue(info, numbers, COUNT * sizeof(*numbers), dims, 3,
                                           ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
  ort->ReleaseMemoryInfo(info);
  return value;
}

static void copy_tensor(OrtValue *from, OrtValue *to) {
  must(ort->CopyTensors(env, (const OrtValue *const *)&from, &to, NULL, 1));
}

/* Runs x0 + x1 on a session; each tensor is on the card of that number. */
static void add_on(OrtSession *session, int x0, int x1, int sum) {
  const int places[] = {x0, x1, sum};
  static const char *const names[] = {"x0", "x1"};
  OrtValue *on_card[3], *on_host[3];
  float numbers[3][COUNT];
  OrtAllocator *allocator;
  char *out_name;

  must(ort->GetAllocatorWithDefaultOptions(&allocator));
  must(ort->SessionGetOutputName(session, 0, allocator, &out_name));
  for (int i = 0; i < 3; i++) {
    for (int k = 0; k < COUNT; k++) numbers[i][k] = (float)(i * 100 + k);
    on_host[i] = tensor_over(numbers[i]);
    on_card[i] = tensor_on(places[i]);
    copy_tensor(on_host[i], on_card[i]);
  }
  must(ort->Run(session, NULL, names, (const OrtValue *const *)on_card, 2, (const char *const *)&out_name, 1,
                &on_card[2]));
  copy_tensor(on_card[2], on_host[2]);
  for (int k = 0; k < COUNT; k++) assert_float_equal(numbers[2][k], 100 + 2 * k, 0);
  for (int i = 0; i < 3; i++) {
    ort->ReleaseValue(on_host[i]);
    ort->ReleaseValue(on_card[i]);
  }
  must(ort->AllocatorFree(allocator, out_name));
}

static void sessions_run_on_the_card_of_their_device(void **state) {
  OrtSession *session;

  (void)state;
  for (int card = 0; card < 2; card++) {
    must(try_session(card, card ? "1" : "0", &session));
    add_on(session, card, card, card);
    ort->ReleaseSession(session);
  }
}

static void another_card_than_the_devices_is_refused(void **state) {
  const char *text;
  OrtSession *session;

  (void)state;
  text = failure(try_session(0, "1", &session));
  assert_non_null(text);
  assert_non_null(strstr(text, "option device=1: the session was given the OrtEpDevice of NPU 0"));
  text = failure(try_session(1, "0", &session));
  assert_non_null(text);
  assert_non_null(strstr(text, "option device=0: the session was given the OrtEpDevice of NPU 1"));
}

static void tensors_of_the_other_card_are_brought(void **state) {
  OrtSession *session;

  (void)state;
  must(try_session(1, NULL, &session));
  add_on(session, 0, 1, 1);
  add_on(session, 1, 1, 0);
  add_on(session, 0, 0, 0);
  ort->ReleaseSession(session);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sessions_run_on_the_card_of_their_device),
      cmocka_unit_test(another_card_than_the_devices_is_refused),
      cmocka_unit_test(tensors_of_the_other_card_are_brought),
  };
  int failed;

  if (argc != 3) {
    fprintf(stderr, "usage: ort_cards_test PLUGIN NETWORKS\n");
    return 2;
  }
  networks = argv[2];
  open_runtime(argv[1]);
  find_cards();
  if (!cards[1]) {
    fprintf(stderr, "two cards are expected: NPU_SIM=cards=2\n");
    return 1;
  }
  failed = cmocka_run_group_tests(tests, NULL, NULL);
  close_runtime();
  return failed;
}
