// SPDX-License-Identifier: MIT
#include <algorithm>
#include <map>
#include <numeric>

#include "compiler/lowering/lowered.h"
#include "runtime/cpu/element.h"

namespace npu::compiler {

using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::Op;
using graph::row_major;
using graph::ValueId;

graph::Dtype type_of(const Weights &weights, const std::vector<Storage> &storages) {
  if (const View *made = std::get_if<View>(&weights)) return storages[static_cast<size_t>(made->storage)].type;
  return std::get<graph::TensorPtr>(weights)->dtype;
}

int64_t append_tensor(Coefficients &coeff, const graph::TensorPtr &tensor) {
  const auto write = [tensor](uint8_t *out) { std::copy(tensor->data.begin(), tensor->data.end(), out); };
  return coeff.append({tensor.get(), {}}, {{static_cast<int64_t>(tensor->data.size()), write}})[0];
}

namespace {

/// Bytes up to which an output of several pieces is put together in local memory: about what memory moves in the time
/// that a transfer takes to begin.
constexpr int64_t kStoredAtOnce = 16384;

/// The elements of a tensor of that shape, each at its place by these strides.
template <class Word>
void write_ordered(const graph::Tensor &t, const Shape &shape, const Strides &strides, Word *out) {
  Shape index(shape.size());
  int64_t at = 0;
  for (int64_t i = 0; i < t.count(); ++i) {
    out[at] = t.as<Word>()[i];
    for (size_t d = index.size(); d-- > 0;) {
      at += strides[d];
      if (++index[d] < shape[d]) break;
      at -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
}

int64_t bytes_of(const graph::TensorKind &kind) {
  return graph::element_count(kind.shape) * graph::dtype_bytes(kind.dtype);
}

/// A vector with one element for each of `count` channels, where the tensor may have one for all.
graph::TensorPtr for_channels(const graph::TensorPtr &tensor, int64_t count) {
  if (!tensor || tensor->count() == count) return tensor;
  auto all = std::make_shared<graph::Tensor>(graph::Tensor(tensor->dtype, {count}));
  for (int64_t i = 0; i < count; ++i)
    std::copy(tensor->data.begin(), tensor->data.end(), all->data.begin() + i * graph::dtype_bytes(tensor->dtype));
  return all;
}

/// Constant weights of 8 bits are signed: unsigned ones less 128, as their zero point is.
Weights signed_weights(const graph::TensorPtr &weights, graph::ProductQuant &quant) {
  if (!quant.on || weights->dtype != graph::Dtype::U8) return weights;
  auto moved = std::make_shared<graph::Tensor>(graph::Tensor(graph::Dtype::I8, weights->shape));
  std::transform(weights->data.begin(), weights->data.end(), moved->data.begin(),
                 [](uint8_t w) { return static_cast<uint8_t>(w ^ 0x80); });
  quant.w_zero -= 128;
  return moved;
}

/// Begins the key of a constant that is stored in an order of its dimensions; those of tiles have sizes there.
constexpr int64_t kOrdered = -1;

class Lowering {
 public:
  Lowering(graph::CoreGraph &core, Lowered &out)
      : g_(core.graph),
        core_(core),
        out_(out),
        made_(g_.producers()),
        views_(g_.values.size()),
        done_(g_.nodes.size()) {}

  Status run() {
    for (size_t k = 0; k < g_.inputs.size(); ++k) {
      const ValueId v = g_.inputs[k];
      view(v) = port_view(core_.inputs[k], StorageKind::Input, g_[v].dtype, g_[v].name);
    }
    find_channels_last();
    std::vector<std::pair<ValueId, View>> copies;
    for (size_t k = 0; k < g_.outputs.size(); ++k) {
      const ValueId v = g_.outputs[k];
      const graph::Port &port = core_.outputs[k];
      const View whole = port_view(port, StorageKind::Output, g_[v].dtype, g_.output_names[k]);
      if (g_[v].in_memory) out_.storages.back().shared = true;
      const View place = sliced(whole, port.begin, std::vector<int64_t>(port.begin.size(), 1), g_[v].shape);
      if (is_free(v) && (port.shared || !is_small_concat(v))) {
        view(v) = place;
        continue;
      }
      if (is_free(v)) view(v) = new_temp(v, row_major(g_[v].shape.size()));
      copies.emplace_back(v, place);
    }
    for (size_t i = g_.nodes.size(); i-- > 0;) place_backwards(i);
    for (size_t i = 0; i < g_.nodes.size(); ++i) NPU_TRY(lower_node(i));
    for (const auto &[v, place] : copies) copy(copy_source(v), operand(v), place);
    return {};
  }

 private:
  std::optional<View> &view(ValueId v) { return views_[static_cast<size_t>(v)]; }
  bool is_free(ValueId v) { return made_[static_cast<size_t>(v)] >= 0 && !view(v); }

  /// A value of several pieces that is stored at once rather than piece by piece.
  bool is_small_concat(ValueId v) const {
    const int producer = made_[static_cast<size_t>(v)];
    if (producer < 0 || bytes_of(g_[v]) > kStoredAtOnce) return false;
    const Node &n = g_.nodes[static_cast<size_t>(producer)];
    return n.op == Op::Reshape ? is_small_concat(n.inputs[0]) : n.op == Op::Concat;
  }

  int new_storage(StorageKind kind, graph::Dtype type, const Shape &shape, const std::string &name) {
    Storage s;
    s.kind = kind;
    s.type = type;
    s.elements = graph::element_count(shape);
    s.name = name;
    out_.storages.push_back(std::move(s));
    return static_cast<int>(out_.storages.size()) - 1;
  }

  /// The tensor that an input or output of the graph is, or is a part of.
  View port_view(const graph::Port &port, StorageKind kind, graph::Dtype type, const std::string &name) {
    const int storage = new_storage(port.exchange ? StorageKind::Exchange : kind, type, port.whole, name);
    out_.storages.back().index = port.index;
    out_.storages.back().shared = port.shared;
    return ordered_view(storage, port.whole, port.order);
  }

  /// Channels innermost, as windows want it.
  static std::vector<int> channels_last(size_t rank) {
    std::vector<int> order{0};
    for (size_t i = 2; i < rank; ++i) order.push_back(static_cast<int>(i));
    order.push_back(1);
    return order;
  }

  View new_temp(ValueId v, const std::vector<int> &order) {
    const int storage = new_storage(StorageKind::Temp, g_[v].dtype, g_[v].shape, g_[v].name);
    out_.storages.back().shared = g_[v].in_memory;
    return ordered_view(storage, g_[v].shape, order);
  }

  /// Which values come out of windows with channels innermost, directly or through operators that keep the order.
  void find_channels_last() {
    channels_last_.resize(g_.values.size());
    for (const Node &n : g_.nodes) {
      const size_t rank = g_[n.output].shape.size();
      bool last = (n.op == Op::Conv || n.op == Op::Pool) && rank >= 3;
      if (n.op == Op::Unary || n.op == Op::Binary || n.op == Op::Concat || n.op == Op::Pad || n.op == Op::Slice ||
          n.op == Op::Requant || n.op == Op::Lookup || n.op == Op::Cast)
        for (ValueId v : n.inputs)
          last = last || (v != kNoValue && channels_last_[static_cast<size_t>(v)] && g_[v].shape.size() == rank);
      channels_last_[static_cast<size_t>(n.output)] = last;
    }
  }

  /// Gives the operands of a view their place inside the result's storage, where they have none of their own.
  void place_backwards(size_t index) {
    const Node &n = g_.nodes[index];
    if (n.op == Op::Concat) return place_parts(n);
    if (!view(n.output) || !is_free(n.inputs[0])) return;
    const View &to = *view(n.output);
    if (n.op == Op::Transpose) {
      const auto &perm = std::get<graph::TransposeAttrs>(n.attrs).perm;
      std::vector<int> inverse(perm.size());
      for (size_t i = 0; i < perm.size(); ++i) inverse[static_cast<size_t>(perm[i])] = static_cast<int>(i);
      view(n.inputs[0]) = permuted(to, inverse);
    } else if (n.op == Op::Reshape) {
      view(n.inputs[0]) = reshaped(to, g_[n.inputs[0]].shape);
    }
    done_[index] = view(n.inputs[0]).has_value();
  }

  void place_parts(const Node &n) {
    const auto axis = static_cast<size_t>(std::get<graph::ConcatAttrs>(n.attrs).axis);
    const size_t rank = g_[n.output].shape.size();
    if (!view(n.output))
      view(n.output) =
          new_temp(n.output, channels_last_[static_cast<size_t>(n.output)] ? channels_last(rank) : row_major(rank));
    std::vector<int64_t> start(rank, 0), step(rank, 1);
    for (ValueId v : n.inputs) {
      if (is_free(v)) view(v) = sliced(*view(n.output), start, step, g_[v].shape);
      start[axis] += g_[v].shape[axis];
    }
  }

  /// Where a value is; constants get a storage when they are first needed.
  View operand(ValueId v) {
    if (!view(v)) view(v) = constant_view(v, g_[v].shape, row_major(g_[v].shape.size()));
    return *view(v);
  }

  /// A constant, taken for a tensor of this shape, stored in a given order of its dimensions.
  View constant_view(ValueId v, const Shape &shape, const std::vector<int> &order) {
    const int storage = new_storage(StorageKind::Const, g_[v].dtype, shape, g_[v].name);
    const View to = ordered_view(storage, shape, order);
    const auto write = [tensor = g_[v].constant, shape, strides = to.strides](uint8_t *out) {
      with_word(tensor->dtype,
                [&](auto word) { write_ordered(*tensor, shape, strides, reinterpret_cast<decltype(word) *>(out)); });
    };
    Coefficients::Key key{g_[v].constant.get(), {kOrdered}};
    for (const std::vector<int64_t> *list : {&shape, &to.strides})
      key.cut.insert(key.cut.end(), list->begin(), list->end());
    Storage &s = out_.storages[static_cast<size_t>(storage)];
    s.coeff_offset = out_.coeff.append(key, {{s.bytes(), write}})[0];
    return to;
  }

  void add(int source, const View &out, LoweredOp::Body body) { out_.ops.push_back({source, out, std::move(body)}); }

  void copy(int source, const View &from, const View &to) { add(source, to, CopyOp{from}); }

  /// A copy between shapes that differ only in how they are cut into dimensions.
  void copy_reshaped(int source, const View &from, const View &to) {
    if (const auto a = reshaped(to, from.dims)) return copy(source, from, *a);
    if (const auto b = reshaped(from, to.dims)) return copy(source, *b, to);
    const int storage = new_storage(StorageKind::Temp, out_.storage_of(from).type, from.dims, "");
    copy(source, from, dense_view(storage, from.dims));
    copy(source, dense_view(storage, to.dims), to);
  }

  /// The tag of a copy that no node asked for: that of the node which made the value.
  int copy_source(ValueId v) {
    const int producer = made_[static_cast<size_t>(v)];
    if (producer >= 0) return g_.nodes[static_cast<size_t>(producer)].source;
    graph::Source s;
    s.name = g_[v].name.empty() ? "copy" : g_[v].name;
    s.type = "Copy";
    s.outputs = {g_[v]};
    g_.sources.push_back(std::move(s));
    return static_cast<int>(g_.sources.size()) - 1;
  }

  void fate(const Node &n, const char *text) { g_.sources[static_cast<size_t>(n.source)].fate = text; }

  Status lower_node(size_t index) {
    const Node &n = g_.nodes[index];
    if (done_[index]) {
      fate(n, "view");
      return {};
    }
    switch (n.op) {
      case Op::Conv:
        lower_conv(n);
        return {};
      case Op::Pool:
        lower_pool(n);
        return {};
      case Op::MatMul:
        lower_matmul(n);
        return {};
      case Op::Binary:
        lower_binary(n);
        return {};
      case Op::Unary:
        lower_unary(n);
        return {};
      case Op::Softmax:
        lower_softmax(n);
        return {};
      case Op::Requant:
        lower_requant(n);
        return {};
      case Op::Cast:
        lower_cast(n);
        return {};
      case Op::Lookup:
        lower_lookup(n);
        return {};
      case Op::Transpose:
        alias(n, permuted(operand(n.inputs[0]), std::get<graph::TransposeAttrs>(n.attrs).perm));
        return {};
      case Op::Slice: {
        const auto &a = std::get<graph::SliceAttrs>(n.attrs);
        alias(n, sliced(operand(n.inputs[0]), a.start, a.step, g_[n.output].shape));
        return {};
      }
      case Op::Expand:
        alias(n, expanded(operand(n.inputs[0]), g_[n.output].shape));
        return {};
      case Op::Reshape:
        lower_reshape(n);
        return {};
      case Op::Concat:
        lower_concat(n);
        return {};
      case Op::Gather:
        lower_gather(n);
        return {};
      case Op::Pad:
        lower_pad(n);
        return {};
      default:  // partition() leaves these to the CPU
        break;
    }
    return Status::error(std::string(op_name(n.op)) + " cannot be executed on the chip");
  }

  void alias(const Node &n, View v) {
    if (view(n.output)) return copy(n.source, v, *view(n.output));
    view(n.output) = std::move(v);
    fate(n, "view");
  }

  void lower_reshape(const Node &n) {
    const View from = operand(n.inputs[0]);
    if (view(n.output)) return copy_reshaped(n.source, from, *view(n.output));
    if (const auto v = reshaped(from, g_[n.output].shape)) {
      view(n.output) = *v;
      fate(n, "view");
      return;
    }
    view(n.output) = new_temp(n.output, row_major(g_[n.output].shape.size()));
    copy_reshaped(n.source, from, *view(n.output));
  }

  void lower_concat(const Node &n) {
    const auto axis = static_cast<size_t>(std::get<graph::ConcatAttrs>(n.attrs).axis);
    const View whole = *view(n.output);
    std::vector<int64_t> start(whole.dims.size(), 0), step(whole.dims.size(), 1);
    bool copied = false;
    for (ValueId v : n.inputs) {
      const View to = sliced(whole, start, step, g_[v].shape), from = operand(v);
      start[axis] += g_[v].shape[axis];
      if (from.storage == to.storage && from.offset == to.offset && from.strides == to.strides) continue;
      copy(n.source, from, to);
      copied = true;
    }
    if (!copied) fate(n, "view");
  }

  /// Runs of indices with a constant step are slices.
  void lower_gather(const Node &n) {
    const auto axis = static_cast<size_t>(std::get<graph::GatherAttrs>(n.attrs).axis);
    const graph::Tensor &index = *g_[n.inputs[1]].constant;
    const View x = operand(n.inputs[0]);
    const int64_t picks = index.count();
    Shape flat = x.dims;  // the result with all index dimensions as one
    flat[axis] = picks;
    std::vector<int64_t> from(flat.size(), 0), to(flat.size(), 0), step(flat.size(), 1), one(flat.size(), 1);
    const bool fresh = !view(n.output);
    std::optional<View> whole;
    for (int64_t i = 0; i < picks;) {
      const int64_t *p = index.as<int64_t>() + i;
      const int64_t stride = i + 1 < picks ? p[1] - p[0] : 1;
      int64_t run = 1;
      while (i + run < picks && p[run] - p[run - 1] == stride) ++run;
      Shape part = flat;
      part[axis] = run;
      from[axis] = p[0];
      step[axis] = stride;
      const View piece = sliced(x, from, step, part);
      if (run == picks && fresh)
        if (const auto v = reshaped(piece, g_[n.output].shape)) {
          view(n.output) = *v;
          return fate(n, "view");
        }
      if (!view(n.output)) view(n.output) = new_temp(n.output, row_major(g_[n.output].shape.size()));
      if (!whole) whole = reshaped(*view(n.output), flat);
      if (!whole) {  // a place inside another storage that does not cut this way: gather apart, then copy
        whole = dense_view(new_storage(StorageKind::Temp, g_[n.output].dtype, flat, ""), flat);
      }
      to[axis] = i;
      copy(n.source, piece, sliced(*whole, to, one, part));
      i += run;
    }
    if (whole->storage != view(n.output)->storage) copy_reshaped(n.source, *whole, *view(n.output));
  }

  void lower_pad(const Node &n) {
    const auto &attrs = std::get<graph::PadAttrs>(n.attrs);
    const size_t rank = g_[n.output].shape.size();
    if (!view(n.output))
      view(n.output) =
          new_temp(n.output, channels_last_[static_cast<size_t>(n.output)] ? channels_last(rank) : row_major(rank));
    const View whole = *view(n.output);
    add(n.source, whole, FillOp{static_cast<float>(attrs.value)});
    copy(n.source, operand(n.inputs[0]),
         sliced(whole, attrs.begin, std::vector<int64_t>(rank, 1), g_[n.inputs[0]].shape));
  }

  /// Weights that are no constant, in the order in which the chip takes them.
  View made_weights(const Node &n) {
    const Shape &shape = g_[n.inputs[1]].shape;
    const View to = new_temp(n.inputs[1], channels_last(shape.size()));
    copy(n.source, operand(n.inputs[1]), to);
    return *as_picture(to);
  }

  /// Where the result of an operator with windows is.
  View window_result(const Node &n) {
    if (!view(n.output)) view(n.output) = new_temp(n.output, channels_last(g_[n.output].shape.size()));
    return *as_picture(*view(n.output));
  }

  /// What does not matter takes the value that every field can hold.
  static graph::Window plain_window(graph::Window window, const View &out) {
    for (size_t i = 0; i < 2; ++i) {
      if (out.dims[i + 1] == 1) window.stride[i] = 1;
      if (window.kernel[i] == 1) window.dilation[i] = 1;
    }
    return window;
  }

  void lower_conv(const Node &n) {
    const auto &attrs = std::get<graph::ConvAttrs>(n.attrs);
    ConvOp op;
    op.input = *as_picture(operand(n.inputs[0]));
    op.quant = attrs.quant;
    if (g_.is_constant(n.inputs[1]))
      op.weights = signed_weights(g_[n.inputs[1]].constant, op.quant);
    else
      op.weights = made_weights(n);
    op.bias = optional_constant(n, 2);
    op.multiplier = for_channels(optional_constant(n, 3), g_[n.output].shape[1]);
    const View out = window_result(n);
    op.window = plain_window(attrs.window, out);
    op.groups = attrs.groups;
    op.act = attrs.act;
    add(n.source, out, std::move(op));
  }

  graph::TensorPtr optional_constant(const Node &n, size_t k) const {
    return k < n.inputs.size() && n.inputs[k] != kNoValue ? g_[n.inputs[k]].constant : nullptr;
  }

  void lower_pool(const Node &n) {
    const auto &attrs = std::get<graph::PoolAttrs>(n.attrs);
    PoolOp op;
    op.input = *as_picture(operand(n.inputs[0]));
    const View out = window_result(n);
    op.window = plain_window(attrs.window, out);
    op.max = attrs.max;
    op.count_pad = attrs.count_pad;
    op.counted_end = attrs.counted_end;
    op.in_quant = attrs.in;
    op.out_quant = attrs.out;
    add(n.source, out, std::move(op));
  }

  void lower_matmul(const Node &n) {
    const bool constant = g_.is_constant(n.inputs[1]) && g_[n.inputs[1]].shape.size() == 2;
    const View a = operand(n.inputs[0]);
    if (!view(n.output)) view(n.output) = new_temp(n.output, row_major(g_[n.output].shape.size()));
    const View o = *view(n.output);
    const size_t rank = o.dims.size();
    Shape a_dims = o.dims, b_dims = o.dims;
    a_dims[rank - 1] = a.dims.back();
    b_dims[rank - 2] = a.dims.back();
    const View wide_a = expanded(a, a_dims);
    View wide_b{-1, 0, b_dims, Strides(rank, 0)};
    if (!constant) wide_b = expanded(operand(n.inputs[1]), b_dims);
    // The batch, as few dimensions as possible; with a constant B the rows of A may be one long matrix.
    Shape batch(o.dims.begin(), o.dims.end() - (constant ? 1 : 2));
    Strides sa(wide_a.strides.begin(), wide_a.strides.begin() + static_cast<int64_t>(batch.size()));
    Strides sb(wide_b.strides.begin(), wide_b.strides.begin() + static_cast<int64_t>(batch.size()));
    Strides so(o.strides.begin(), o.strides.begin() + static_cast<int64_t>(batch.size()));
    collapse(batch, {&sa, &sb, &so});
    MatmulParts parts{n, wide_a, wide_b, o, constant, std::get<graph::MatMulAttrs>(n.attrs).quant, {}, {}};
    if (constant) parts.weights = signed_weights(g_[n.inputs[1]].constant, parts.quant);
    parts.multiplier = for_channels(optional_constant(n, 3), o.dims.back());
    emit_matmuls(parts, batch, sa, sb, so);
  }

  struct MatmulParts {
    const Node &n;
    const View &a, &b, &o;
    bool constant;
    graph::ProductQuant quant;
    Weights weights;  ///< where they are constant
    graph::TensorPtr multiplier;
  };

  /// One operator for each index of the outer batch dimensions, with the innermost one as the command's batch (or its
  /// rows).
  void emit_matmuls(const MatmulParts &p, const Shape &batch, const Strides &sa, const Strides &sb, const Strides &so) {
    const size_t rank = p.o.dims.size(), last = batch.size() - 1;
    const Shape outer(batch.begin(), batch.end() - 1);
    const int64_t k = p.a.dims.back(), n = p.o.dims[rank - 1];
    Shape index(outer.size(), 0);
    for (int64_t i = graph::element_count(outer); i > 0; --i) {
      MatMulOp op;
      op.act = std::get<graph::MatMulAttrs>(p.n.attrs).act;
      op.quant = p.quant;
      op.bias = optional_constant(p.n, 2);
      op.multiplier = p.multiplier;
      View a{p.a.storage, p.a.offset, {}, {}}, b{p.b.storage, p.b.offset, {}, {}}, o{p.o.storage, p.o.offset, {}, {}};
      for (size_t d = 0; d < outer.size(); ++d) {
        a.offset += index[d] * sa[d];
        b.offset += index[d] * sb[d];
        o.offset += index[d] * so[d];
      }
      if (p.constant) {
        a.dims = {1, batch[last], k};
        a.strides = {0, sa[last], p.a.strides[rank - 1]};
        o.dims = {1, batch[last], n};
        o.strides = {0, so[last], p.o.strides[rank - 1]};
        op.b = p.weights;
      } else {
        const int64_t m = p.o.dims[rank - 2];
        a.dims = {batch[last], m, k};
        a.strides = {sa[last], p.a.strides[rank - 2], p.a.strides[rank - 1]};
        b.dims = {batch[last], k, n};
        b.strides = {sb[last], p.b.strides[rank - 2], p.b.strides[rank - 1]};
        o.dims = {batch[last], m, n};
        o.strides = {so[last], p.o.strides[rank - 2], p.o.strides[rank - 1]};
        op.b = std::move(b);
      }
      op.a = std::move(a);
      add(p.n.source, o, std::move(op));
      for (size_t d = outer.size(); d-- > 0;) {
        if (++index[d] < outer[d]) break;
        index[d] = 0;
      }
    }
  }

  /// The order of an operand that has every element of the result; row-major if there is none.
  std::vector<int> inherited_order(const std::vector<ValueId> &inputs, const Shape &shape) {
    for (ValueId v : inputs) {
      if (g_[v].shape != shape || g_.is_constant(v)) continue;
      const View x = operand(v);
      bool repeats = false;
      for (size_t i = 0; i < shape.size(); ++i) repeats = repeats || (shape[i] != 1 && x.strides[i] == 0);
      if (!repeats) return memory_order(x);
    }
    return row_major(shape.size());
  }

  /// A constant operand of an element-wise operator lies in the order of the result.
  View eltwise_operand(ValueId v, const std::vector<int> &order, const Shape &shape) {
    if (!g_.is_constant(v) || view(v)) return expanded(operand(v), shape);
    const auto known = ordered_constants_.find({v, order});
    if (known != ordered_constants_.end()) return expanded(known->second, shape);
    Shape wide(shape.size() - g_[v].shape.size(), 1);
    wide.insert(wide.end(), g_[v].shape.begin(), g_[v].shape.end());
    const View ordered = constant_view(v, wide, order);
    ordered_constants_.emplace(std::pair(v, order), ordered);
    return expanded(ordered, shape);
  }

  /// What the one element of a constant stands for.
  static float number_of(const graph::Tensor &t, const graph::Quant &quant) {
    if (graph::is_real(t.dtype)) return static_cast<float>(cpu::load(t, 0));
    const int32_t q = t.dtype == graph::Dtype::I8 ? *t.as<int8_t>() : *t.as<uint8_t>();
    return static_cast<float>(q - quant.zero) * quant.scale;
  }

  void lower_binary(const Node &n) {
    const auto &attrs = std::get<graph::BinaryAttrs>(n.attrs);
    const Shape shape = g_[n.output].shape;
    ValueId a = n.inputs[0], b = n.inputs[1];
    graph::Quant a_quant = attrs.a, b_quant = attrs.b;
    const bool commutes = attrs.kind != graph::BinaryKind::Sub && attrs.kind != graph::BinaryKind::Div;
    const auto scalar = [&](ValueId v) { return g_.is_constant(v) && graph::element_count(g_[v].shape) == 1; };
    if (commutes && scalar(a)) {
      std::swap(a, b);
      std::swap(a_quant, b_quant);
    }
    if (!view(n.output)) view(n.output) = new_temp(n.output, inherited_order({a, b}, shape));
    const std::vector<int> order = memory_order(*view(n.output));
    BinaryOp op;
    op.kind = attrs.kind;
    op.act = attrs.act;
    op.a = eltwise_operand(a, order, shape);
    op.a_quant = a_quant;
    op.out_quant = attrs.out;
    if (scalar(b)) {
      op.b = number_of(*g_[b].constant, b_quant);
    } else {
      op.b = eltwise_operand(b, order, shape);
      op.b_quant = b_quant;
    }
    add(n.source, *view(n.output), std::move(op));
  }

  void lower_unary(const Node &n) {
    const View x = operand(n.inputs[0]);
    if (!view(n.output)) view(n.output) = new_temp(n.output, inherited_order({n.inputs[0]}, g_[n.output].shape));
    add(n.source, *view(n.output), UnaryOp{x, std::get<graph::UnaryAttrs>(n.attrs).act});
  }

  void lower_requant(const Node &n) {
    const auto &attrs = std::get<graph::RequantAttrs>(n.attrs);
    const View x = operand(n.inputs[0]);
    if (!view(n.output)) view(n.output) = new_temp(n.output, inherited_order({n.inputs[0]}, g_[n.output].shape));
    add(n.source, *view(n.output), RequantOp{x, attrs.in, attrs.out, attrs.act});
  }

  /// What comes from memory changes its type on the way; the TIU changes what is in local memory.
  void lower_cast(const Node &n) {
    const View x = operand(n.inputs[0]);
    if (!view(n.output)) view(n.output) = new_temp(n.output, inherited_order({n.inputs[0]}, g_[n.output].shape));
    const bool from_memory = out_.storage_of(x).kind == StorageKind::Input;
    add(n.source, *view(n.output),
        from_memory ? LoweredOp::Body(CopyOp{x}) : LoweredOp::Body(RequantOp{x, {}, {}, {}}));
  }

  void lower_lookup(const Node &n) {
    const View x = operand(n.inputs[0]);
    if (!view(n.output)) view(n.output) = new_temp(n.output, inherited_order({n.inputs[0]}, g_[n.output].shape));
    add(n.source, *view(n.output), LookupOp{x, g_[n.inputs[1]].constant});
  }

  void lower_softmax(const Node &n) {
    const auto &attrs = std::get<graph::SoftmaxAttrs>(n.attrs);
    const View x = operand(n.inputs[0]);
    std::vector<int> order = memory_order(x);  // rows in any order: that in which they lie, they are one run
    std::erase(order, attrs.axis);
    order.push_back(attrs.axis);
    if (!view(n.output)) view(n.output) = new_temp(n.output, order);
    add(n.source, permuted(*view(n.output), order), SoftmaxOp{permuted(x, order), attrs.log, attrs.in, attrs.out});
  }

  Graph &g_;
  const graph::CoreGraph &core_;
  Lowered &out_;
  const std::vector<int> made_;
  std::vector<std::optional<View>> views_;
  std::vector<bool> done_, channels_last_;
  std::map<std::pair<ValueId, std::vector<int>>, View> ordered_constants_;  ///< those of eltwise_operand
};

}  // namespace

Status lower(graph::CoreGraph &core, Lowered &out) {
  NPU_TRY(Lowering(core, out).run());
  share_loads(out);
  return {};
}

Status lower(Graph &graph, Lowered &out) {
  graph::CoreGraph alone = graph::alone(std::move(graph));
  const Status status = lower(alone, out);
  graph = std::move(alone.graph);
  return status;
}

Status lower_all(graph::CoreGraph &core, int64_t lmem_bytes, Lowered &out) {
  NPU_TRY(lower(core, out));
  fuse_sums(core.graph, out);
  sink_copies(out, lmem_bytes);
  cut_bands(out, lmem_bytes);
  return {};
}

}  // namespace npu::compiler
