// SPDX-License-Identifier: MIT
// The parts of oneDNN's interface that differ between its versions 2 and 3. Version 3 has no operation descriptors
// (primitive descriptors are created from their arguments), opaque memory descriptors, and scales as run-time
// arguments.
#ifndef NPU_MODEL_COMPUTE_ONEDNN_DNNL_API_H
#define NPU_MODEL_COMPUTE_ONEDNN_DNNL_API_H

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <dnnl.hpp>
#include <unordered_map>
#include <vector>

namespace npu::model::dnnl_api {

/// The arguments of a convolution. `bias` may be null.
struct Conv {
  const dnnl::memory::desc &in, &weights, *bias, &out;
  const dnnl::memory::dims &step, &dilation, &near, &far;
};

/// Calls `use` with the primitive descriptor of a convolution, which is valid for the length of the call: next_impl()
/// of version 2 reads the operation descriptor that it was built from.
template <class Use>
void describe(const Conv &c, const dnnl::primitive_attr &attr, const dnnl::engine &engine, Use use) {
  using dnnl::convolution_forward;
  constexpr auto kind = dnnl::prop_kind::forward_inference;
  constexpr auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  use(c.bias ? convolution_forward::primitive_desc(engine, kind, algorithm, c.in, c.weights, *c.bias, c.out, c.step,
                                                   c.dilation, c.near, c.far, attr)
             : convolution_forward::primitive_desc(engine, kind, algorithm, c.in, c.weights, c.out, c.step, c.dilation,
                                                   c.near, c.far, attr));
#else
  const convolution_forward::desc desc =
      c.bias ? convolution_forward::desc(kind, algorithm, c.in, c.weights, *c.bias, c.out, c.step, c.dilation, c.near,
                                         c.far)
             : convolution_forward::desc(kind, algorithm, c.in, c.weights, c.out, c.step, c.dilation, c.near, c.far);
  use(convolution_forward::primitive_desc(desc, attr, engine));
#endif
}

/// The arguments of a product of matrices. `bias` may be null.
struct Matmul {
  const dnnl::memory::desc &a, &b, *bias, &out;
};

/// Calls `use` with the primitive descriptor of a product, under the same rule.
template <class Use>
void describe(const Matmul &m, const dnnl::primitive_attr &attr, const dnnl::engine &engine, Use use) {
  using dnnl::matmul;
#if DNNL_VERSION_MAJOR >= 3
  use(m.bias ? matmul::primitive_desc(engine, m.a, m.b, *m.bias, m.out, attr)
             : matmul::primitive_desc(engine, m.a, m.b, m.out, attr));
#else
  const matmul::desc desc = m.bias ? matmul::desc(m.a, m.b, *m.bias, m.out) : matmul::desc(m.a, m.b, m.out);
  use(matmul::primitive_desc(desc, attr, engine));
#endif
}

inline void append_activation(dnnl::post_ops &ops, dnnl::algorithm algorithm, float alpha, float beta) {
#if DNNL_VERSION_MAJOR >= 3
  ops.append_eltwise(algorithm, alpha, beta);
#else
  ops.append_eltwise(1.0f, algorithm, alpha, beta);
#endif
}

/// A product of bytes is multiplied by a value for each index of some dimensions, named by a mask: version 2 takes
/// those of the result, and takes the values here; version 3 for those of the weights, and takes the values of
/// add_multipliers().
inline void multiply_result(dnnl::primitive_attr &attr, [[maybe_unused]] int result_mask,
                            [[maybe_unused]] int weights_mask, [[maybe_unused]] const std::vector<float> &values) {
#if DNNL_VERSION_MAJOR >= 3
  attr.set_scales_mask(DNNL_ARG_WEIGHTS, weights_mask);
#else
  attr.set_output_scales(result_mask, values);
#endif
}

/// Adds what a primitive with multiply_result() reads when it runs. The values stay with the caller.
inline void add_multipliers([[maybe_unused]] std::unordered_map<int, dnnl::memory> &arguments,
                            [[maybe_unused]] const dnnl::engine &engine, [[maybe_unused]] std::vector<float> &values) {
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::memory::desc desc({static_cast<int64_t>(values.size())}, dnnl::memory::data_type::f32,
                                dnnl::memory::format_tag::a);
  arguments[DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS] = dnnl::memory(desc, engine, values.data());
#endif
}

/// True if strides and inner blocks say where each element lies.
inline bool is_blocked(const dnnl::memory::desc &desc) {
#if DNNL_VERSION_MAJOR >= 3
  return desc.get_format_kind() == dnnl::memory::format_kind::blocked;
#else
  return desc.data.format_kind == dnnl_blocked;
#endif
}

/// Appends to `fields` everything that says where each element of a blocked descriptor of f32 lies. (Descriptors of
/// bytes have compensations as well, which version 3 does not show.)
inline void append_layout(const dnnl::memory::desc &desc, std::vector<int64_t> &fields) {
#if DNNL_VERSION_MAJOR >= 3
  const auto append = [&](const dnnl::memory::dims &list) { fields.insert(fields.end(), list.begin(), list.end()); };
  const dnnl::memory::dims blocks = desc.get_inner_blks();
  fields.insert(fields.end(), {desc.get_ndims(), static_cast<int64_t>(desc.get_format_kind()),
                               static_cast<int64_t>(blocks.size()), desc.get_submemory_offset()});
  for (const auto &list : {desc.get_dims(), desc.get_padded_dims(), desc.get_padded_offsets(), desc.get_strides()})
    append(list);
  append(blocks);
  append(desc.get_inner_idxs());
#else
  const dnnl_memory_desc_t &d = desc.data;
  const dnnl_blocking_desc_t &b = d.format_desc.blocking;
  fields.insert(fields.end(), {d.ndims, d.format_kind, b.inner_nblks, int64_t(d.extra.flags), d.offset0});
  for (int i = 0; i < d.ndims; ++i)
    fields.insert(fields.end(), {d.dims[i], d.padded_dims[i], d.padded_offsets[i], b.strides[i]});
  for (int i = 0; i < b.inner_nblks; ++i) fields.insert(fields.end(), {b.inner_blks[i], b.inner_idxs[i]});
#endif
}

/// Brings plain weights of f32 into packed form.
class Packer {
 public:
#if DNNL_VERSION_MAJOR >= 3
  /// Not by a primitive: the reorder of oneDNN 3.7 writes wrong elements where the last block of a transposed matrix is
  /// not full (45 x 69, transposed, to BA16a64b, on AVX-512).
  Packer(const dnnl::memory::desc &plain, const dnnl::memory::desc &packed, const dnnl::engine &)
      : dims_(plain.get_dims()), from_(offsets_of(plain)), to_(offsets_of(packed)), bytes_(packed.get_size()) {
    inner_ = static_cast<size_t>(std::max_element(dims_.begin(), dims_.end()) - dims_.begin());
    padded_ = packed.get_padded_dims() != dims_;
  }

  void pack(const void *plain, const dnnl::memory &packed, dnnl::stream &) const {
    const auto *from = static_cast<const float *>(plain);
    auto *to = static_cast<float *>(packed.get_data_handle());
    if (padded_) std::memset(to, 0, bytes_);
    const std::vector<int64_t> &inner_from = from_[inner_], &inner_to = to_[inner_];
    std::vector<int64_t> index(dims_.size());
    for (;;) {
      int64_t base_from = 0, base_to = 0;
      for (size_t d = 0; d < index.size(); ++d)
        if (d != inner_) base_from += from_[d][index[d]], base_to += to_[d][index[d]];
      for (size_t i = 0; i < inner_from.size(); ++i) to[base_to + inner_to[i]] = from[base_from + inner_from[i]];
      size_t d = 0;
      while (d < index.size() && (d == inner_ || ++index[d] == dims_[d])) index[d++] = 0;
      if (d == index.size()) return;
    }
  }

 private:
  /// The offset of each index of each dimension: that of an element is their sum.
  using Offsets = std::vector<std::vector<int64_t>>;
  static Offsets offsets_of(const dnnl::memory::desc &desc) {
    const auto dims = desc.get_dims(), strides = desc.get_strides();
    const auto blocks = desc.get_inner_blks(), dimension = desc.get_inner_idxs();
    Offsets offsets(dims.size());
    for (size_t d = 0; d < dims.size(); ++d)
      for (int64_t i = 0; i < dims[d]; ++i) {
        int64_t rest = i, step = 1, at = 0;
        for (size_t b = blocks.size(); b-- > 0; step *= blocks[b]) {
          if (static_cast<size_t>(dimension[b]) != d) continue;
          at += rest % blocks[b] * step;
          rest /= blocks[b];
        }
        offsets[d].push_back(at + rest * strides[d]);
      }
    return offsets;
  }

  dnnl::memory::dims dims_;
  Offsets from_, to_;
  size_t bytes_, inner_;
  bool padded_;
#else
  Packer(const dnnl::memory::desc &plain, const dnnl::memory::desc &packed, const dnnl::engine &engine)
      : plain_(plain, engine, nullptr), reorder_(plain_, dnnl::memory(packed, engine, nullptr)) {}

  void pack(const void *plain, const dnnl::memory &packed, dnnl::stream &stream) const {
    plain_.set_data_handle(const_cast<void *>(plain));
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, plain_.get()}, {DNNL_ARG_TO, packed.get()}};
    dnnl::error::wrap_c_api(dnnl_primitive_execute(reorder_.get(), stream.get(), 2, arguments),
                            "could not execute a reorder");
  }

 private:
  dnnl::memory plain_;
  dnnl::reorder reorder_;
#endif
};

}  // namespace npu::model::dnnl_api

#endif  // NPU_MODEL_COMPUTE_ONEDNN_DNNL_API_H
