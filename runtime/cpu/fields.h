// SPDX-License-Identifier: MIT
// The fields of attributes, in the order of their declaration: what writes, reads or prints attributes goes by this
// list. The structured bindings name all fields of a struct: a new one that is not listed does not compile.
#ifndef NPU_CPU_FIELDS_H
#define NPU_CPU_FIELDS_H

#include <type_traits>

#include "runtime/cpu/node.h"

namespace npu::cpu {

/// Calls f(name, field) for each field of an alternative of Attrs, or of a struct that is a field itself.
template <class A, class F>
void for_each_field(A &s, F f) {
  using T = std::remove_const_t<A>;
  if constexpr (std::is_same_v<T, std::monostate>) {
  } else if constexpr (std::is_same_v<T, Activation>) {
    auto &[kind, a, b] = s;
    f("kind", kind), f("a", a), f("b", b);
  } else if constexpr (std::is_same_v<T, Window>) {
    auto &[kernel, stride, dilation, begin, end] = s;
    f("kernel", kernel), f("stride", stride), f("dilation", dilation), f("begin", begin), f("end", end);
  } else if constexpr (std::is_same_v<T, Quant>) {
    auto &[scale, zero] = s;
    f("scale", scale), f("zero", zero);
  } else if constexpr (std::is_same_v<T, ProductQuant>) {
    auto &[on, x_zero, w_zero, out_zero, out] = s;
    f("quantized", on), f("x_zero", x_zero), f("w_zero", w_zero), f("out_zero", out_zero), f("out", out);
  } else if constexpr (std::is_same_v<T, ConvAttrs>) {
    auto &[window, groups, act, quant] = s;
    f("window", window), f("groups", groups), f("act", act), f("quant", quant);
  } else if constexpr (std::is_same_v<T, PoolAttrs>) {
    auto &[window, max, count_pad, counted_end, in, out, out_type] = s;
    f("window", window), f("max", max), f("count_pad", count_pad), f("counted_end", counted_end), f("in_quant", in);
    f("out_quant", out), f("out_type", out_type);
  } else if constexpr (std::is_same_v<T, MatMulAttrs>) {
    auto &[act, quant] = s;
    f("act", act), f("quant", quant);
  } else if constexpr (std::is_same_v<T, UnaryAttrs>) {
    auto &[act] = s;
    f("act", act);
  } else if constexpr (std::is_same_v<T, BinaryAttrs>) {
    auto &[kind, act, x, y, out, out_type] = s;
    f("kind", kind), f("act", act), f("a_quant", x), f("b_quant", y), f("out_quant", out), f("out_type", out_type);
  } else if constexpr (std::is_same_v<T, SoftmaxAttrs>) {
    auto &[axis, log, in, out, out_type] = s;
    f("axis", axis), f("log", log), f("in_quant", in), f("out_quant", out), f("out_type", out_type);
  } else if constexpr (std::is_same_v<T, TransposeAttrs>) {
    auto &[perm] = s;
    f("perm", perm);
  } else if constexpr (std::is_same_v<T, ConcatAttrs>) {
    auto &[axis] = s;
    f("axis", axis);
  } else if constexpr (std::is_same_v<T, GatherAttrs>) {
    auto &[axis] = s;
    f("axis", axis);
  } else if constexpr (std::is_same_v<T, SliceAttrs>) {
    auto &[start, step, count] = s;
    f("start", start), f("step", step), f("count", count);
  } else if constexpr (std::is_same_v<T, PadAttrs>) {
    auto &[begin, end, value] = s;
    f("begin", begin), f("end", end), f("value", value);
  } else if constexpr (std::is_same_v<T, CastAttrs>) {
    auto &[to, saturate] = s;
    f("to", to), f("saturate", saturate);
  } else if constexpr (std::is_same_v<T, ShapeAttrs>) {
    auto &[shape] = s;
    f("shape", shape);
  } else if constexpr (std::is_same_v<T, ReduceAttrs>) {
    auto &[kind, axes] = s;
    f("kind", kind), f("axes", axes);
  } else if constexpr (std::is_same_v<T, ArgMaxAttrs>) {
    auto &[axis, last, smallest] = s;
    f("axis", axis), f("last", last), f("smallest", smallest);
  } else if constexpr (std::is_same_v<T, TopKAttrs>) {
    auto &[axis, count, smallest] = s;
    f("axis", axis), f("count", count), f("smallest", smallest);
  } else if constexpr (std::is_same_v<T, CumSumAttrs>) {
    auto &[axis, exclusive, reverse] = s;
    f("axis", axis), f("exclusive", exclusive), f("reverse", reverse);
  } else if constexpr (std::is_same_v<T, GatherNdAttrs>) {
    auto &[batch_dims] = s;
    f("batch_dims", batch_dims);
  } else if constexpr (std::is_same_v<T, ScatterAttrs>) {
    auto &[axis, reduction] = s;
    f("axis", axis), f("reduction", reduction);
  } else if constexpr (std::is_same_v<T, RequantAttrs>) {
    auto &[in, out, act, to] = s;
    f("in_quant", in), f("out_quant", out), f("act", act), f("to", to);
  } else if constexpr (std::is_same_v<T, PluginAttribute>) {
    auto &[name, kind, ints, floats, strings, tensor] = s;
    f("name", name), f("kind", kind), f("ints", ints), f("floats", floats), f("strings", strings);
    f("tensor", tensor);
  } else if constexpr (std::is_same_v<T, PluginAttrs>) {
    auto &[library, domain, op, attributes, outputs] = s;
    f("library", library), f("domain", domain), f("op", op), f("attributes", attributes), f("outputs", outputs);
  } else if constexpr (std::is_same_v<T, PluginOutputAttrs>) {
    auto &[offset, kind] = s;
    f("offset", offset), f("kind", kind);
  } else {
    static_assert(std::is_same_v<T, PoolIndicesAttrs>, "a struct whose fields are not listed");
    auto &[window, column_major] = s;
    f("window", window), f("column_major", column_major);
  }
}

}  // namespace npu::cpu

#endif  // NPU_CPU_FIELDS_H
