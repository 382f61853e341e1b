// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/compute/onednn/operation.h"

#include <omp.h>

#include <bit>
#include <cstring>

#include "qemu-device/model/src/compute/numerics.h"

namespace npu::model {
namespace {

using dnnl::memory;
using Dims = memory::dims;

// Primitives a thread keeps: more than the distinct shapes of two large networks.
constexpr size_t kMaxOperations = 512;
// Buffers up to this size stay between two jobs.
constexpr size_t kKeepBytes = size_t{4} << 20;
// Weights may take so many times their memory in packed form.
constexpr size_t kMostPadding = 4;

memory::desc f32(const Dims &dims, const Dims &strides) { return {dims, memory::data_type::f32, strides}; }
memory::desc f32(const Dims &dims, memory::format_tag tag) { return {dims, memory::data_type::f32, tag}; }

// The attributes of a shape: fused activation, accumulation, scratch memory from us.
dnnl::primitive_attr attributes(const Shape &s) {
  dnnl::post_ops ops;
  if (s.sum) ops.append_sum(1.0f);
  switch (s.act) {
    case NPU_ACT_RELU:
      dnnl_api::append_activation(ops, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
      break;
    case NPU_ACT_CLIP:
      dnnl_api::append_activation(ops, dnnl::algorithm::eltwise_clip, s.act_a, s.act_b);
      break;
    case NPU_ACT_LEAKY_RELU:
      dnnl_api::append_activation(ops, dnnl::algorithm::eltwise_relu, s.act_a, 0.0f);
      break;
    default:
      break;
  }
  dnnl::primitive_attr attr;
  attr.set_post_ops(ops);
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

// The fields of the descriptors that say where each element lies.
std::shared_ptr<const Layout> describe(const memory::desc &plain, uint8_t dtype, const memory::desc &packed) {
  auto layout = std::make_shared<Layout>();
  dnnl_api::append_layout(plain, *layout);
  dnnl_api::append_layout(packed, *layout);
  layout->push_back(dtype);
  return layout;
}

// Whether each window along an axis meets the image. The library's kernels are not right where one does not.
bool all_windows_meet(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad) {
  for (int64_t o = 0; o < out; ++o)
    if (window_range(o * stride - pad, dilation, kernel, in).size() == 0) return false;
  return true;
}

}  // namespace

Shape Shape::matmul(int64_t m, int64_t k, int64_t n, bool trans_b) {
  Shape s{};
  s.kind = Matmul;
  s.n = m;
  s.ic = k;
  s.oc = n;
  s.trans_b = trans_b;
  s.a_row = k;
  s.b_row = trans_b ? k : n;
  s.out_row = n;
  return s;
}

Operation::Operation(const Shape &shape) {
  try {
    shape.kind == Shape::Conv ? create_conv(shape) : create_matmul(shape);
  } catch (const dnnl::error &) {
    usable_ = false;  // the library has no implementation, or refuses the description
  }
}

// Takes the first implementation that is not the slow `ref` one.
template <class PrimitiveDesc>
void Operation::adopt(PrimitiveDesc &pd, const Shape &shape) {
  while (std::strstr(pd.impl_info_str(), "ref"))
    if (!pd.next_impl()) return;
  packed_ = pd.weights_desc();
  if (!dnnl_api::is_blocked(packed_)) return;
  layout_ = describe(plain_, shape.wgt_dtype, packed_);
  const dnnl::engine &engine = cpu_engine();
  primitive_ = dnnl::primitive(pd.get());
  in_ = memory(pd.src_desc(), engine, nullptr);
  out_ = memory(pd.dst_desc(), engine, nullptr);
  scratchpad_ = memory(pd.scratchpad_desc(), engine, nullptr);
  arguments_ = {{DNNL_ARG_SRC, in_.get()},
                {DNNL_ARG_WEIGHTS, nullptr},
                {DNNL_ARG_DST, out_.get()},
                {DNNL_ARG_SCRATCHPAD, scratchpad_.get()}};
  if (shape.bias) {
    bias_ = memory(pd.query_md(dnnl::query::exec_arg_md, DNNL_ARG_BIAS), engine, nullptr);
    arguments_.push_back({DNNL_ARG_BIAS, bias_.get()});
  }
  usable_ = true;
}

void Operation::create_conv(const Shape &s) {
  if (!all_windows_meet(s.ih, s.oh, s.kh, s.sh, s.dh, s.top) || !all_windows_meet(s.iw, s.ow, s.kw, s.sw, s.dw, s.left))
    return;
  const int64_t icg = s.ic / s.groups, ocg = s.oc / s.groups, row = s.kw * icg, filter = s.kh * row;
  const memory::desc in = f32({s.n, s.ic, s.ih, s.iw}, memory::format_tag::nhwc);
  const memory::desc out = f32({s.n, s.oc, s.oh, s.ow}, memory::format_tag::nhwc);
  Dims weights = {s.oc, icg, s.kh, s.kw};
  Dims strides = {filter, 1, row, icg};
  if (s.groups > 1) {
    weights = {s.groups, ocg, icg, s.kh, s.kw};
    strides = {ocg * filter, filter, 1, row, icg};
  }
  plain_ = f32(weights, strides);
  const memory::desc any = f32(weights, memory::format_tag::any);
  const Dims step = {s.sh, s.sw}, dilation = {s.dh - 1, s.dw - 1}, near = {s.top, s.left}, far = {s.bottom, s.right};
  const memory::desc bias = f32({s.oc}, memory::format_tag::a);
  const dnnl_api::Conv conv{in, any, s.bias ? &bias : nullptr, out, step, dilation, near, far};
  dnnl_api::describe(conv, attributes(s), cpu_engine(), [&](auto &&pd) { adopt(pd, s); });
}

void Operation::create_matmul(const Shape &s) {
  // One row has no other: its stride must not keep the library from its best form.
  const memory::desc a = f32({s.n, s.ic}, Dims{s.n == 1 ? s.ic : s.a_row, 1});
  const memory::desc out = f32({s.n, s.oc}, Dims{s.n == 1 ? s.oc : s.out_row, 1});
  plain_ = f32({s.ic, s.oc}, s.trans_b ? Dims{1, s.b_row} : Dims{s.b_row, 1});
  const memory::desc bias = f32({1, s.oc}, memory::format_tag::ab);
  const auto create = [&](const memory::desc &weights) {
    const dnnl_api::Matmul product{a, weights, s.bias ? &bias : nullptr, out};
    dnnl_api::describe(product, attributes(s), cpu_engine(), [&](auto &&pd) { adopt(pd, s); });
  };
  create(f32({s.ic, s.oc}, memory::format_tag::any));
  // Packed forms have 16 to 64 columns, however few there are: for one column most of that is work for nothing.
  const auto bytes = static_cast<size_t>(s.ic * s.oc) * sizeof(float);
  if (usable_ && packed_.get_size() > kMostPadding * bytes) create(plain_);
}

void Operation::pack(const void *plain, const memory &packed) {
  if (!packer_) packer_.emplace(plain_, packed_, cpu_engine());
  packer_->pack(plain, packed, ThreadState::current().stream());
}

void Operation::run(const void *in, const memory &weights, const void *bias, void *out) {
  ThreadState &thread = ThreadState::current();
  in_.set_data_handle(const_cast<void *>(in));
  out_.set_data_handle(out);
  if (bias_) bias_.set_data_handle(const_cast<void *>(bias));
  scratchpad_.set_data_handle(thread.scratchpad.reserve(scratchpad_.get_desc().get_size()));
  arguments_[1].memory = weights.get();
  dnnl::error::wrap_c_api(
      dnnl_primitive_execute(primitive_.get(), thread.stream().get(), arguments_.size(), arguments_.data()),
      "could not execute a primitive");
}

const dnnl::engine &cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

ThreadState::ThreadState() : stream_(cpu_engine()) {}

ThreadState &ThreadState::current() {
  thread_local ThreadState state;
  return state;
}

void ThreadState::trim() {
  if (packed.bytes() > kKeepBytes) own = {};
  for (AlignedBuffer *b : {&packed, &staged, &converted, &results, &scratchpad})
    if (b->bytes() > kKeepBytes) *b = {};
}

size_t ThreadState::Hash::operator()(const Shape &s) const {
  uint64_t h = s.kind;
  const auto mix = [&](uint64_t x) { h = (h ^ x) * 0x9e3779b97f4a7c15u ^ h >> 29; };
  for (const int64_t x : {s.n,  s.ih, s.iw,     s.ic,  s.oc,   s.oh,     s.ow,    s.kh,    s.kw,    s.sh,     s.sw,
                          s.dh, s.dw, s.groups, s.top, s.left, s.bottom, s.right, s.a_row, s.b_row, s.out_row})
    mix(x);
  mix(s.bias | s.sum << 1 | s.trans_b << 2 | s.act << 3 | s.wgt_dtype << 11);
  mix(std::bit_cast<uint32_t>(s.act_a) ^ uint64_t{std::bit_cast<uint32_t>(s.act_b)} << 32);
  return h;
}

Operation &ThreadState::operation(const Shape &shape) {
  const auto found = index_.find(shape);
  if (found != index_.end()) {
    operations_.splice(operations_.begin(), operations_, found->second);
    return found->second->second;
  }
  if (operations_.size() >= kMaxOperations) {
    index_.erase(operations_.back().first);
    operations_.pop_back();
  }
  operations_.emplace_front(std::piecewise_construct, std::forward_as_tuple(shape), std::forward_as_tuple(shape));
  index_[shape] = operations_.begin();
  return operations_.front().second;
}

SingleThread::SingleThread() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}

SingleThread::~SingleThread() {
  if (before_ != 1) omp_set_num_threads(before_);
}

}  // namespace npu::model
