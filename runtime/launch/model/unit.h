// SPDX-License-Identifier: MIT
// A program on a card: commands and coefficients, sealed, and the tensors that its regions name.
#ifndef NPURT_UNIT_H
#define NPURT_UNIT_H

#include <string>
#include <vector>

#include "bmruntime_interface.h"
#include "runtime/bmodel/flow.h"
#include "runtime/launch/error.h"
#include "runtime/launch/model/user_memory.h"
#include "runtime/launch/trace/trace.h"

namespace npurt {

struct TensorInfo {
  std::string name;
  bm_data_type_t dtype;
  bm_shape_t shape;
  bm_store_mode_t mode;
  uint64_t bytes;  ///< as it is stored
  float scale;     ///< as bm_net_info_t has it
  int zero_point;
  float step;  ///< what one step of integers stands for, as the file says; 0: it does not
};

/// "[1,3,8]"
std::string shape_text(const bm_shape_t &s);
/// Dimension 0; a scalar is a batch of one.
uint64_t batch_of(const bm_shape_t &shape);
/// Bytes of a tensor in a store mode that its type may have: batches that share words are filled up.
uint64_t stored_bytes(bm_data_type_t dtype, const bm_shape_t &shape, bm_store_mode_t mode);
/// The tensor is now in this store mode, which its type may have.
void store_as(bm_store_mode_t mode, TensorInfo &tensor);

/// Of a checked tensor.
TensorInfo read_tensor(const npu::bmodel::fb::Tensor &t);
std::vector<TensorInfo> read_tensors(const npu::bmodel::TensorList &list);

/// Whether names and types are the same.
bool same_tensors(const std::vector<TensorInfo> &a, const std::vector<TensorInfo> &b);

/// The tensors for a batch of `rows`; 0: as they are.
std::vector<TensorInfo> with_rows(const std::vector<TensorInfo> &tensors, int rows);

/// Constant once it is made.
struct Unit {
  std::vector<TensorInfo> inputs, outputs;
  std::vector<npu_program_region> regions;
  std::vector<npu_program_alias> aliases;
  std::vector<std::string> layers;
  uint64_t lmem_bytes = 0;
  uint64_t predicted_cycles = 0;
  uint32_t tiu_count = 0, gdma_count = 0;  ///< of all cores
  std::vector<drm_npu_stream> streams;     ///< one a core, with places in `code`; the regions are not filled in
  uint64_t copy_offset = 0;                ///< of one COPY command an output in `code`: staged output to its memory
  Constant code, coeff;
  TracedCode traced;  ///< the commands, where somebody traces
};

/// Bytes of a program's commands, as they are uploaded.
uint64_t code_bytes(const npu::bmodel::Program &program, size_t outputs);

/// Uploads a program whose tensors are in `unit` already. `who` begins the reason: "network 'x'".
Status upload_unit(npu_device *device, const std::string &who, const npu::bmodel::Program &program,
                   std::span<const uint8_t> coeff, UserMemory &user, Unit &unit);

}  // namespace npurt

#endif  // NPURT_UNIT_H
