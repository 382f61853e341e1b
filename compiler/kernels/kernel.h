// SPDX-License-Identifier: MIT
// One operator as commands: how it is cut to fit a given amount of local memory, and the commands themselves.
#ifndef NPU_COMPILER_KERNEL_H
#define NPU_COMPILER_KERNEL_H

#include <algorithm>
#include <array>
#include <memory>
#include <span>

#include "compiler/kernels/emitter.h"
#include "compiler/lowering/chip_types.h"

namespace npu::compiler {

inline constexpr hw::CostParams kChip;
inline constexpr double kMemoryBandwidth = kChip.ddr_bw, kGdmaFixed = kChip.gdma_fixed, kDdrLatency = kChip.ddr_latency,
                        kLocalBandwidth = kChip.lmem_bw;

/// Where a storage is while an operator runs: in local memory, or not.
struct Place {
  bool local = false;
  uint32_t addr = 0;
};

/// A way to cut an operator.
struct Plan {
  bool feasible = false;
  double cost = 0;                ///< estimated cycles
  std::vector<int64_t> buffers;   ///< bytes of the tile buffers that it needs
  std::array<int64_t, 9> tile{};  ///< meaning: the kernel's
  int64_t tiles = 1;
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  /// The cheapest plan whose buffers fit `budget` bytes.
  virtual Plan plan(int64_t budget) const = 0;
  virtual void emit(const Plan &plan, std::span<const uint32_t> buffers, Emitter &out) const = 0;
};

/// What kernels share: operands with their places.
struct KernelContext {
  const std::vector<Storage> &storages;
  const std::vector<Place> &places;
  /// Weights that come slower than they are computed with are cut into blocks of at most so many bytes.
  int64_t weight_block = INT64_MAX;
  /// What counts of the cycles that transfers take: less where the GDMA has time, more where it is short of it.
  double transfer_weight = 1;

  const Place &place(const View &v) const { return places[static_cast<size_t>(v.storage)]; }
  const Storage &storage(const View &v) const { return storages[static_cast<size_t>(v.storage)]; }
  /// NPU_DTYPE_* of a view's elements, and of weights.
  uint8_t dtype(const View &v) const { return chip_type(storage(v).type); }
  uint8_t dtype(const Weights &weights) const { return chip_type(type_of(weights, storages)); }
  /// Bytes of a box of a view.
  int64_t bytes(const View &v, const Shape &box) const {
    return graph::element_count(box) * storage(v).element_bytes();
  }
  /// Whether a box of a view lies in local memory as one dense run.
  bool direct(const View &v, const Shape &box) const { return place(v).local && is_dense(box, v.strides); }
  /// Local address of an element. Precondition: the storage is in local memory.
  uint32_t address(const View &v, const Shape &start) const;
  /// An end of a transfer at an element of a view.
  End end(const View &v, const Shape &start) const;
  /// An end in a tile buffer that holds a box of a view densely.
  End buffer_end(const View &v, uint32_t addr, const Shape &box) const {
    return {-1, storage(v).type, addr, graph::dense_strides(box)};
  }
  /// Whether weights that stream are to be cut further.
  bool too_heavy(const hw::Cost &cost) const {
    return cost.flow_bytes > static_cast<uint64_t>(weight_block) && cost.flow_bytes > cost.cycles * kChip.ddr_bw;
  }
  /// Cycles to bring a box into a tile buffer, or back.
  double transfer_cycles(const View &v, const Shape &box) const;
};

/// The kernel of an operator, which must stay where it is as long as the kernel is used. Precondition: check_types().
std::unique_ptr<Kernel> make_kernel(const LoweredOp &op, const KernelContext &context);

// Those of each kind; `out` is the result.
std::unique_ptr<Kernel> make_kernel(const ConvOp &op, const View &out, const KernelContext &context);
std::unique_ptr<Kernel> make_kernel(const MatMulOp &op, const View &out, const KernelContext &context);
std::unique_ptr<Kernel> make_kernel(const PoolOp &op, const View &out, const KernelContext &context);
std::unique_ptr<Kernel> make_kernel(const BinaryOp &op, const View &out, const KernelContext &context);
std::unique_ptr<Kernel> make_kernel(const UnaryOp &op, const View &out, const KernelContext &context);
std::unique_ptr<Kernel> make_kernel(const SoftmaxOp &op, const View &out, const KernelContext &context);
std::unique_ptr<Kernel> make_kernel(const RequantOp &op, const View &out, const KernelContext &context);
std::unique_ptr<Kernel> make_kernel(const LookupOp &op, const View &out, const KernelContext &context);
std::unique_ptr<Kernel> make_kernel(const CopyOp &op, const View &out, const KernelContext &context);
std::unique_ptr<Kernel> make_kernel(const FillOp &op, const View &out, const KernelContext &context);

/// A rotating set of buffers that remembers what the last one holds.
class TileInput {
 public:
  explicit TileInput(std::span<const uint32_t> buffers) : buffers_(buffers) {}
  /// The buffer of the tile with this key; `fresh` tells whether it has to be loaded.
  uint32_t get(const Shape &key, bool &fresh) {
    fresh = key != key_ || buffers_.empty();
    if (fresh) {
      key_ = key;
      next_ = (next_ + 1) % std::max<size_t>(buffers_.size(), 1);
    }
    return buffers_.empty() ? 0 : buffers_[next_];
  }

 private:
  std::span<const uint32_t> buffers_;
  Shape key_;
  size_t next_ = 0;
};

/// ceil(size / d) for growing d: the tile sizes worth trying, falling, without repetition; the last one is 1.
std::vector<int64_t> tile_sizes(int64_t size);
/// Sizes of channel tiles: the whole, then multiples of `grain`, then everything below.
std::vector<int64_t> channel_tiles(int64_t size, int64_t grain);

inline constexpr int64_t kSumBytes = 4;  ///< size of a partial sum: float32 or int32

inline int64_t tiles_of(int64_t size, int64_t tile) { return (size + tile - 1) / tile; }

/// Estimated cycles of `tiles` equal steps of load, work and store, overlapped.
double pipelined(int64_t tiles, double load, double work, double store);

/// Adds buffers for a tiled operand: none, one, or two when there are several tiles.
void add_buffers(Plan &plan, bool direct, int64_t bytes, int64_t tiles);
int64_t total_bytes(const std::vector<int64_t> &buffers);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_KERNEL_H
