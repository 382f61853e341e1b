// SPDX-License-Identifier: MIT
// The oneDNN back end: floating-point products on oneDNN's primitives, those of 8 bits and all other commands on vector
// loops, strange shapes on the reference.
#ifndef NPU_MODEL_COMPUTE_ONEDNN_ONEDNN_BACKEND_H
#define NPU_MODEL_COMPUTE_ONEDNN_ONEDNN_BACKEND_H

#include <cmath>

#include "qemu-device/model/src/backend.h"
#include "qemu-device/model/src/compute/onednn/operation.h"
#include "qemu-device/model/src/compute/onednn/packed_cache.h"

namespace npu::model {

class Onednn final : public Reference {
 public:
  explicit Onednn(uint64_t max_packed_bytes) : packed_(max_packed_bytes) {}

  const char *name() const override { return "onednn"; }

  using Reference::run;
  bool run(const npu_cmd_conv &c, const void *in, const Streamed &wgt, const ProductParams &params, const void *psum,
           void *out) override;
  bool run(const npu_cmd_matmul &c, const void *in, const Streamed &wgt, const ProductParams &params, const void *psum,
           void *out) override;
  void run(const npu_cmd_pool &c, const void *in, void *out) override;
  void run(const npu_cmd_eltwise &c, const void *a, const void *b, void *out) override;
  void run(const npu_cmd_unary &c, const void *in, void *out) override;
  void run(const npu_cmd_softmax &c, const void *in, void *out) override;
  void run(const npu_cmd_reduce &c, const void *in, void *out) override;
  void run(const npu_cmd_norm &c, const void *in, const void *scale, const void *bias, void *out) override;
  void run(const npu_cmd_lut &c, const void *in, const void *table, void *out) override;
  void run(const npu_cmd_requant &c, const void *in, const void *in_scales, const void *out_scales, void *out) override;
  void run(const npu_cmd_select &c, const void *a, const void *b, const void *condition, void *out) override;
  void forget(uint32_t asid) override { packed_.forget(asid); }
  void trim() override { ThreadState::current().trim(); }

 private:
  // Packed weights for one command: a shared copy of constant ones or the thread's own of the others.
  struct Weights {
    PackedCache::Ref shared;
    dnnl::memory memory;
    double reach = INFINITY;  ///< of a CONV's weights; where they are not constant only if padding makes it matter
    bool padded = false;
  };
  /// Which elements of a streamed operand they are made of.
  struct WeightPart {
    uint8_t dtype;
    size_t first, count;
    const npu_cmd_conv *conv;  ///< null of a MATMUL
  };
  // Fetches only where no copy exists. False: could not be fetched.
  bool weights(Operation &op, const Streamed &source, const WeightPart &part, Weights &w);

  bool run_bytes(const npu_cmd_conv &c, const void *in, const Streamed &wgt, const ProductParams &params,
                 const void *psum, void *out);
  bool run_bytes(const npu_cmd_matmul &c, const void *in, const Streamed &wgt, const ProductParams &params,
                 const void *psum, void *out);

  PackedCache packed_;
};

}  // namespace npu::model

#endif  // NPU_MODEL_COMPUTE_ONEDNN_ONEDNN_BACKEND_H
