// SPDX-License-Identifier: MIT
#include "runtime/launch/exec/convert.h"

#include "npu_isa.hpp"
#include "runtime/launch/model/card.h"

namespace npurt {

void ConverterDelete::operator()(Converter *converter) const { delete converter; }

/// One COPY for `batches` batches from `batch` on, which are either whole words or less than one. A word is `lanes`
/// batches' elements of equal position. A stride whose dimension is 1 could be more than 32 bits; it means nothing.
void Converter::append(const Kind &kind, uint64_t batch, uint64_t batches, std::vector<uint8_t> &code) {
  const uint64_t words = batches < kind.lanes ? 1 : batches / kind.lanes, lanes = batches / words;
  const uint64_t dims[3] = {words, lanes, kind.inner};
  const uint64_t apart[3] = {kind.inner * kind.lanes, kind.inner, 1},
                 shared[3] = {kind.inner * kind.lanes, 1, kind.lanes};
  auto c = npu::hw::make<npu_cmd_copy>();
  c.src_region = 1;
  c.dst_region = 2;
  c.src_dtype = c.dst_dtype = kind.lanes == 4 ? NPU_DTYPE_U8 : NPU_DTYPE_U16;
  c.src_offset = c.dst_offset = batch * kind.inner * (4 / kind.lanes);
  for (unsigned d = 0; d < 6; ++d) {
    c.dims[d] = 1;
    if (d < 3) continue;
    c.dims[d] = static_cast<uint32_t>(dims[d - 3]);
    if (c.dims[d] == 1) continue;
    c.src_stride[d] = static_cast<int32_t>((kind.joins ? apart : shared)[d - 3]);
    c.dst_stride[d] = static_cast<int32_t>((kind.joins ? shared : apart)[d - 3]);
  }
  const auto *p = reinterpret_cast<const uint8_t *>(&c);
  code.insert(code.end(), p, p + sizeof c);
}

Status Converter::commands(const TensorInfo &tensor, bm_store_mode_t from, bm_store_mode_t to, Sealed &code,
                           uint32_t &count) {
  const bool joins = from == BM_STORE_1N;
  const uint64_t batch = batch_of(tensor.shape);
  const Kind kind{batch, bmrt_shape_count(&tensor.shape) / batch,
                  npu::bmodel::store_lanes(joins ? to : from, tensor.dtype), joins};
  const uint64_t whole = batch / kind.lanes * kind.lanes;
  count = (whole ? 1 : 0) + (whole < batch ? 1 : 0);
  std::lock_guard lock(mutex_);
  if (const auto at = known_.find(kind); at != known_.end()) {
    code = at->second;
    return {};
  }
  std::vector<uint8_t> bytes;
  if (whole) append(kind, 0, whole, bytes);
  if (whole < batch) append(kind, whole, batch - whole, bytes);
  NPU_TRY(seal(device_, "commands that change the store mode", bytes, code));
  if (known_.size() == kMost) known_.erase(known_.begin());
  known_.emplace(kind, code);
  return {};
}

Status converted_place(npu_device *device, bool output, size_t number, const TensorInfo &program, Scratch &scratch,
                       Place &out) {
  auto &own = scratch.converted[output];
  if (own.size() <= number) own.resize(number + 1);
  npu_bo *made = nullptr;
  if (!own[number] && npu_bo_create(device, program.bytes, DRM_NPU_BO_CARD, &made) != 0)
    return npu_error().within("memory for '" + program.name + "' in another store mode");
  if (made) own[number].reset(made);
  out = {Bo(npu_bo_ref(own[number].get())), 0, program.bytes};
  return {};
}

}  // namespace npurt
