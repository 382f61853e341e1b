// SPDX-License-Identifier: MIT
// The fields of attributes, in the order of their declaration: what writes, reads or prints attributes goes by this
// list.
#ifndef NPU_CPU_FIELDS_H
#define NPU_CPU_FIELDS_H

#include <type_traits>

#include "runtime/cpu/node.h"

namespace npu::cpu {

/// Calls f(name, field) for each field of an alternative of Attrs, or of a struct that is a field itself.
template <class A, class F>
void for_each_field(A &a, F f) {
  using T = std::remove_const_t<A>;
  if constexpr (std::is_same_v<T, std::monostate>) {
  } else if constexpr (std::is_same_v<T, Activation>) {
    f("kind", a.kind), f("a", a.a), f("b", a.b);
  } else if constexpr (std::is_same_v<T, Window>) {
    f("kernel", a.kernel), f("stride", a.stride), f("dilation", a.dilation), f("begin", a.begin), f("end", a.end);
  } else if constexpr (std::is_same_v<T, Quant>) {
    f("scale", a.scale), f("zero", a.zero);
  } else if constexpr (std::is_same_v<T, ProductQuant>) {
    f("quantized", a.on), f("x_zero", a.x_zero), f("w_zero", a.w_zero), f("out_zero", a.out_zero), f("out", a.out);
  } else if constexpr (std::is_same_v<T, ConvAttrs>) {
    f("window", a.window), f("groups", a.groups), f("act", a.act), f("quant", a.quant);
  } else if constexpr (std::is_same_v<T, PoolAttrs>) {
    f("window", a.window), f("max", a.max), f("count_pad", a.count_pad), f("counted_end", a.counted_end);
    f("in_quant", a.in), f("out_quant", a.out), f("out_type", a.out_type);
  } else if constexpr (std::is_same_v<T, MatMulAttrs>) {
    f("act", a.act), f("quant", a.quant);
  } else if constexpr (std::is_same_v<T, UnaryAttrs>) {
    f("act", a.act);
  } else if constexpr (std::is_same_v<T, BinaryAttrs>) {
    f("kind", a.kind), f("act", a.act);
    f("a_quant", a.a), f("b_quant", a.b), f("out_quant", a.out), f("out_type", a.out_type);
  } else if constexpr (std::is_same_v<T, SoftmaxAttrs>) {
    f("axis", a.axis), f("log", a.log), f("in_quant", a.in), f("out_quant", a.out), f("out_type", a.out_type);
  } else if constexpr (std::is_same_v<T, TransposeAttrs>) {
    f("perm", a.perm);
  } else if constexpr (std::is_same_v<T, ConcatAttrs> || std::is_same_v<T, GatherAttrs>) {
    f("axis", a.axis);
  } else if constexpr (std::is_same_v<T, SliceAttrs>) {
    f("start", a.start), f("step", a.step), f("count", a.count);
  } else if constexpr (std::is_same_v<T, PadAttrs>) {
    f("begin", a.begin), f("end", a.end), f("value", a.value);
  } else if constexpr (std::is_same_v<T, CastAttrs>) {
    f("to", a.to), f("saturate", a.saturate);
  } else if constexpr (std::is_same_v<T, ShapeAttrs>) {
    f("shape", a.shape);
  } else if constexpr (std::is_same_v<T, ReduceAttrs>) {
    f("kind", a.kind), f("axes", a.axes);
  } else if constexpr (std::is_same_v<T, ArgMaxAttrs>) {
    f("axis", a.axis), f("last", a.last), f("smallest", a.smallest);
  } else if constexpr (std::is_same_v<T, TopKAttrs>) {
    f("axis", a.axis), f("count", a.count), f("smallest", a.smallest);
  } else if constexpr (std::is_same_v<T, CumSumAttrs>) {
    f("axis", a.axis), f("exclusive", a.exclusive), f("reverse", a.reverse);
  } else if constexpr (std::is_same_v<T, GatherNdAttrs>) {
    f("batch_dims", a.batch_dims);
  } else if constexpr (std::is_same_v<T, ScatterAttrs>) {
    f("axis", a.axis), f("reduction", a.reduction);
  } else if constexpr (std::is_same_v<T, RequantAttrs>) {
    f("in_quant", a.in), f("out_quant", a.out), f("act", a.act), f("to", a.to);
  } else {
    static_assert(std::is_same_v<T, PoolIndicesAttrs>, "a struct whose fields are not listed");
    f("window", a.window), f("column_major", a.column_major);
  }
}

}  // namespace npu::cpu

#endif  // NPU_CPU_FIELDS_H
