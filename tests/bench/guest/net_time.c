/* SPDX-License-Identifier: MIT */
/*
 * The time of inferences, for tests/bench/networks.py: on the simulated card, or on a board.
 *
 *   load MODEL INPUTS OUTPUTS    makes a runtime, loads a .bmodel, runs its first stage once with the tensors of INPUTS
 *                                and writes OUTPUTS, their bytes one after another; answers with the microseconds of
 *                                loading and of that inference, and its modelled cycles (0: there are none)
 *   time N                       N inferences; answers with the microseconds of one: all, writing the inputs,
 * launching, waiting, reading the outputs
 */
#include <bmruntime_interface.h>
#include <npu.h>
#include <stdint.h>
#include <string.h>

#include "worker.h"

struct tensor {
  bm_tensor_t card;
  size_t bytes;
  uint8_t *host;
};

static struct {
  bm_handle_t handle;
  void *runtime;
  const bm_net_info_t *info;
  struct tensor *inputs, *outputs;
  bm_tensor_t *input_list, *output_list; /* as a launch takes them */
} n;

/* ---- a network ---- */

static void *zeroed(size_t count, size_t size) {
  void *memory = calloc(count ? count : 1, size);

  must(memory != NULL, "memory", strerror(errno));
  return memory;
}

static struct tensor *tensors(int count, const bm_data_type_t *types, const bm_shape_t *shapes, bm_tensor_t **list) {
  struct tensor *made = zeroed((size_t)count, sizeof(*made));

  *list = zeroed((size_t)count, sizeof(**list));
  for (int i = 0; i < count; i++) {
    must(bmrt_tensor(&made[i].card, n.runtime, types[i], shapes[i]), "tensor", bmrt_last_error());
    made[i].bytes = bmrt_tensor_bytesize(&made[i].card);
    made[i].host = zeroed(made[i].bytes, 1);
    (*list)[i] = made[i].card;
  }
  return made;
}

static void free_tensors(struct tensor *list, int count) {
  for (int i = 0; i < count; i++) {
    bm_free_device(n.handle, list[i].card.device_mem);
    free(list[i].host);
  }
  free(list);
}

static void forget(void) {
  if (!n.runtime) return;
  free_tensors(n.inputs, n.info->input_num);
  free_tensors(n.outputs, n.info->output_num);
  free(n.input_list);
  free(n.output_list);
  bmrt_destroy(n.runtime);
  n.runtime = NULL;
}

/* Reads or writes the tensors' bytes, which are all that the file has. */
static void with_file(const char *path, const char *mode, struct tensor *list, int count) {
  const int writes = mode[0] == 'w';
  FILE *file = fopen(path, mode);

  must(file != NULL, path, strerror(errno));
  for (int i = 0; i < count; i++) {
    const size_t moved =
        writes ? fwrite(list[i].host, 1, list[i].bytes, file) : fread(list[i].host, 1, list[i].bytes, file);

    must(moved == list[i].bytes, path, "has fewer bytes than the network's tensors");
  }
  must(writes || fgetc(file) == EOF, path, "has more bytes than the network's tensors");
  must(!fclose(file), path, strerror(errno));
}

/* ---- inferences ---- */

enum { WRITE, LAUNCH, WAIT, READ, PARTS };

/* One inference; adds its parts to `us`. */
static void infer(double us[PARTS]) {
  const double start = now_us();
  double written, launched, done;

  for (int i = 0; i < n.info->input_num; i++)
    must(!bm_memcpy_s2d(n.handle, n.inputs[i].card.device_mem, n.inputs[i].host), "s2d", npu_last_error());
  written = now_us();
  must(bmrt_launch_tensor_ex(n.runtime, n.info->name, n.input_list, n.info->input_num, n.output_list,
                             n.info->output_num, true, false),
       "launch", bmrt_last_error());
  launched = now_us();
  must(!bm_thread_sync(n.handle), "sync", npu_last_error());
  done = now_us();
  for (int i = 0; i < n.info->output_num; i++)
    must(!bm_memcpy_d2s(n.handle, n.outputs[i].host, n.outputs[i].card.device_mem), "d2s", npu_last_error());
  us[WRITE] += written - start;
  us[LAUNCH] += launched - written;
  us[WAIT] += done - launched;
  us[READ] += now_us() - done;
}

static double sum(const double us[PARTS]) { return us[WRITE] + us[LAUNCH] + us[WAIT] + us[READ]; }

/* ---- what is asked for ---- */

static void load(const char *model, const char *inputs, const char *outputs) {
  const char **names;
  double start, loaded, us[PARTS] = {0};
  uint64_t cycles = 0;

  forget();
  start = now_us();
  n.runtime = bmrt_create(n.handle);
  must(n.runtime && bmrt_load_bmodel(n.runtime, model), model, bmrt_last_error());
  loaded = now_us() - start;
  bmrt_get_network_names(n.runtime, &names);
  must(names != NULL, model, bmrt_last_error());
  n.info = bmrt_get_network_info(n.runtime, names[0]);
  free(names);
  n.inputs = tensors(n.info->input_num, n.info->input_dtypes, n.info->stages[0].input_shapes, &n.input_list);
  n.outputs = tensors(n.info->output_num, n.info->output_dtypes, n.info->stages[0].output_shapes, &n.output_list);
  with_file(inputs, "rb", n.inputs, n.info->input_num);
  infer(us);
  with_file(outputs, "wb", n.outputs, n.info->output_num);
  bmrt_last_launch_cycles(n.runtime, &cycles);
  printf("%.1f %.1f %llu\n", loaded, sum(us), (unsigned long long)cycles);
}

static void measure(unsigned long times) {
  double us[PARTS] = {0};

  must(n.runtime && times, "time", "expected a number above 0, after load");
  for (unsigned long i = 0; i < times; i++) infer(us);
  printf("%.1f", sum(us) / (double)times);
  for (int part = 0; part < PARTS; part++) printf(" %.1f", us[part] / (double)times);
  printf("\n");
}

static void answer(char *line) {
  char *words[4] = {NULL};
  int count = 0;

  for (char *word = strtok(line, " \n"); word && count < 4; word = strtok(NULL, " \n")) words[count++] = word;
  if (count == 4 && !strcmp(words[0], "load"))
    load(words[1], words[2], words[3]);
  else if (count == 2 && !strcmp(words[0], "time"))
    measure(strtoul(words[1], NULL, 10));
  else if (count == 1 && !strcmp(words[0], "clock"))
    answer_clock();
  else
    fail(count ? words[0] : "", "there is no such operation");
  fflush(stdout);
}

int main(void) {
  char line[4096];

  must(bm_dev_request(&n.handle, 0) == BM_SUCCESS, "device 0", npu_last_error());
  while (fgets(line, sizeof(line), stdin)) answer(line);
  forget();
  bm_dev_free(n.handle);
  return 0;
}
