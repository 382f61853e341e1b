// SPDX-License-Identifier: MIT
// Reads handwritten digits on the NPU: what a program for BMLIB and BMRuntime looks like.
//
// Two threads share one runtime. Each keeps a batch of launches in flight: it copies the pictures of the batch to the
// card, launches them all, and only then waits (bm_thread_sync waits for the launches of the calling thread).
#include <getopt.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "bmruntime_interface.h"
#include "npu.h"
#include "pictures.h"

namespace {

constexpr size_t kThreads = 2;
constexpr size_t kBatch = 8;            // launches that one thread has in flight
constexpr double kGoodAccuracy = 97.0;  // percent

struct Options {
  std::string model, data, probabilities;
  size_t pictures = 0;  // 0: all
};

// A loaded network with one input and one output, both float32.
struct Network {
  bm_handle_t handle = nullptr;
  void *runtime = nullptr;
  const bm_net_info_t *info = nullptr;
  size_t classes = 0;
};

// Results of pictures [first, last), which one thread reads.
struct Share {
  size_t first = 0, last = 0;
  std::vector<float> probabilities;  // classes for each picture
  uint64_t cycles = 0;               // modelled, of the last launch
  std::string error;
};

bool parse(int argc, char **argv, Options &o) {
  static const option kOptions[] = {{"pictures", required_argument, nullptr, 'n'},
                                    {"compare", required_argument, nullptr, 'c'},
                                    {"help", no_argument, nullptr, 'h'},
                                    {}};
  for (int c; (c = getopt_long(argc, argv, "n:c:h", kOptions, nullptr)) != -1;) {
    if (c == 'c')
      o.probabilities = optarg;
    else if (c == 'n' && std::atol(optarg) > 0)
      o.pictures = static_cast<size_t>(std::atol(optarg));
    else
      return false;
  }
  if (optind + 2 != argc) return false;
  o.model = argv[optind];
  o.data = argv[optind + 1];
  return true;
}

// Opens device 0 and loads the model. Returns an empty string or the reason of failure.
std::string open_network(const std::string &model, Network &net) {
  if (bm_dev_request(&net.handle, 0) != BM_SUCCESS) return npu_last_error();
  net.runtime = bmrt_create(net.handle);
  if (!net.runtime || !bmrt_load_bmodel(net.runtime, model.c_str())) return bmrt_last_error();
  const char **names;
  bmrt_get_network_names(net.runtime, &names);
  if (!names) return bmrt_last_error();
  net.info = bmrt_get_network_info(net.runtime, names[0]);
  std::free(names);
  if (!net.info) return bmrt_last_error();
  if (net.info->input_num != 1 || net.info->output_num != 1 || net.info->input_dtypes[0] != BM_FLOAT32 ||
      net.info->output_dtypes[0] != BM_FLOAT32)
    return model + ": expected a network with one float32 input and one float32 output";
  net.classes = bmrt_shape_count(&net.info->stages[0].output_shapes[0]);
  return {};
}

void close_network(Network &net) {
  if (net.runtime) bmrt_destroy(net.runtime);
  if (net.handle) bm_dev_free(net.handle);
}

// Device memory for the pictures of a batch.
struct Batch {
  explicit Batch(const Network &n) : net(n) {}
  ~Batch() {
    for (const bm_tensor_t &t : inputs) bm_free_device(net.handle, t.device_mem);
    for (const bm_tensor_t &t : outputs) bm_free_device(net.handle, t.device_mem);
  }
  std::string allocate() {
    const bm_stage_info_t &stage = net.info->stages[0];
    for (size_t i = 0; i < kBatch; ++i) {
      bm_tensor_t t;
      if (!bmrt_tensor(&t, net.runtime, BM_FLOAT32, stage.input_shapes[0])) return bmrt_last_error();
      inputs.push_back(t);
      if (!bmrt_tensor(&t, net.runtime, BM_FLOAT32, stage.output_shapes[0])) return bmrt_last_error();
      outputs.push_back(t);
    }
    return {};
  }

  const Network &net;
  std::vector<bm_tensor_t> inputs, outputs;
};

// Pictures [first, first + n) through the NPU.
std::string classify(const Network &net, const Pictures &pictures, Batch &batch, size_t first, size_t n,
                     float *probabilities) {
  const size_t size = pictures.rows * pictures.cols;
  std::vector<float> values(size);
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < size; ++k) values[k] = static_cast<float>(pictures.pixels[(first + i) * size + k]) / 16;
    if (bm_memcpy_s2d(net.handle, batch.inputs[i].device_mem, values.data()) != BM_SUCCESS) return npu_last_error();
    if (!bmrt_launch_tensor_ex(net.runtime, net.info->name, &batch.inputs[i], 1, &batch.outputs[i], 1, true, false))
      return bmrt_last_error();
  }
  if (bm_thread_sync(net.handle) != BM_SUCCESS) return npu_last_error();
  for (size_t i = 0; i < n; ++i)
    if (bm_memcpy_d2s(net.handle, probabilities + i * net.classes, batch.outputs[i].device_mem) != BM_SUCCESS)
      return npu_last_error();
  return {};
}

// What a thread does.
void work(const Network &net, const Pictures &pictures, Share &share) {
  if (share.first == share.last) return;
  Batch batch(net);
  share.probabilities.resize((share.last - share.first) * net.classes);
  share.error = batch.allocate();
  for (size_t at = share.first; share.error.empty() && at < share.last; at += kBatch)
    share.error = classify(net, pictures, batch, at, std::min(kBatch, share.last - at),
                           share.probabilities.data() + (at - share.first) * net.classes);
  bm_thread_sync(net.handle);  // after an error the batch's memory may still be in use
  if (share.error.empty() && !bmrt_last_launch_cycles(net.runtime, &share.cycles)) share.error = bmrt_last_error();
}

size_t label(const float *probabilities, size_t classes) {
  return static_cast<size_t>(std::max_element(probabilities, probabilities + classes) - probabilities);
}

void show_device(const Network &net) {
  npu_device *device;
  drm_npu_dev_info info;
  if (npu_device_open(static_cast<unsigned int>(bm_get_devid(net.handle)), &device) != 0) return;
  if (npu_device_info(device, &info) == 0)
    std::printf("device %d by transport %s: %u cores, %u KiB of local memory each, %llu MiB, %.0f MHz\n",
                bm_get_devid(net.handle), npu_device_transport(device), info.cores, info.lmem_bytes >> 10,
                static_cast<unsigned long long>(info.ddr_bytes >> 20), info.clock_khz / 1e3);
  npu_device_close(device);
}

// Ten pictures from all over the set, five in a line.
void show_pictures(const Pictures &pictures, const std::vector<float> &probabilities, size_t classes, size_t count) {
  const size_t shown = std::min<size_t>(10, count);
  std::vector<size_t> which;
  std::vector<std::string> captions;
  for (size_t n = 0; n < shown; ++n) {
    const size_t i = n * count / shown;
    which.push_back(i);
    captions.push_back("NPU: " + std::to_string(label(&probabilities[i * classes], classes)) + "  (is " +
                       std::to_string(pictures.labels[i]) + ")");
    if (which.size() < 5 && n + 1 < shown) continue;
    draw(pictures, which, captions);
    which.clear();
    captions.clear();
  }
}

// Compares with rows of float32 probabilities; the file may have fewer rows than there are pictures.
std::string compare(const std::string &path, const std::vector<float> &got) {
  constexpr float kTolerance = 1e-3f;
  std::ifstream file(path, std::ios::binary);
  if (!file) return path + ": cannot open";
  size_t n = 0;
  for (float expected; n < got.size() && file.read(reinterpret_cast<char *>(&expected), sizeof expected); ++n)
    if (!(std::fabs(got[n] - expected) <= kTolerance))
      return path + ": probability " + std::to_string(n) + " is " + std::to_string(got[n]) + ", expected " +
             std::to_string(expected);
  if (n == 0) return path + ": empty";
  std::printf("%zu probabilities agree within %g\n", n, static_cast<double>(kTolerance));
  return {};
}

// Everything after the network is open. Returns an empty string or what failed.
std::string run(const Network &net, const Options &options, const Pictures &pictures) {
  const size_t count = options.pictures ? std::min(options.pictures, pictures.count) : pictures.count;
  if (bmrt_shape_count(&net.info->stages[0].input_shapes[0]) != pictures.rows * pictures.cols)
    return options.model + ": its input does not have the size of the pictures";
  std::vector<Share> shares(kThreads);
  std::vector<std::thread> threads;
  const auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < kThreads; ++i) {
    shares[i].first = count * i / kThreads;
    shares[i].last = count * (i + 1) / kThreads;
    threads.emplace_back([&, i] { work(net, pictures, shares[i]); });
  }
  for (std::thread &t : threads) t.join();
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();

  std::vector<float> probabilities;
  for (const Share &s : shares) {
    if (!s.error.empty()) return s.error;
    probabilities.insert(probabilities.end(), s.probabilities.begin(), s.probabilities.end());
  }
  show_pictures(pictures, probabilities, net.classes, count);
  size_t right = 0;
  for (size_t i = 0; i < count; ++i) right += label(&probabilities[i * net.classes], net.classes) == pictures.labels[i];
  const double accuracy = 100.0 * static_cast<double>(right) / static_cast<double>(count);
  std::printf("%zu of %zu pictures right\naccuracy: %.1f %%\n", right, count, accuracy);
  std::printf("%.3f ms and %llu modelled cycles per picture, %zu launches in flight\n", ms / static_cast<double>(count),
              static_cast<unsigned long long>(shares.back().cycles), kThreads * kBatch);
  std::string why = options.probabilities.empty() ? "" : compare(options.probabilities, probabilities);
  if (why.empty() && accuracy < kGoodAccuracy) why = "the accuracy is below 97 %";
  return why;
}

}  // namespace

int main(int argc, char **argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: digits [--pictures N] [--compare test_probs.bin] MODEL.bmodel DIR\n"
                 "DIR has test_images.bin and test_labels.bin\n");
    return 2;
  }
  Pictures pictures;
  Network net;
  std::string why = read_pictures(options.data, pictures);
  if (why.empty()) why = open_network(options.model, net);
  if (why.empty()) {
    show_device(net);
    why = run(net, options, pictures);
  }
  close_network(net);
  if (why.empty()) return 0;
  std::fprintf(stderr, "digits: %s\n", why.c_str());
  return 1;
}
