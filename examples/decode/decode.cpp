// SPDX-License-Identifier: MIT
// A language model on the NPU: the prompt at once, then token by token, each the most likely one. The networks are
// those of tests/bench/llama.py, compiled; docs/reference/runtime.md, "Transformers: the KV cache", has the commands.
//
// The cache lies in the card's memory and is never copied. A launch reads the rows that there are, and its output, the
// row of the new token, is the memory behind them. What else a launch needs to know are rows of tables on the card:
// only the scores of the next token cross the bus.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "bmruntime_interface.h"
#include "npu.h"

namespace {

/// A real program does more than to end.
[[noreturn]] void fail(const std::string &text) {
  std::fprintf(stderr, "sample_decode: %s\n", text.c_str());
  std::exit(1);
}

/// Every call can fail. The runtime and BMLIB each have a text.
void check(bool good, const std::string &what) {
  if (good) return;
  std::string text = what;
  for (const std::string &reason : {std::string(bmrt_last_error()), std::string(npu_last_error())})
    if (!reason.empty() && text.find(reason) == text.npos) text += ": " + reason;
  fail(text);
}

/// "[64, 5, 2]"
std::string text_of(const bm_shape_t &shape) {
  std::string text;
  for (int d = 0; d < shape.num_dims; ++d) text += (d ? ", " : "[") + std::to_string(shape.dims[d]);
  return text + "]";
}

/// Networks of different models can be loaded together; their shapes show it.
void expect_shape(const std::string &what, const bm_shape_t &shape, const std::vector<int> &dims) {
  bm_shape_t expected{};
  bmrt_shape(&expected, dims.data(), static_cast<int>(dims.size()));
  if (!bmrt_shape_is_same(&shape, &expected))
    fail(what + " has the shape " + text_of(shape) + ", expected " + text_of(expected) +
         ": the networks are not of one model");
}

/// Bytes that one element of the first dimension has.
uint64_t row_bytes(const bm_tensor_t &t) { return bmrt_tensor_bytesize(&t) / static_cast<uint64_t>(t.shape.dims[0]); }

/// The memory of rows of a tensor, from one on.
bm_device_mem_t rows_of(const bm_tensor_t &t, uint64_t first, uint64_t count) {
  return bm_mem_from_device(bm_mem_get_device_addr(t.device_mem) + first * row_bytes(t),
                            static_cast<unsigned int>(count * row_bytes(t)));
}

class Model {
 public:
  explicit Model(const std::string &folder) {
    check(bm_dev_request(&handle_, 0) == BM_SUCCESS, "no device");
    runtime_ = bmrt_create(handle_);
    check(runtime_, "no runtime");
    for (const char *name : {"tables", "prefill", "decode"})
      check(bmrt_load_bmodel(runtime_, (folder + "/" + name + ".bmodel").c_str()), name);
    decode_ = network("decode", 2);
    prefill_ = network("prefill", 2);
    while (cache_input_ < decode_->input_num && std::string(decode_->input_names[cache_input_]) != "cache")
      ++cache_input_;
    if (cache_input_ == decode_->input_num) fail("decode.bmodel has no input 'cache'");
    make_tables();
    const bm_stage_info_t &largest = decode_->stages[largest_stage()];
    cache_ = allocate(largest.input_shapes[cache_input_], BM_FLOAT32);
    logits_ = allocate(largest.output_shapes[0], BM_FLOAT32);
    check_shapes();
  }

  Model(const Model &) = delete;
  Model &operator=(const Model &) = delete;

  ~Model() {
    for (const bm_tensor_t &t : owned_) bm_free_device(handle_, t.device_mem);
    if (runtime_) bmrt_destroy(runtime_);
    if (handle_) bm_dev_free(handle_);
  }

  /// Tokens that the cache has room for.
  size_t capacity() const { return static_cast<size_t>(cache_.shape.dims[0]); }
  /// Tokens that a prompt may have.
  size_t longest_prompt() const { return static_cast<size_t>(prefill_->stages[0].input_shapes[0].dims[0]); }
  /// Different tokens: 0 and so on.
  int vocabulary() const { return tables_[0].shape.dims[0]; }

  /// Fills the cache with the rows of the prompt; returns the token behind it.
  int prefill(const std::vector<int> &prompt) {
    const bm_stage_info_t &stage = prefill_->stages[0];
    const size_t length = longest_prompt();
    // What fills up the prompt leaves rows, too. Nobody looks at them before they are overwritten.
    std::vector<int> padded = prompt;
    padded.resize(length, prompt.back());
    const bm_tensor_t tokens = allocate(stage.input_shapes[0], BM_INT32);
    to_card(tokens, padded.data());
    bm_tensor_t outputs[2] = {allocate(stage.output_shapes[0], BM_FLOAT32), cache_};
    outputs[1].device_mem = rows_of(cache_, 0, length);
    launch("prefill", {tokens}, outputs);
    return likeliest(outputs[0], prompt.size() - 1);
  }

  /// The token behind the one at a place, of which the cache has all rows before.
  int next(int token, size_t place) {
    const bm_stage_info_t &stage = decode_->stages[smallest_stage(place)];
    std::vector<bm_tensor_t> inputs;
    for (int i = 0; i < decode_->input_num; ++i)
      inputs.push_back(input(decode_->input_names[i], stage.input_shapes[i], token, place));
    bm_tensor_t outputs[2] = {logits_, cache_};
    outputs[1].device_mem = rows_of(cache_, place, 1);
    launch("decode", inputs, outputs);
    return likeliest(logits_, 0);
  }

  /// What has crossed the bus since the last call, and the modelled cycles of the last launch, as text.
  std::string costs() {
    uint64_t cycles = 0;
    check(bmrt_last_launch_cycles(runtime_, &cycles), "cycles");
    bm_profile_t now{};
    check(bm_get_profile(handle_, &now) == BM_SUCCESS, "profile");
    const auto number = [](uint64_t n) { return std::to_string(n); };
    std::string text = "launches " + number(launches_) + ", to the card " + number(out_bytes_) + " bytes in " +
                       number(now.cdma_out_counter - before_.cdma_out_counter) + " copies, from it " +
                       number(in_bytes_) + " in " + number(now.cdma_in_counter - before_.cdma_in_counter) +
                       ", cycles " + number(cycles);
    before_ = now;
    launches_ = out_bytes_ = in_bytes_ = 0;
    return text;
  }

 private:
  const bm_net_info_t *network(const std::string &name, int outputs) {
    const bm_net_info_t *info = bmrt_get_network_info(runtime_, name.c_str());
    check(info, name + ".bmodel has no network '" + name + "'");
    if (info->output_num != outputs)
      fail(name + ".bmodel has " + std::to_string(info->output_num) + " outputs, expected " + std::to_string(outputs));
    return info;
  }

  /// Rows are taken from memory by their address: that all shapes fit is this program's business.
  void check_shapes() const {
    const int all = cache_.shape.dims[0], head = cache_.shape.dims[cache_.shape.num_dims - 1];
    std::vector<int> row(cache_.shape.dims, cache_.shape.dims + cache_.shape.num_dims);
    row[0] = 1;
    expect_shape("output 1 of decode.bmodel", decode_->stages[0].output_shapes[1], row);
    row[0] = static_cast<int>(longest_prompt());
    expect_shape("output 1 of prefill.bmodel", prefill_->stages[0].output_shapes[1], row);
    expect_shape("output 0 of prefill.bmodel", prefill_->stages[0].output_shapes[0],
                 {static_cast<int>(longest_prompt()), vocabulary()});
    expect_shape("output 0 of decode.bmodel", logits_.shape, {1, vocabulary()});
    expect_shape("output 1 of tables.bmodel", tables_[1].shape, {all, 2, head});
    expect_shape("output 2 of tables.bmodel", tables_[2].shape, {2 * all + 1});
    for (size_t s = 0; s < static_cast<size_t>(decode_->stage_num); ++s)
      for (int i = 0; i < decode_->input_num; ++i) {
        const std::string name = decode_->input_names[i];
        const std::string what = "input '" + name + "' of decode.bmodel";
        const bm_shape_t &shape = decode_->stages[s].input_shapes[i];
        if (name == "x") expect_shape(what, shape, {1, tables_[0].shape.dims[1]});
        if (name == "rope") expect_shape(what, shape, {2, head});
        if (name == "mask") expect_shape(what, shape, {static_cast<int>(rows(s)) + 1});
      }
    if (longest_prompt() > capacity())
      fail("prefill.bmodel leaves " + std::to_string(longest_prompt()) + " rows, the cache of decode.bmodel has " +
           std::to_string(capacity()));
  }

  bm_tensor_t allocate(const bm_shape_t &shape, bm_data_type_t type) {
    bm_tensor_t t;
    check(bmrt_tensor(&t, runtime_, type, shape), "no memory");
    owned_.push_back(t);
    return t;
  }

  /// Embeddings, angles and masks; they are outputs of a network, and so they never were in this program's memory.
  void make_tables() {
    const bm_net_info_t *info = network("tables", 3);
    const bm_tensor_t unused = allocate(info->stages[0].input_shapes[0], BM_FLOAT32);
    tables_.resize(3);
    check(bmrt_launch_tensor(runtime_, "tables", &unused, 1, tables_.data(), 3), "tables");
    owned_.insert(owned_.end(), tables_.begin(), tables_.end());
    check(bm_thread_sync(handle_) == BM_SUCCESS, "tables");
  }

  /// An input of the network for one token. Nothing is copied for those that are rows of what lies on the card.
  bm_tensor_t input(const std::string &name, const bm_shape_t &shape, int token, size_t place) {
    const auto from = [&](const bm_tensor_t &t, uint64_t first, uint64_t count) {
      bm_tensor_t rows = t;
      rows.shape = shape;
      rows.device_mem = rows_of(t, first, count);
      return rows;
    };
    const auto length = static_cast<uint64_t>(shape.dims[0]);
    if (name == "cache") return from(cache_, 0, length);
    if (name == "x") return from(tables_[0], static_cast<uint64_t>(token), 1);
    if (name == "rope") return from(tables_[1], place, 1);
    if (name == "mask") return from(tables_[2], capacity() - place, length);
    // The other kind of network looks up the rows itself, on the CPU.
    bm_tensor_t &number = numbers_[name];
    if (number.device_mem.size == 0) number = allocate(shape, BM_INT32);
    int value = name == "token" ? token : static_cast<int>(place);
    to_card(number, &value);
    return number;
  }

  size_t rows(size_t stage) const {
    return static_cast<size_t>(decode_->stages[stage].input_shapes[cache_input_].dims[0]);
  }

  size_t largest_stage() const {
    size_t best = 0;
    for (size_t s = 1; s < static_cast<size_t>(decode_->stage_num); ++s)
      if (rows(s) > rows(best)) best = s;
    return best;
  }

  size_t smallest_stage(size_t wanted) const {
    size_t best = largest_stage();
    for (size_t s = 0; s < static_cast<size_t>(decode_->stage_num); ++s)
      if (rows(s) >= wanted && rows(s) < rows(best)) best = s;
    return best;
  }

  void launch(const char *name, const std::vector<bm_tensor_t> &inputs, bm_tensor_t (&outputs)[2]) {
    check(
        bmrt_launch_tensor_ex(runtime_, name, inputs.data(), static_cast<int>(inputs.size()), outputs, 2, true, false),
        name);
    check(bm_thread_sync(handle_) == BM_SUCCESS, name);
    ++launches_;
  }

  void to_card(const bm_tensor_t &t, void *data) {
    check(bm_memcpy_s2d(handle_, t.device_mem, data) == BM_SUCCESS, "copy");
    out_bytes_ += bm_mem_get_device_size(t.device_mem);
  }

  /// The best of the scores in one row.
  int likeliest(const bm_tensor_t &logits, size_t row) {
    std::vector<float> scores(static_cast<size_t>(logits.shape.dims[1]));
    check(bm_memcpy_d2s(handle_, scores.data(), rows_of(logits, row, 1)) == BM_SUCCESS, "copy");
    in_bytes_ += scores.size() * sizeof(float);
    return static_cast<int>(std::max_element(scores.begin(), scores.end()) - scores.begin());
  }

  bm_handle_t handle_ = nullptr;
  void *runtime_ = nullptr;
  const bm_net_info_t *decode_ = nullptr, *prefill_ = nullptr;
  int cache_input_ = 0;                         ///< number of that input of decode_
  std::vector<bm_tensor_t> tables_;             ///< x, rope, mask
  std::map<std::string, bm_tensor_t> numbers_;  ///< inputs that are a number each
  bm_tensor_t cache_{}, logits_{};
  std::vector<bm_tensor_t> owned_;
  uint64_t launches_ = 0, out_bytes_ = 0, in_bytes_ = 0;
  bm_profile_t before_{};
};

void run(const std::string &folder, size_t count, const std::vector<int> &prompt) {
  Model model(folder);
  if (prompt.size() > model.longest_prompt())
    fail("the prompt has " + std::to_string(prompt.size()) + " tokens, prefill.bmodel takes at most " +
         std::to_string(model.longest_prompt()));
  for (int token : prompt)
    if (token >= model.vocabulary())
      fail("token " + std::to_string(token) + ": the model has tokens from 0 to " +
           std::to_string(model.vocabulary() - 1));
  std::vector<int> tokens = prompt;
  std::string costs;
  for (size_t i = 0; i < count && tokens.size() <= model.capacity(); ++i) {
    const int token = i == 0 ? model.prefill(prompt) : model.next(tokens.back(), tokens.size() - 1);
    tokens.push_back(token);
    std::fprintf(stderr, "token %zu: %s\n", tokens.size() - 1, model.costs().c_str());
  }
  for (int token : tokens) std::printf("%d ", token);
  std::printf("\n");
}

/// A number on the command line.
int number(const char *text) {
  int value = 0;
  const char *const end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, value);
  if (error != std::errc() || at != end || value < 0) fail(std::string("'") + text + "' is no number from 0 on");
  return value;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc < 4) {
    std::fprintf(stderr,
                 "usage: sample_decode FOLDER COUNT TOKEN...\n"
                 "FOLDER has tables.bmodel, prefill.bmodel and decode.bmodel\n");
    return 2;
  }
  std::vector<int> prompt;
  for (int i = 3; i < argc; ++i) prompt.push_back(number(argv[i]));
  run(argv[1], static_cast<size_t>(number(argv[2])), prompt);
  return 0;
}
