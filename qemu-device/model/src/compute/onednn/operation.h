// SPDX-License-Identifier: MIT
// oneDNN primitives of one thread: created once for a shape, kept with their memory objects, bounded in number.
#ifndef NPU_MODEL_COMPUTE_ONEDNN_OPERATION_H
#define NPU_MODEL_COMPUTE_ONEDNN_OPERATION_H

#include <array>
#include <dnnl.hpp>
#include <list>
#include <optional>
#include <unordered_map>

#include "npu_isa.h"
#include "qemu-device/model/src/compute/onednn/dnnl_api.h"
#include "qemu-device/model/src/compute/onednn/packed_cache.h"

namespace npu::model {

/// The process' engine.
const dnnl::engine &cpu_engine();

/// Everything that a primitive depends on.
struct Shape {
  enum Kind : uint32_t { Conv, Matmul };
  Kind kind;
  int64_t n, ih, iw, ic, oc, oh, ow;  ///< Matmul: n rows, ic inner size, oc columns
  int64_t kh, kw, sh, sw, dh, dw, groups;
  int64_t top, left, bottom, right;  ///< padding
  bool bias, sum, trans_b;           ///< sum: the result is added to what the destination holds
  int64_t a_row, b_row, out_row;     ///< Matmul: elements from one row to the next, of B as it is stored
  uint8_t wgt_dtype;                 ///< what the weights were before they were f32: a key for copies of them
  uint8_t act;                       ///< fused: NONE, RELU, CLIP or LEAKY_RELU
  float act_a, act_b;

  static Shape matmul(int64_t m, int64_t k, int64_t n, bool trans_b);
  bool operator==(const Shape &) const = default;
};

/// A primitive with its memory objects: belongs to one thread.
class Operation {
 public:
  explicit Operation(const Shape &shape);

  /// False: oneDNN has nothing but its `ref` implementation for this shape.
  bool usable() const { return usable_; }
  /// The packed form of the weights, a key for copies of them.
  const std::shared_ptr<const Layout> &layout() const { return layout_; }
  size_t packed_bytes() const { return packed_.get_size(); }
  /// Memory in packed form for run(). Made once for weights that are kept: attaching memory writes its padding.
  dnnl::memory packed_memory(void *data) const { return {packed_, cpu_engine(), data}; }
  /// Brings plain weights, at any alignment, into packed form.
  void pack(const void *plain, const dnnl::memory &packed);
  void run(const void *in, const dnnl::memory &weights, const void *bias, void *out);

 private:
  template <class PrimitiveDesc>
  void adopt(PrimitiveDesc &pd, const Shape &shape);
  void create_conv(const Shape &shape);
  void create_matmul(const Shape &shape);

  bool usable_ = false;
  dnnl::memory::desc plain_, packed_;
  std::shared_ptr<const Layout> layout_;
  dnnl::primitive primitive_;
  std::optional<dnnl_api::Packer> packer_;
  dnnl::memory in_, bias_, out_, scratchpad_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

/// What one thread keeps. A primitive that was not used for long is dropped.
class ThreadState {
 public:
  static ThreadState &current();

  Operation &operation(const Shape &shape);
  dnnl::stream &stream() { return stream_; }
  /// Gives buffers beyond a reasonable size back.
  void trim();

  AlignedBuffer packed;      ///< weights that are not constant, for the length of a command
  AlignedBuffer staged;      ///< an input in another form
  AlignedBuffer converted;   ///< weights that were no f32
  AlignedBuffer results;     ///< that are not yet what the command says
  AlignedBuffer scratchpad;  ///< of the primitives
  /// What `packed` holds.
  struct Own {
    uint64_t serial = 0, part = 0;  ///< serial 0: nothing that may be used again
    std::shared_ptr<const Layout> layout;
    double reach = 0;

    bool holds(uint64_t wanted, uint64_t wanted_part, const Layout &wanted_layout) const {
      return wanted != 0 && serial == wanted && part == wanted_part && *layout == wanted_layout;
    }
  } own;

 private:
  ThreadState();

  struct Hash {
    size_t operator()(const Shape &s) const;
  };
  dnnl::stream stream_;
  std::list<std::pair<Shape, Operation>> operations_;  // most recently used first
  std::unordered_map<Shape, std::list<std::pair<Shape, Operation>>::iterator, Hash> index_;
};

/// While it lives, oneDNN works on the calling thread only.
class SingleThread {
 public:
  SingleThread();
  ~SingleThread();
  SingleThread(const SingleThread &) = delete;
  SingleThread &operator=(const SingleThread &) = delete;

 private:
  const int before_;
};

}  // namespace npu::model

#endif  // NPU_MODEL_COMPUTE_ONEDNN_OPERATION_H
