/* SPDX-License-Identifier: MIT */
/*
 * libqnpu_ort.so, loaded in front of this program with LD_PRELOAD, between it and an ONNX Runtime that only tells what
 * it was asked for.
 */
#include <onnxruntime_c_api.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake_onnxruntime.h"

#define ENTRY "ep.qnpuexecutionprovider.device"

static const OrtApi *ort;

static void succeed(OrtStatus *status) {
  if (status) fail_msg("%s", ort->GetErrorMessage(status));
}

static void fail_with(OrtStatus *status, const char *part) {
  if (!status) fail_msg("no failure, and '%s' was expected", part);
  if (!strstr(ort->GetErrorMessage(status), part)) fail_msg("'%s' in: %s", part, ort->GetErrorMessage(status));
  ort->ReleaseStatus(status);
}

static OrtStatus *open_session(const OrtSessionOptions *options) {
  OrtSession *session;

  memset(&fake_last, 0, sizeof(fake_last));
  return ort->CreateSession(NULL, "model.onnx", options, &session);
}

static void *make_session(void *arg) {
  OrtSession *session;

  (void)arg;
  return ort->CreateSession(NULL, "model.onnx", NULL, &session);
}

/* The first sessions of a process, at once. ONNX Runtime comes back to OrtGetApiBase() while it registers a library. */
static void the_provider_is_registered_once(void **state) {
  pthread_t threads[4];
  void *status;

  (void)state;
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, make_session, NULL), 0);
  for (int i = 0; i < 4; i++) {
    assert_int_equal(pthread_join(threads[i], &status), 0);
    succeed(status);
  }
  assert_int_equal(fake_registered, 1);
}

static void every_way_to_make_a_session_gets_it(void **state) {
  OrtSessionOptions *options;
  OrtSession *session;

  (void)state;
  succeed(ort->CreateSessionOptions(&options));
  succeed(open_session(options));
  assert_string_equal(fake_last.how, "path");
  assert_int_equal(fake_last.card, 0);
  succeed(ort->CreateSessionFromArray(NULL, "", 0, options, &session));
  assert_string_equal(fake_last.how, "array");
  assert_int_equal(fake_last.card, 0);
  succeed(ort->CreateSessionWithPrepackedWeightsContainer(NULL, "model.onnx", options, NULL, &session));
  assert_string_equal(fake_last.how, "path, weights");
  assert_int_equal(fake_last.card, 0);
  succeed(ort->CreateSessionFromArrayWithPrepackedWeightsContainer(NULL, "", 0, options, NULL, &session));
  assert_string_equal(fake_last.how, "array, weights");
  assert_int_equal(fake_last.card, 0);
  ort->ReleaseSessionOptions(options);
}

static void options_choose_the_card(void **state) {
  OrtSessionOptions *options;

  (void)state;
  setenv("QNPU_ORT_OPTIONS", "device=1;cores=2", 1);
  succeed(open_session(NULL));
  assert_int_equal(fake_last.card, 1);
  assert_int_equal(fake_last.options, 2);
  setenv("QNPU_ORT_OPTIONS", "device=2", 1);
  fail_with(open_session(NULL), "option device=2: the number of a card from 0 to 1 is expected");
  unsetenv("QNPU_ORT_OPTIONS");
  succeed(ort->CreateSessionOptions(&options));
  succeed(ort->AddSessionConfigEntry(options, ENTRY, "1"));
  succeed(open_session(options));
  assert_int_equal(fake_last.card, 1);
  setenv("QNPU_ORT_OPTIONS", "device=0", 1);
  succeed(open_session(options));
  assert_int_equal(fake_last.card, 0);
  unsetenv("QNPU_ORT_OPTIONS");
  ort->ReleaseSessionOptions(options);
}

static void options_of_any_length_are_whole(void **state) {
  static char text[10000];
  const size_t front = (size_t)snprintf(text, sizeof(text), "cores=2;cache=/");

  (void)state;
  memset(text + front, 'x', sizeof(text) - 1 - front);
  setenv("QNPU_ORT_OPTIONS", text, 1);
  succeed(open_session(NULL));
  assert_int_equal(fake_last.options, 2);
  assert_string_equal(fake_last.last, strrchr(text, '=') + 1);
  for (int i = 0; i < 17; i++) snprintf(text + i * 4, 5, "k=%d;", i % 10);
  setenv("QNPU_ORT_OPTIONS", text, 1);
  fail_with(open_session(NULL), "QNPU_ORT_OPTIONS: NAME=VALUE;..., at most 16, is expected");
  setenv("QNPU_ORT_OPTIONS", "cores", 1);
  fail_with(open_session(NULL), "QNPU_ORT_OPTIONS: NAME=VALUE;..., at most 16, is expected");
  unsetenv("QNPU_ORT_OPTIONS");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_provider_is_registered_once),
      cmocka_unit_test(every_way_to_make_a_session_gets_it),
      cmocka_unit_test(options_choose_the_card),
      cmocka_unit_test(options_of_any_length_are_whole),
  };

  ort = OrtGetApiBase()->GetApi(23);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
