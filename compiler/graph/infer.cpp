// SPDX-License-Identifier: MIT
// Shape inference. Every node of a graph has passed it, so that later stages may rely on what it checks.
#include <algorithm>

#include "compiler/graph/ir.h"

namespace npu::graph {
namespace {

Status mismatch(const std::string &what) { return Status::error(what); }

/// Output size of one spatial dimension of a convolution or pooling, without ceil_mode: the importer puts what that
/// adds into the padding.
int64_t window_places(const Window &w, int i, int64_t size) {
  const int64_t span = size + w.begin[i] + w.end[i] - w.extent(i);
  return span < 0 ? 0 : span / w.stride[i] + 1;
}

Status window_output(const Window &w, const Shape &x, int64_t channels, Shape &out) {
  out = {x[0], channels};
  for (size_t i = 0; i + 2 < x.size(); ++i) {
    const int64_t places = window_places(w, static_cast<int>(i), x[i + 2]);
    if (places < 1)
      return mismatch("a window of " + std::to_string(w.extent(static_cast<int>(i))) +
                      " does not fit spatial dimension " + std::to_string(i) + " of input " + shape_text(x));
    out.push_back(places);
  }
  return {};
}

Status check_window(const Window &w, const Shape &x) {
  if (x.size() != 3 && x.size() != 4)
    return mismatch("input " + shape_text(x) + " has " + std::to_string(static_cast<int64_t>(x.size()) - 2) +
                    " spatial dimensions, 1 or 2 are supported");
  for (int i = 0; i < 2; ++i) {
    const int64_t fields[] = {w.kernel[i], w.stride[i], w.dilation[i]};
    for (int64_t f : fields)
      if (f < 1 || f > 65535)
        return mismatch("kernel, stride or dilation " + std::to_string(f) + " is outside 1 to 65535");
    if (std::abs(w.begin[i]) > (1 << 28) || std::abs(w.end[i]) > (1 << 28)) return mismatch("padding is out of range");
  }
  return {};
}

Status infer_conv(const Graph &g, const Node &n, Shape &out) {
  const auto &attrs = std::get<ConvAttrs>(n.attrs);
  const Shape &x = g[n.inputs[0]].shape, &w = g[n.inputs[1]].shape;
  NPU_TRY(check_window(attrs.window, x));
  if (w.size() != x.size()) return mismatch("weights " + shape_text(w) + " do not fit input " + shape_text(x));
  if (attrs.groups < 1 || x[1] % attrs.groups || w[0] % attrs.groups || w[1] * attrs.groups != x[1])
    return mismatch("input " + shape_text(x) + ", weights " + shape_text(w) + " and group " +
                    std::to_string(attrs.groups) + " do not fit");
  for (size_t i = 2; i < w.size(); ++i)
    if (w[i] != attrs.window.kernel[i - 2]) return mismatch("kernel_shape differs from weights " + shape_text(w));
  if (n.inputs.size() > 2 && n.inputs[2] != kNoValue && g[n.inputs[2]].shape != Shape{w[0]})
    return mismatch("bias " + shape_text(g[n.inputs[2]].shape) + " does not have " + std::to_string(w[0]) +
                    " elements");
  return window_output(attrs.window, x, w[0], out);
}

Status infer_pool(const Graph &g, const Node &n, Shape &out) {
  const auto &attrs = std::get<PoolAttrs>(n.attrs);
  const Shape &x = g[n.inputs[0]].shape;
  NPU_TRY(check_window(attrs.window, x));
  NPU_TRY(window_output(attrs.window, x, x[1], out));
  for (size_t i = 2; i < x.size(); ++i) {
    const int d = static_cast<int>(i) - 2;
    const Window &w = attrs.window;
    if (w.begin[d] < 0 || w.end[d] < 0) return mismatch("negative padding of a pooling");
    // Windows that begin in front of the data, and the last one; the others see the cell they begin at.
    const int64_t last = out[i] - 1, early = std::min(last, w.begin[d] / w.stride[d]);
    for (int64_t o = 0; o <= last; o = o < early ? o + 1 : (o < last ? last : last + 1)) {
      const int64_t start = o * w.stride[d] - w.begin[d];
      const int64_t tap = start >= 0 ? 0 : (-start + w.dilation[d] - 1) / w.dilation[d];
      if (tap >= w.kernel[d] || start + tap * w.dilation[d] >= x[i])
        return mismatch("window " + std::to_string(o) + " of spatial dimension " + std::to_string(d) +
                        " sees nothing but padding");
    }
  }
  return {};
}

Status infer_matmul(const Graph &g, const Node &n, Shape &out) {
  const Shape &a = g[n.inputs[0]].shape, &b = g[n.inputs[1]].shape;
  if (a.size() < 2 || b.size() < 2 || a.back() != b[b.size() - 2])
    return mismatch("operands " + shape_text(a) + " and " + shape_text(b) + " cannot be multiplied");
  if (!broadcast_shapes(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2), out))
    return mismatch("operands " + shape_text(a) + " and " + shape_text(b) + " do not broadcast");
  out.push_back(a[a.size() - 2]);
  out.push_back(b.back());
  return {};
}

Status infer_transpose(const Node &n, const Shape &x, Shape &out) {
  const auto &perm = std::get<TransposeAttrs>(n.attrs).perm;
  std::vector<bool> seen(x.size());
  out.clear();
  for (int p : perm) {
    if (p < 0 || static_cast<size_t>(p) >= x.size() || seen[static_cast<size_t>(p)])
      return mismatch("perm is not a permutation of the dimensions of " + shape_text(x));
    seen[static_cast<size_t>(p)] = true;
    out.push_back(x[static_cast<size_t>(p)]);
  }
  return perm.size() == x.size() ? Status() : mismatch("perm does not have " + std::to_string(x.size()) + " entries");
}

Status infer_concat(const Graph &g, const Node &n, Shape &out) {
  const auto axis = static_cast<size_t>(std::get<ConcatAttrs>(n.attrs).axis);
  out = g[n.inputs[0]].shape;
  if (axis >= out.size()) return mismatch("axis " + std::to_string(axis) + " of " + shape_text(out));
  for (size_t i = 1; i < n.inputs.size(); ++i) {
    Shape other = g[n.inputs[i]].shape;
    if (other.size() != out.size())
      return mismatch("inputs " + shape_text(out) + " and " + shape_text(other) + " differ in rank");
    const int64_t add = other[axis];
    other[axis] = out[axis];
    if (other != out)
      return mismatch("inputs " + shape_text(out) + " and " + shape_text(g[n.inputs[i]].shape) +
                      " differ outside axis " + std::to_string(axis));
    out[axis] += add;
  }
  return {};
}

Status infer_gather(const Graph &g, const Node &n, Shape &out) {
  const Shape &x = g[n.inputs[0]].shape, &index = g[n.inputs[1]].shape;
  const auto axis = static_cast<size_t>(std::get<GatherAttrs>(n.attrs).axis);
  if (axis >= x.size()) return mismatch("axis " + std::to_string(axis) + " of " + shape_text(x));
  out.assign(x.begin(), x.begin() + static_cast<int64_t>(axis));
  out.insert(out.end(), index.begin(), index.end());
  out.insert(out.end(), x.begin() + static_cast<int64_t>(axis) + 1, x.end());
  return {};
}

Status infer_by_op(const Graph &g, const Node &n, Dtype &dtype, Shape &out) {
  const Shape &x = g[n.inputs[0]].shape;
  switch (n.op) {
    case Op::Conv:
      return infer_conv(g, n, out);
    case Op::MatMul:
      return infer_matmul(g, n, out);
    case Op::Pool:
      return infer_pool(g, n, out);
    case Op::Binary:
      if (g[n.inputs[1]].dtype != dtype) return mismatch("operands of different types");
      return broadcast_shapes(x, g[n.inputs[1]].shape, out)
                 ? Status()
                 : mismatch("operands " + shape_text(x) + " and " + shape_text(g[n.inputs[1]].shape) +
                            " do not broadcast");
    case Op::Unary:
      out = x;
      return {};
    case Op::Softmax:
      out = x;
      return static_cast<size_t>(std::get<SoftmaxAttrs>(n.attrs).axis) < x.size()
                 ? Status()
                 : mismatch("axis is outside " + shape_text(x));
    case Op::Transpose:
      return infer_transpose(n, x, out);
    case Op::Reshape:
      out = std::get<ShapeAttrs>(n.attrs).shape;
      return element_count(out) == element_count(x)
                 ? Status()
                 : mismatch("cannot reshape " + shape_text(x) + " to " + shape_text(out));
    case Op::Concat:
      return infer_concat(g, n, out);
    case Op::Slice:
      out = x;
      return {};
    case Op::Pad: {
      const auto &p = std::get<PadAttrs>(n.attrs);
      out = x;
      for (size_t i = 0; i < x.size(); ++i) out[i] += p.begin[i] + p.end[i];
      return {};
    }
    case Op::Expand:
      out = std::get<ShapeAttrs>(n.attrs).shape;
      return {};
    case Op::Gather:
      return infer_gather(g, n, out);
    case Op::Cast:
      out = x;
      dtype = std::get<CastAttrs>(n.attrs).to;
      return {};
  }
  return mismatch("unknown operator");
}

bool wants_f32(Op op) {
  return op == Op::Conv || op == Op::MatMul || op == Op::Pool || op == Op::Unary || op == Op::Softmax || op == Op::Pad;
}

/// A slice carries its extent in `shape` on entry, since start and step alone do not tell it.
Status check_slice(const Node &n, const Shape &x, const Shape &shape) {
  const auto &s = std::get<SliceAttrs>(n.attrs);
  if (shape.size() != x.size() || s.start.size() != x.size() || s.step.size() != x.size())
    return mismatch("slice of the wrong rank");
  for (size_t i = 0; i < x.size(); ++i) {
    const int64_t last = s.start[i] + (shape[i] - 1) * s.step[i];
    if (shape[i] > 0 && (s.start[i] < 0 || s.start[i] >= x[i] || last < 0 || last >= x[i]))
      return mismatch("slice leaves " + shape_text(x));
  }
  return {};
}

}  // namespace

Status infer(const Graph &graph, const Node &node, Dtype &dtype, Shape &shape) {
  const Value &x = graph[node.inputs[0]];
  dtype = x.dtype;
  if (wants_f32(node.op) && dtype != Dtype::F32)
    return mismatch(std::string("input is ") + dtype_name(dtype) + ", float32 is supported");
  if (node.op == Op::Slice)
    NPU_TRY(check_slice(node, x.shape, shape));
  else
    NPU_TRY(infer_by_op(graph, node, dtype, shape));
  const int64_t count = element_count(shape);
  if (count < 0)
    return mismatch("the result " + shape_text(shape) + " has more than " + std::to_string(kMaxElements) + " elements");
  return {};
}

}  // namespace npu::graph
