// SPDX-License-Identifier: MIT
// The network as the code generator sees it: storages, and operators on views of them.
#ifndef NPU_COMPILER_LOWERED_H
#define NPU_COMPILER_LOWERED_H

#include "compiler/graph/shard.h"
#include "compiler/lowering/coefficients.h"
#include "compiler/lowering/operators.h"

namespace npu::compiler {

enum class StorageKind : uint8_t { Temp, Input, Output, Const, Exchange };

struct Storage {
  StorageKind kind = StorageKind::Temp;
  graph::Dtype type = graph::Dtype::Undefined;  ///< of the elements, all of them
  int index = 0;                                ///< number of the input, output or exchange
  bool shared = false;  ///< with other cores, or between pieces of a run: it is never in local memory
  int64_t elements = 0;
  std::string name;
  int64_t coeff_offset = 0;  ///< Const: place in the coefficients, bytes

  int64_t element_bytes() const { return graph::dtype_bytes(type); }
  int64_t bytes() const { return elements * element_bytes(); }
};

/// The type of what a convolution or matrix product multiplies with.
graph::Dtype type_of(const Weights &weights, const std::vector<Storage> &storages);

struct Lowered {
  std::vector<Storage> storages;
  std::vector<LoweredOp> ops;
  Coefficients coeff;

  const Storage &storage_of(const View &v) const { return storages[static_cast<size_t>(v.storage)]; }
};

/// How the message of an error begins that no network should cause.
inline constexpr const char *kInternalError = "internal error, please report: ";

/// Chooses storages, orders and views. Sets the fate of nodes that became views.
Status lower(graph::Graph &graph, Lowered &out);
/// The same for what one of several cores computes.
Status lower(graph::CoreGraph &core, Lowered &out);

/// Puts sums into the convolutions that make one of their operands.
void fuse_sums(graph::Graph &graph, Lowered &lowered);

/// Lets copies stand as late as their readers allow, where local memory has room for what they read until then.
void sink_copies(Lowered &lowered, int64_t lmem_bytes);

/// Cuts the operators that begin a network into bands of rows where these wait for the input.
void cut_bands(Lowered &lowered, int64_t lmem_bytes);

/// All of these, for that much local memory.
Status lower_all(graph::CoreGraph &core, int64_t lmem_bytes, Lowered &out);

/// Has small inputs and constants that are read several times loaded once. lower() ends with it.
void share_loads(Lowered &lowered);

/// Appends a tensor as it is.
int64_t append_tensor(Coefficients &coeff, const graph::TensorPtr &tensor);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_LOWERED_H
